"""Lesson 13: models that no longer fit."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="A model of one billion weights in float32, trained with Adam and DDP on 8 ranks. What does each "
        "rank hold, without activations and buckets?",
        right="16 GB",
        letter="a",
        why="4 bytes each for the weight, its gradient and Adam's two numbers, and DDP keeps all of it on every rank.",
        wrong={
            "4 GB": "That is the weights alone. Training needs a gradient for each, and Adam remembers two "
            "numbers more.",
            "2 GB": "DDP shares out the batch, not the model: with eight ranks each still holds everything. 16 / "
            "8 is what FSDP2 would reach.",
            "8 GB": "Weights and gradients are that much. Adam's two running means are as large again.",
        },
        look_at="What a rank holds",
    ),
    Question(
        text="The model of question 1, but Adam's numbers are shared out over 4 ranks (ZeRO-1, no further "
        "copies). What does a rank hold?",
        right="10 GB",
        letter="c",
        why="4 GB of weights and 4 GB of gradients stay whole; of Adam's 8 GB each rank keeps a quarter.",
        wrong={
            "4 GB": "A quarter of everything is FSDP2. Here only the optimizer's memory is cut.",
            "12 GB": "That would be half of Adam's 8 GB. Four ranks share it, so each has 2 GB.",
            "16 GB": "That is DDP's figure. Each rank steps for its quarter of the weights only, so it needs "
            "Adam's memory of that quarter and no other.",
        },
        look_at="Cut by hand",
    ),
    Question(
        text="Seven numbers are cut into shards for three ranks. What does rank 2 get?",
        program=Program(
            """
from ddp_lessons.train.sharding import shard

def f(rank, world_size):
    return shard(torch.arange(1.0, 8.0)).tolist()
""",
            holds='str(results[2]) == right.strip("`")',
            ranks=3,
        ),
        right="`[7.0, 0.0, 0.0]`",
        letter="b",
        why="Collectives want shards of one length: 7 / 3, rounded up, is 3. What is missing at the end is filled "
        "up with zeros.",
        wrong={
            "`[7.0]`": "The numbers are right, but then the shards had different lengths, and `all_gather` and "
            "`reduce_scatter` want equal ones.",
            "`[6.0, 7.0]`": "That is as equal as can be without padding: 3, 2 and 2. But it is not equal.",
            "`[5.0, 6.0, 7.0]`": "Then the 5 and the 6 would be in two shards, and counted twice. Padding adds "
            "zeros, not neighbours.",
        },
        look_at="Exercise: cut a shard",
    ),
    Question(
        text="FSDP2 sends half as much again as DDP in a step. Why?",
        right="Weights are gathered twice, gradients scattered once.",
        letter="d",
        why="Once for forward, again for backward, since they were let go. DDP's all_reduce is one scatter and "
        "one gather: three against two.",
        wrong={
            "Every shard is padded with zeros to the same length.": "Padding adds a few numbers at the end, not "
            "half of the model.",
            "Many small calls send more than a single large one.": "They cost more latency. The bytes are the "
            "same however many calls carry them.",
            "Adam's two numbers for each weight travel as well.": "They never travel: each rank steps for its own "
            "shard and keeps its own memory of it.",
        },
        look_at="Cut everything: FSDP2",
    ),
    Question(
        text="A pipeline of 4 stages, 8 micro-batches, forward only, each of them one tick on a stage. How long "
        "does it take, and how long does a stage work?",
        right="11 ticks, of which it works 8",
        letter="a",
        why="M + S - 1 = 8 + 3. The other three are the bubble; more micro-batches make it a smaller part.",
        wrong={
            "8 ticks, of which it works 8": "The last stage cannot begin before the first micro-batch has been on "
            "the three others.",
            "32 ticks, of which it works 8": "That is one micro-batch after the other, with all other stages "
            "idle. They overlap: that is what the batch is cut for.",
            "12 ticks, of which it works 8": "M + S counts one tick too often: the first micro-batch reaches the "
            "last stage after S - 1 ticks.",
        },
        look_at="Cut between layers: pipelines",
    ),
    Question(
        text="The batch is made twice as large. What happens to the bytes that a step sends with DDP and with "
        "tensor parallel?",
        right="DDP: the same; tensor parallel: twice as many",
        letter="c",
        why="DDP sends gradients, as many as there are weights. Tensor parallel sends activations, and these grow "
        "with the batch.",
        wrong={
            "DDP: twice as many; tensor parallel: the same": "The other way round. A gradient has the shape of "
            "the weights, whatever the batch.",
            "Both: twice as many, as there is twice the work": "The computing doubles. But what travels is not "
            "the work, it is what the others need of it.",
            "Both: the same, for the model has not changed": "That holds where weights or gradients travel. "
            "Between parts of a layer it is activations.",
        },
        look_at="Cut the layers: tensor parallel",
    ),
)
