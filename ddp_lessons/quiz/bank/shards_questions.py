"""Lesson 15: models that do not fit on one rank."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="A model with one billion parameters in float32 is trained with Adam and DDP on 8 ranks. What does "
        "each rank hold, without activations and buckets?",
        right="16 GB",
        letter="a",
        why="Each parameter takes 4 bytes for the weight, 4 for its gradient and 8 for Adam's two values. DDP keeps "
        "all of it on every rank.",
        wrong={
            "4 GB": "That is only the weights. Training also needs a gradient per weight, and Adam keeps two more "
            "values.",
            "2 GB": "DDP divides the batch, not the model, so each rank holds everything. FSDP2 would get down to 16 "
            "/ 8 = 2 GB.",
            "8 GB": "Weights and gradients take that much. Adam's two running averages take another 8 GB.",
        },
        look_at="Count what a training run keeps in memory",
    ),
    Question(
        text="The model of question 1, but the optimizer state is sharded over 4 ranks (ZeRO-1, without extra "
        "copies). What does a rank hold?",
        right="10 GB",
        letter="c",
        why="The 4 GB of weights and 4 GB of gradients stay whole. Of Adam's 8 GB, each rank keeps a quarter.",
        wrong={
            "4 GB": "That is a quarter of everything, as with FSDP2. Here only the optimizer state is sharded.",
            "12 GB": "Then each rank would keep half of Adam's 8 GB. With four ranks, each keeps 2 GB.",
            "16 GB": "That is DDP. With ZeRO-1, a rank updates only a quarter of the weights and needs Adam's values "
            "only for these.",
        },
        look_at="Shard the optimizer state by hand: ZeRO-1",
    ),
    Question(
        text="Seven elements are cut into shards for three ranks. What does rank 2 get?",
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
        why="The collectives need shards of equal length. 7 / 3, rounded up, is 3, and zeros pad the end.",
        wrong={
            "`[7.0]`": "Those are the right elements, but the shards would differ in length. `all_gather` and "
            "`reduce_scatter` need equal lengths.",
            "`[6.0, 7.0]`": "Lengths 3, 2 and 2 are as equal as they can be without padding. They still differ.",
            "`[5.0, 6.0, 7.0]`": "Then the 5 and the 6 would be in two shards and be counted twice. Padding adds "
            "zeros only.",
        },
        look_at="Exercise: cut a tensor into shards",
    ),
    Question(
        text="In each step, FSDP2 sends half as much again as DDP. Why?",
        right="The weights are all-gathered a second time.",
        letter="d",
        why="DDP's all_reduce is one reduce_scatter and one all_gather. FSDP2 frees the weights after the forward pass "
        "and all-gathers them again for the backward pass.",
        wrong={
            "Every shard is padded with zeros to the same length.": "Padding adds a few elements at the end, not half "
            "of the model.",
            "Many small calls send more than a single large one.": "They cost more latency, but however many calls "
            "there are, the bytes stay the same.",
            "Adam's two values for each weight travel as well.": "They never travel. Each rank updates its own shard "
            "and keeps the optimizer state for it.",
        },
        look_at="Shard everything: FSDP2 and fully_shard",
    ),
    Question(
        text="A pipeline has 4 stages and 8 micro-batches. In the forward pass, each micro-batch takes one time slot "
        "per stage. How long does it take, and how long does a stage work?",
        right="11 slots, of which it works 8",
        letter="a",
        why="It takes M + S - 1 = 8 + 3 slots. The other three are the bubble.",
        wrong={
            "8 slots, of which it works 8": "The last stage cannot start before the first micro-batch has passed the "
            "three other stages.",
            "32 slots, of which it works 8": "That is one micro-batch after the other, with the other stages idle. "
            "The batch is cut so that they overlap.",
            "12 slots, of which it works 8": "M + S is one slot too many. The first micro-batch reaches the last "
            "stage after S - 1 slots.",
        },
        look_at="Fill the pipeline: micro-batches, GPipe and 1F1B",
    ),
    Question(
        text="The batch becomes twice as large. What happens to the bytes sent per step with DDP and with tensor "
        "parallel?",
        right="DDP: the same; tensor parallel: twice as many",
        letter="c",
        why="DDP sends gradients, one per weight. Tensor parallel sends activations, which grow with the batch.",
        wrong={
            "DDP: twice as many; tensor parallel: the same": "It is the other way round. A gradient has the shape of "
            "its weight, for any batch size.",
            "Both: twice as many, as there is twice the work": "The computation doubles, but DDP sends only gradients, "
            "and their number does not depend on the batch.",
            "Both: the same, as the model has not changed": "That is true for weights and gradients. Tensor parallel "
            "sends activations, which grow with the batch.",
        },
        look_at="Split each layer: tensor parallel",
    ),
)
