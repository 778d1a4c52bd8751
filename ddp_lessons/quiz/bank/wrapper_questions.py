"""Lesson 7: what DistributedDataParallel does, and when."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="After wrapping, rank 1 alone adds 1 to its weight. What happens to the difference?",
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
        right="It stays: DDP sends weights only once.",
        letter="d",
        why="DDP broadcasts rank 0's weights once, when it wraps the model. After that, all ranks take the same steps "
        "from wherever they are.",
        wrong={
            "It is gone after the next `backward()`.": "`backward()` averages gradients, not weights. Both ranks take "
            "the same step, so the difference stays as it is.",
            "It is gone after the next forward pass.": "That is true of buffers, which rank 0 broadcasts before each "
            "forward pass. Parameters are sent only once, when DDP wraps the model.",
            "DDP raises an error in the next step.": "DDP doesn't compare the weights of the ranks. Check them "
            "yourself now and then, for example by their fingerprints.",
        },
        look_at="Wrap a model: rank 0 broadcasts its weights",
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
        why="The gradient is the input, 2 on rank 0 and 6 on rank 1. When `backward()` returns, `.grad` holds the mean "
        "on every rank.",
        wrong={
            "`2.0` and `6.0`": "That is the result without DDP. With DDP, hooks average the gradients in the middle of "
            "`backward()`, without waiting for `step()`.",
            "`8.0`": "That is the sum. DDP divides by the number of ranks, so the size of the gradient doesn't depend "
            "on it.",
            "`2.0`": "DDP broadcast the weights of rank 0 when it wrapped the model. But it averages the gradients of "
            "all ranks.",
        },
        look_at="`backward()` averages the gradients",
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
        right="4: the forward passes are outside of `no_sync`",
        letter="c",
        why="DDP decides in the forward pass whether the next `backward()` communicates. The gradient is right in both "
        "cases, so only the number of calls shows the difference.",
        wrong={
            "1: only the last `backward()` is outside of it": "That was the plan, and it would work with the forward "
            "pass inside as well. DDP looks at `no_sync` there, not in `backward()`.",
            "3: those within `no_sync` are made up for at the end": "DDP makes up for nothing. A `backward()` either "
            "communicates or only adds its gradients to `.grad`.",
            "0: `no_sync`, once used, turns communication off for good": "It holds only for its `with` block, and the "
            "last part is outside of every such block.",
        },
        look_at="Gradient accumulation with `no_sync`",
    ),
    Question(
        text="A model has two heads, and no batch uses the second. DDP has its default options. What do you see?",
        right="An error in the forward pass of the second step",
        letter="a",
        why="The first `backward()` ends with a bucket that was never sent, so its gradients are not averaged. The "
        "next forward pass finds the unfinished bucket.",
        wrong={
            "An error in `backward()` of the very first step": "It would be the right place, but `backward()` just "
            "ends. A gradient that never comes triggers no hook.",
            "Nothing: the unused head keeps `None`, as it should": "That is what happens with "
            "`find_unused_parameters=True`. Without it, a bucket waits for a gradient that never comes.",
            "A hang in `backward()` of the very first step": "The bucket waits, but no rank waits for the bucket. "
            "`backward()` returns after the last gradient that does come.",
        },
        look_at="Unused parameters: `find_unused_parameters`",
    ),
    Question(
        text="Ten layers, several buckets. Which gradients does DDP send first, from the second step on?",
        right="Those of the last layers",
        letter="d",
        why="`backward()` goes from the end of the model to its beginning. While it still computes the first layers, "
        "the gradients of the last ones are on their way. That is overlap.",
        wrong={
            "Those of the first layers": "That is the order of the forward pass. `backward()` goes the other way, and "
            "DDP rebuilds its buckets in that order after the first step.",
            "The largest, to get them done": "The size only decides what fits into a bucket. A bucket is sent as soon "
            "as all of its gradients are complete.",
            "All together, when `backward()` ends": "That happens with a single bucket, as in the first step in the "
            "lesson. Then there is no computation left to overlap with.",
        },
        look_at="Group gradients into buckets",
    ),
    Question(
        text="The model is on the CPU. A script replaces `model.to(0)` by `DDP(model, device_ids=[0])`. What happens?",
        right="An error: the model is not on GPU 0.",
        letter="b",
        why="`device_ids` says where the model already is. Write both: `DDP(model.to(0), device_ids=[0])`.",
        wrong={
            "DDP moves it to GPU 0, as the option says.": "It moves the inputs of each call there, but never the "
            "model. The name is misleading.",
            "It trains on the CPU and ignores the option.": "Then you would notice only that training is slow. DDP "
            "compares the devices and raises a `ValueError`.",
            "It fails in the first forward pass on a GPU.": "A plain model would, if its inputs were on another "
            "device. DDP checks earlier, when it wraps the model.",
        },
        look_at="Wrap a model: rank 0 broadcasts its weights",
    ),
)
