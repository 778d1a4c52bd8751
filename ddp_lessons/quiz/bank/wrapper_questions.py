"""Lesson 7: what DistributedDataParallel does, and when."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="After wrapping, rank 1 alone adds 1 to its weight. What becomes of the difference?",
        program=Program(
            """
def f(rank, world_size):
    model = DDP(nn.Linear(1, 1, bias=False))
    if rank == 1:
        model.module.weight.data += 1
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.ones(1, 1)).square().sum().backward()
        optimizer.step()
    return model.module.weight.item()
""",
            holds='abs(results[1] - results[0] - 1) < 1e-5 and right.startswith("It stays")',
        ),
        right="It stays: nobody sends weights again.",
        letter="d",
        why="DDP gives out rank 0's weights once, at the start. Afterwards ranks are peers that take equal steps, "
        "from wherever they are.",
        wrong={
            "It is gone after the next `backward()`.": "`backward()` averages gradients, not weights. A common "
            "step moves both ranks alike and leaves the distance as it is.",
            "It is gone after the next forward pass.": "That is true of buffers, which rank 0 sends before a "
            "forward pass. Parameters are sent once only, at construction.",
            "DDP raises an error in the next step.": "Nobody compares the weights of the ranks. Look yourself now "
            "and then, by fingerprints.",
        },
        look_at="Wrapping",
    ),
    Question(
        text="Two ranks, no optimizer. What do both return?",
        program=Program(
            """
def f(rank, world_size):
    model = DDP(nn.Linear(1, 1, bias=False))
    x = torch.tensor([[2.0 if rank == 0 else 6.0]])
    model(x).sum().backward()
    return model.module.weight.grad.item()
""",
            holds='[str(value) for value in results] == [right.strip("`")] * 2',
        ),
        right="`4.0`",
        letter="b",
        why="The gradient is the input, 2 and 6. When `backward()` is over, `.grad` holds the mean on every rank; "
        "`step()` finds it there.",
        wrong={
            "`2.0` and `6.0`": "So it would be without DDP, or if the averaging waited for `step()`. It is done "
            "by hooks in the midst of `backward()`.",
            "`8.0`": "That is the sum. DDP divides by the number of ranks, so that the gradient does not depend on it.",
            "`2.0`": "Rank 0's weights were sent to all, at the start. Gradients are nobody's privilege: they are "
            "averaged.",
        },
        look_at="`backward()` averages",
    ),
    Question(
        text="Four parts for one step. How many `all_reduce` calls does rank 0 make?",
        program=Program(
            """
def f(rank, world_size):
    model = DDP(nn.Linear(1, 1, bias=False))
    for part in range(4):
        loss = model(torch.ones(1, 1)).sum()
        if part < 3:
            with model.no_sync():
                loss.backward()
        else:
            loss.backward()
""",
            holds='sum(event.operation == "all_reduce" for event in results.events.of(0)) == int(right[0])',
        ),
        right="4: the forward passes stand outside of `no_sync`",
        letter="c",
        why="DDP decides in the forward pass whether the coming `backward()` will talk. The gradient is right all "
        "the same, so only the count tells.",
        wrong={
            "1: only the last `backward()` stands outside of it": "That was the plan, and so it would be with the "
            "forward pass inside as well. `no_sync` is asked there, not in `backward()`.",
            "3: those within `no_sync` are made up for at the end": "Nothing is made up for. Either a "
            "`backward()` talks or its gradients are only added to `.grad`.",
            "0: `no_sync` once used keeps the model quiet for good": "It holds for its `with` block. The last "
            "part lies outside in any reading.",
        },
        look_at="Several batches for one step",
    ),
    Question(
        text="A model has two heads, and no batch uses the second. DDP without switches. What do you see, and when?",
        right="An error in the forward pass of the second step",
        letter="a",
        why="The first `backward()` ends with a bucket that never set off, so its gradients are not averaged. The "
        "next forward pass finds that.",
        wrong={
            "An error in `backward()` of the very first step": "It would be the right place to complain, but "
            "`backward()` just ends: a gradient that does not come is nothing that it can see.",
            "Nothing: the unused head keeps `None`, as it should": "So it is with `find_unused_parameters=True`. "
            "Without it a bucket waits for a gradient that never comes.",
            "A standstill in `backward()` of the first step": "The bucket waits, but no rank waits for the "
            "bucket: `backward()` is over when all gradients that there are have come.",
        },
        look_at="A parameter that has no part in it",
    ),
    Question(
        text="Ten layers, several buckets. Which gradients set off first, from the second step on?",
        right="Those of the last layers",
        letter="d",
        why="`backward()` goes from the end of the model to its beginning. While it still computes the first "
        "layers, these are on their way: that is the overlap.",
        wrong={
            "Those of the first layers": "So the model is written, and so the forward pass goes. `backward()` "
            "goes the other way, and DDP rebuilds its buckets after the first step to fit.",
            "The largest, to get them over with": "Size only decides what fits into a bucket. A bucket sets off "
            "when all of its gradients are there.",
            "All together, when `backward()` ends": "So it is with a single bucket, as in the first step here. "
            "Then nothing is left to compute while they travel.",
        },
        look_at="Buckets",
    ),
    Question(
        text="The model is on the CPU. A note replaces `model.to(0)` by `DDP(model, device_ids=[0])`. What happens?",
        right="DDP refuses it: the model is not on GPU 0.",
        letter="b",
        why="`device_ids` says where a model is. Write both: `DDP(model.to(0), device_ids=[0])`.",
        wrong={
            "DDP moves it to GPU 0, as the option says.": "It moves the inputs of each call there, never the "
            "model. The name invites the mistake.",
            "It trains on the CPU and ignores the option.": "A slow training would be a trap. This is kinder: DDP "
            "compares and raises a `ValueError`.",
            "It fails in the first forward pass on a GPU.": "So a plain model would, whose inputs are elsewhere. "
            "DDP looks before, when it wraps.",
        },
        look_at="Two old mistakes",
    ),
)
