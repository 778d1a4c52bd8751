"""Lesson 8: a complete training run, saved and measured."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks train together. They log different losses, but the same accuracy. Is something wrong?",
        right="No: losses are of different images, counts are added up.",
        letter="b",
        why="Each rank logs the loss of its own part of the batch. For the accuracy, they have the same model and add "
        "up their counts.",
        wrong={
            "Yes: with equal weights, the two losses have to be equal.": "Equal weights give equal losses on equal "
            "data. Here, each rank has different images.",
            "Yes: models with different losses can't agree on a count.": "The weights are equal after every step, so "
            "the models don't differ. Only their inputs do.",
            "No: DDP averages the losses only at the end of an epoch.": "DDP never averages a loss, only gradients. "
            "For the mean loss, add the losses up yourself.",
        },
        look_at="Train with DDP: the complete program",
    ),
    Question(
        text="Two machines with four GPUs each. How many processes write under `if local_rank == 0:`?",
        right="Two, one on each machine",
        letter="c",
        why="The local rank starts at 0 on every machine. For one writer in the whole job, use `dist.get_rank() == 0`.",
        wrong={
            "One, the first of all eight": "That would be rank 0. Rank 4 is the first one on its machine, so its "
            "local rank is 0, too.",
            "Four, those with a GPU number 0": "Only one GPU on each machine has the number 0, and there are two "
            "machines.",
            "Eight, as all have the same model": "All ranks have it, which is why one writer is enough. But the "
            "condition is true for only two of them.",
        },
        look_at="Checkpoints: three common mistakes",
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
        why="The wrapper is a module that contains your model under the name `module`. Save "
        "`model.module.state_dict()`, which loads with and without DDP.",
        wrong={
            "`['weight', 'bias']`": "These are the names in the model inside. The wrapper's `state_dict` puts the "
            "name under which it keeps the model in front of them.",
            "`['module']`": "A `state_dict` is flat. It lists every tensor by its full name, such as `module.weight`.",
            "`['rank0.weight', 'rank0.bias']`": "The names don't contain the rank, they are the same on all ranks. "
            "Only the wrapper adds something to them.",
        },
        look_at="Checkpoints: three common mistakes",
    ),
    Question(
        text="A job is killed in the middle of `torch.save(state, path)`, with an older checkpoint at `path`. What is "
        "there now?",
        right="Half a file, and the older one is gone",
        letter="d",
        why="Opening the file for writing empties it at once. Write to another name, then rename it with `os.replace`, "
        "which happens completely or not at all.",
        wrong={
            "The older one, as the new one is incomplete": "`torch.save` writes directly into the file at `path`. To "
            "keep the older one, write to another name first.",
            "Both, as the system keeps old contents": "There is only one file at a path, and writing replaces its "
            "contents. The system doesn't keep the old ones.",
            "The new one, which the system completes": "What the process had not yet written is lost with it. The "
            "system only finishes writes that it has already received.",
        },
        look_at="Checkpoints: three common mistakes",
    ),
    Question(
        text="A network with dropout resumes from a file with weights, optimizer and epoch, but without the random "
        "states. What do you get?",
        right="A good training run, but not the interrupted one",
        letter="b",
        why="Dropout uses other random numbers than the interrupted run would have, so the weights differ. To resume "
        "to the same bits, save every rank's random state.",
        wrong={
            "The same training run, as the weights are the same": "The weights alone don't determine the next steps. "
            "Momentum, the order of the data and random numbers matter, too.",
            "An error, as the optimizer needs its random state": "The optimizer has no random state, and loading "
            "reports nothing. That is why it is easy to forget.",
            "Replicas that drift apart, as their dropout differs": "Dropout should differ between ranks. DDP averages "
            "the gradients anyway, so the replicas stay equal.",
        },
        look_at="Resume from a checkpoint",
    ),
    Question(
        text="A step takes 2 ms plus 0.25 ms for each image. 4 ranks, each with its own core, share a batch of 32, and "
        "messages cost nothing. How many times as fast are they as one rank?",
        right="2.5 times: 4 ms instead of 10",
        letter="c",
        why="One rank takes 2 + 32 x 0.25 = 10 ms. Each of four takes 2 + 8 x 0.25 = 4 ms. Every rank pays the fixed "
        "2 ms in full.",
        wrong={
            "4 times: 2.5 ms instead of 10": "The ranks share only the time for the images. Every rank pays the fixed "
            "2 ms in full, however few images it has.",
            "5 times: 2 ms instead of 10": "2 ms are only the fixed cost. Each rank still has to compute eight images.",
            "1 time: the batch is no smaller": "The batch is the same, but each rank computes a quarter of it. Strong "
            "scaling helps, just less than four times.",
        },
        look_at="When DDP is slower than one process",
    ),
)
