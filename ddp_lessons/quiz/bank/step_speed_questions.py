"""Lesson 13: a cost model of a training step, links, and timing on a GPU."""

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
            "Almost 96 times as fast as on one rank": "96% of the time is divided. The limit comes from the other "
            "4%, which is a twenty-fifth of the step.",
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
    Question(
        text="On 8 GPUs, an all-reduce of 1 GB takes 10 ms. How many GB per second does each link carry in one "
        "direction?",
        right="175: the bus bandwidth",
        letter="c",
        why="The algorithm bandwidth is 1 / 0.01 = 100 GB/s. In a ring, each rank sends 2 x 7 / 8 = 1.75 GB.",
        wrong={
            "100: the algorithm bandwidth": "In a ring, each rank sends the data almost twice, to add up and to spread "
            "the sums. Multiply by 2 (n - 1) / n.",
            "800: all GPUs together": "That would add up eight links. The question is about one of them.",
            "12.5: an eighth for each GPU": "Each message is an eighth of the data, but each rank sends 14 of them.",
        },
        look_at="Links: NVLink, PCIe, InfiniBand and `nvidia-smi topo -m`",
    ),
    Question(
        text="A rank starts with `CUDA_VISIBLE_DEVICES=4,5` on a machine with eight GPUs. What are these two "
        "called in it?",
        right="`cuda:0` and `cuda:1`",
        letter="c",
        why="A process numbers its visible GPUs from 0. So each job can have a part of the machine, and the local "
        "rank still chooses the GPU.",
        wrong={
            "`cuda:4` and `cuda:5`": "These are their numbers in `nvidia-smi`. In the process, `cuda:4` raises "
            "*invalid device ordinal*.",
            "`cuda:0` to `cuda:7`": "The variable hides the other six GPUs, so the process sees and counts only two.",
            "`cuda:4,5`, as one": "A device is always one GPU. Each rank takes one of the two, by its local rank.",
        },
        look_at="Links: NVLink, PCIe, InfiniBand and `nvidia-smi topo -m`",
    ),
    Question(
        text="On a GPU, you time `model(images)` with `time.perf_counter()` and get 0.4 ms. The whole step takes "
        "50 ms. What did you measure?",
        right="The time to queue the kernels",
        letter="a",
        why="A call returns as soon as its kernels are in the queue. Call `torch.cuda.synchronize()` before you read "
        "the clock, at both ends.",
        wrong={
            "The forward pass: the rest is the backward pass": "The backward pass takes about twice as long as "
            "the forward pass, not a hundred times as long.",
            "The forward pass, without the copy of the images": "A copy also waits in the queue. Without "
            "`synchronize`, the clock sees neither of them.",
            "The first kernel, because the others run later": "The clock does not wait for the first kernel either. "
            "Nothing in this call waits for the GPU.",
        },
        look_at="Time a GPU, and feed it",
    ),
)
