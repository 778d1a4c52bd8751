"""Lesson 11: hangs, deadlocks and silent errors, and how to find them."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Rank 0 waits in `all_reduce` at line 5. Ranks 1 and 2 have returned. Where do you look for the bug?",
        right="At what made ranks 1 and 2 return without that call",
        letter="d",
        why="The rank that waits is rarely the one with the bug. Look for an `if rank == 0`, an early return or a "
        "missing batch.",
        wrong={
            "At line 5, because the program got stuck there": "Line 5 is where the hang shows. A collective waits "
            "for the other ranks, and those are somewhere else.",
            "At the network, because two ranks no longer answer": "They have returned, so they ended normally and "
            "make no further calls. The network is not involved.",
            "At the tensor of rank 0, which has a wrong shape": "A shape mismatch has a message of its own. Here "
            "the other ranks did not bring a tensor at all.",
        },
        look_at="A collective that only some ranks call",
    ),
    Question(
        text="Both ranks reduce a loss and an accuracy, but not in the same order. What does rank 0 return?",
        program=Program(
            """
def f(rank, world_size):
    loss = torch.tensor([1.0, 3.0][rank])
    accuracy = torch.tensor([10.0, 30.0][rank])
    first, second = (loss, accuracy) if rank == 0 else (accuracy, loss)
    dist.all_reduce(first)
    dist.all_reduce(second)
    return loss.item()
""",
            holds="results[0] == 31 and right.startswith('31')",
        ),
        right="31, and no error is reported",
        letter="a",
        why="Collectives carry no names. The first call of rank 0 is paired with the first call of rank 1: 1 + 30.",
        wrong={
            "4, whatever the order of the calls": "1 + 3 would need a way to recognize the loss. gloo knows only "
            "which call comes first.",
            "Nothing, because both ranks hang": "That happens if the two calls are of different kinds. Two calls of "
            "one kind and shape match.",
            "Nothing, because `launch` raises an error": "`launch` compares kind, shape, dtype, root and op. These "
            "all agree, and it cannot know what a value means.",
        },
        look_at="Mismatched collectives: a different order",
    ),
    Question(
        text="A model with BatchNorm is wrapped in DDP. After each epoch, rank 0 alone calls `model(images)` to "
        "validate. What happens?",
        right="Rank 0 hangs, because DDP broadcasts the buffers.",
        letter="c",
        why="DDP broadcasts the buffers of rank 0 before a forward pass, also in `eval()` mode. Use `model.module`.",
        wrong={
            "It works, because only `backward()` communicates.": "That is true for a model without buffers. The "
            "code works until someone adds a BatchNorm.",
            "It works if the model is in `eval()` mode.": "`eval()` changes what BatchNorm and dropout do. DDP still "
            "broadcasts the buffers in that mode.",
            "DDP raises an error, because one rank calls it alone.": "DDP cannot know that the other ranks will not "
            "call the model. It starts the broadcast and waits.",
        },
        look_at="DDP's hidden collectives",
    ),
    Question(
        text="A job on 8 GPUs uses NCCL with its default settings, and rank 3 never calls an `all_reduce`. What "
        "happens?",
        right="After 10 minutes a watchdog logs the call and aborts",
        letter="b",
        why="The watchdog logs `SeqNum` and `OpType` of the collective on each rank that waits, and ends its process.",
        wrong={
            "The job hangs until you find it and kill it by hand": "NCCL waits on the GPU, but a watchdog thread in "
            "each process checks how long.",
            "After 30 minutes the 7 other ranks raise an exception": "30 minutes is the default timeout of gloo, "
            "which raises an exception. NCCL has a shorter timeout and a watchdog.",
            "The 7 other ranks go on without the tensor of rank 3": "A collective has no result until every rank "
            "of its group has called it.",
        },
        look_at="NCCL timeouts: watchdog and Flight Recorder",
    ),
    Question(
        text="After an NCCL timeout, the dumps of four ranks agree in 56 calls. Call 57 is an `all_reduce` on ranks "
        "0 to 2 and a `broadcast` on rank 3. What do you do?",
        right="Find out why rank 3 took another path after call 56",
        letter="d",
        why="The first number at which the ranks differ leads to the bug. The `frames` of call 57 are its stack.",
        wrong={
            "Raise the timeout, because rank 3 was only slower": "A slower rank makes the same calls, later. Rank 3 "
            "made another call, and no timeout is long enough for that.",
            "Look at the network of rank 3, which loses packets": "A lost connection does not change which function "
            "rank 3 calls. The program decides that.",
            "Look at line 57 of the script, on every rank": "Call 57 is the 57th collective of the group, not a line. "
            "The line is in the entry's `frames`.",
        },
        look_at="NCCL timeouts: watchdog and Flight Recorder",
    ),
    Question(
        text="Which of these mistakes does `TORCH_DISTRIBUTED_DEBUG=DETAIL` explain?",
        right="An `all_reduce` of 3 elements paired with one of 4",
        letter="a",
        why="Under `DETAIL`, the ranks compare the operation, the shapes and the dtypes before each collective.",
        wrong={
            "Two ranks that both call `send` before `recv`": "`DETAIL` compares collectives only. Two ranks that "
            "both send first just run into the timeout.",
            "An `async_op=True` call without its `wait()`": "The call itself is correct on every rank. `DETAIL` "
            "does not check whether you wait for it.",
            "A loss that is added to another rank's accuracy": "Both calls are an `all_reduce` of one float. No "
            "checker knows what the values mean.",
        },
        look_at="What PyTorch reports: timeouts and TORCH_DISTRIBUTED_DEBUG",
    ),
)
