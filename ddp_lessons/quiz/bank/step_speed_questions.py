"""Lesson 18: a cost model of a training step, and what it predicts for many ranks."""

from __future__ import annotations

from ddp_lessons.quiz.question import Question

QUESTIONS = (
    Question(
        text="On one rank, a step takes a fixed 4 ms plus 96 ms for the images. Messages cost nothing. How fast can a "
        "step get with very many ranks and the same batch?",
        right="Almost 25 times as fast as on one rank",
        letter="b",
        why="One rank takes 100 ms. The images' 96 ms shrink toward 0, but every rank needs the fixed 4 ms, and "
        "100 / 4 = 25.",
        wrong={
            "N times as fast, with any number N of ranks": "Only the 96 ms for the images are divided by N. Every rank "
            "needs the fixed 4 ms in full, however few images it has.",
            "Almost 96 times as fast as on one rank": "96 % of the time is divided. The limit comes from the other "
            "4 %, which is a twenty-fifth of the step.",
            "Almost twice as fast as on one rank": "With two ranks it is already 100 / (4 + 48), almost twice as fast. "
            "With more ranks, the images take even less time.",
        },
        look_at="Model a step: computation plus communication",
    ),
    Question(
        text="A ring all-reduce runs on 16 ranks with a latency of 0.1 ms. How much latency does a 17th rank add?",
        right="0.2 ms: two more messages in a row",
        letter="d",
        why="A ring of N ranks sends 2 (N - 1) messages one after the other, 30 with 16 ranks and 32 with 17.",
        wrong={
            "0.1 ms: one more message in a row": "A ring has two halves, and one more rank adds a message to each of "
            "them. That makes two messages.",
            "None: all ranks send at the same time": "They do send at the same time, but in steps that follow one "
            "after the other. One more rank means two more steps.",
            "3.2 ms: 32 messages instead of 30": "3.2 ms is the latency of all 32 messages. The first 30 of them were "
            "there before.",
        },
        look_at="Model a step: computation plus communication",
    ),
    Question(
        text="On one rank, the images of a batch take 32 ms. The latency is 0.5 ms. Does it pay to go from 8 to 16 "
        "ranks with the same batch?",
        right="No: it saves 2 ms and adds 8 ms of latency",
        letter="a",
        why="The images take 2 ms instead of 4. The ring sends 30 messages instead of 14, and 16 more take 8 ms.",
        wrong={
            "Yes: it halves the time for the images": "It does halve it, from 4 ms to 2. But the ring has 16 more "
            "messages, and each of them takes 0.5 ms of latency.",
            "Yes: it halves the size of each message": "Smaller messages take less time for their bytes, but as much "
            "latency as before, and there are more than twice as many.",
            "No: it doubles the fixed time of a step": "The fixed time stays the same. All ranks spend it at the same "
            "time, each on its own core.",
        },
        look_at="Explore up to 64 ranks",
    ),
    Question(
        text="A step of one process takes 6 ms with 32 images and 14 ms with 96 images. What is the fixed time?",
        right="2 ms",
        letter="c",
        why="64 more images take 8 ms, so one image takes 0.125 ms and 32 images take 4 ms. That leaves 6 - 4 = 2 ms.",
        wrong={
            "6 ms": "The step with 32 images also contains the time for these images, which is 4 ms.",
            "4 ms": "4 ms is what 32 images take, at 0.125 ms each. The fixed time is what is left of the 6 ms.",
            "0 ms": "Without a fixed time, three times as many images would take three times as long, which is 18 ms.",
        },
        look_at="Measure the model's numbers on your machine",
    ),
    Question(
        text="On two cores, you train with four ranks instead of two, and with the same batch. What does the model "
        "predict?",
        right="A slower step: the same cores, but more messages",
        letter="b",
        why="The two cores compute as many images as before. They also pay the fixed time of four ranks, and the ring "
        "is longer.",
        wrong={
            "A faster step: each rank has half as many images": "Each rank does have half as many. But two ranks take "
            "turns on each core, so a core computes as many images as before.",
            "The same step: the cores compute the same images": "That is true for the images. But two more ranks also "
            "bring their fixed time and more messages.",
            "A step twice as long: each rank gets half a core": "Each rank gets half a core, but also half as many "
            "images. Only the fixed time doubles, and the ring gets longer.",
        },
        look_at="Compare the prediction with the measurement",
    ),
    Question(
        text="With several ranks, your measured throughput is below the model's curve. Which of these explains it?",
        right="In every step, the ranks wait for the straggler.",
        letter="d",
        why="The model assumes that all ranks need the same time. In fact, a step takes as long as its slowest rank.",
        wrong={
            "The gradients fit into a single bucket.": "Then nothing can overlap, and the model assumes no overlap "
            "either. So this makes no difference to the curve.",
            "Communication overlaps with computation.": "That makes steps shorter than the model predicts, because it "
            "adds up both times. The points would be above the curve.",
            "Other programs slowed down the ping-pong.": "Then the model has a latency that is too large, and "
            "predicts steps that are too slow. The points would be above the curve.",
        },
        look_at="Compare the prediction with the measurement",
    ),
)
