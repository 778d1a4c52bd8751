"""Lesson 8: a whole training, kept and measured."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks train together. Their loss curves differ, their accuracy is one number. Is something wrong?",
        right="No: the losses are of different digits, the count is common.",
        letter="b",
        why="Each tells the loss of its own share. For the accuracy they have one model and add up their counts.",
        wrong={
            "Yes: with equal weights the two losses would have to be equal.": "Equal weights give equal losses on "
            "equal data. The shares of a batch are different digits.",
            "Yes: two models whose losses differ cannot count the same.": "There are no two models: their weights "
            "agree after every step. What differs is what they were asked.",
            "No: DDP averages the losses only at the end of an epoch.": "DDP never averages a loss, only "
            "gradients. Who wants the common loss has to add it up.",
        },
        look_at="The whole program",
    ),
    Question(
        text="Two machines with four GPUs each. How many processes write under `if local_rank == 0:`?",
        right="Two, one on each machine",
        letter="c",
        why="The local rank counts anew on every machine. One writer has the global rank 0: `dist.get_rank() == 0`.",
        wrong={
            "One, the first of all eight": "That is the global rank 0. Rank 4 is also the first, on its machine, "
            "and its local rank is 0, too.",
            "Four, those with a GPU number 0": "Only one GPU on each machine has the number 0, and there are two "
            "machines.",
            "Eight, for all have the same model": "All have it, which is why one writer is enough. The condition "
            "is true for two of them.",
        },
        look_at="Save: three traps",
    ),
    Question(
        text="What does rank 0 return?",
        program=Program(
            """
def f(rank, world_size):
    model = DDP(nn.Linear(2, 1))
    return list(model.state_dict())
""",
            holds='str(results[0]) == right.strip("`")',
        ),
        right="`['module.weight', 'module.bias']`",
        letter="a",
        why="The wrapper is a module, and the model is a part of it named `module`. Save "
        "`model.module.state_dict()`, and it loads everywhere.",
        wrong={
            "`['weight', 'bias']`": "These are the names of the model inside. DDP does not hide itself: its own "
            "`state_dict` begins with the name under which it keeps the model.",
            "`['module']`": "A state dict is flat: it lists every tensor by its whole way, `module.weight`.",
            "`['rank0.weight', 'rank0.bias']`": "Names know nothing of ranks; all ranks have the same ones. It is "
            "the wrapper that adds to them.",
        },
        look_at="Save: three traps",
    ),
    Question(
        text="A job is killed in the midst of `torch.save(state, path)`, where an older checkpoint stood. What is "
        "at `path` now?",
        right="Half a file, and the older one is gone",
        letter="d",
        why="Opening it for writing empties it at once. Write beside it, then rename: `os.replace` happens at "
        "once or not at all.",
        wrong={
            "The older one, since the new is not complete": "`torch.save` writes into the file itself, with no "
            "draft. That is just what writing under another name is for.",
            "Both, for the system keeps what was there": "A path is one file. Who writes into it overwrites; no "
            "system keeps the former content by itself.",
            "The new one, which the system still completes": "What was still in the process is lost with it. The "
            "system only completes what it was already given.",
        },
        look_at="Save: three traps",
    ),
    Question(
        text="A net with dropout goes on from a file with weights, optimizer and epoch, but without the random "
        "states. What comes out?",
        right="A good training, but not the one that was stopped",
        letter="b",
        why="The masks differ from those that would have come, so the weights do. To go on bit for bit, each "
        "rank's random states belong into the file.",
        wrong={
            "The very same, for weights determine what follows": "They do not alone: momentum, the order of the "
            "data and the random numbers also decide each step.",
            "An error, for the optimizer misses random states": "The optimizer has none, and loading complains of "
            "nothing. That is why it is easily forgotten.",
            "Replicas that drift apart, since masks now differ": "Masks shall differ from rank to rank. Gradients "
            "are averaged all the same, so the replicas stay equal.",
        },
        look_at="Stop and go on",
    ),
    Question(
        text="A step costs 2 ms, whatever it does, and 0.25 ms for each image. A batch of 32 is shared by 4 "
        "ranks, each with a core; messages cost nothing. How many times as fast is that as one rank?",
        right="2.5 times: 4 ms in place of 10",
        letter="c",
        why="One rank: 2 + 32 x 0.25 = 10 ms. Four: 2 + 8 x 0.25 = 4 ms. Every rank pays the fixed part in full.",
        wrong={
            "4 times: 2.5 ms in place of 10": "Only what is done for images is shared. The fixed 2 ms stay, on "
            "every rank, and weigh the more the smaller the share.",
            "5 times: 2 ms in place of 10": "2 ms are the fixed part alone. Each rank still has eight images to "
            "compute.",
            "1 time: the batch is no smaller": "The batch is the same, but each rank computes a quarter of it: "
            "strong scaling does help, only less than hoped.",
        },
        look_at="How much faster?",
    ),
)
