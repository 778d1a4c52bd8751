"""Lesson 2: messages from rank to rank."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="Two ranks run this with gloo. What do they return?",
        program=Program(
            """
def f(rank, world_size):
    other = 1 - rank
    received = torch.zeros(1)
    dist.send(torch.ones(1) * rank, dst=other)
    dist.recv(received, src=other)
    return received.item()
""",
            holds='type(error).__name__ == "WorkersStuck"',
        ),
        right="Nothing: both ranks hang in `send`.",
        letter="c",
        why="With gloo, `send` completes only when the other rank has started to receive. Neither rank reaches its "
        "`recv`, so this is a deadlock.",
        wrong={
            "1.0 on rank 0 and 0.0 on rank 1.": "That would be right if `send` were buffered. Some backends buffer "
            "small messages, but gloo does not buffer even a single element.",
            "0.0 on both: nothing has arrived yet.": "`recv` does not return before a message has arrived. And "
            "neither rank gets as far as its `recv`.",
            "An error: both call `send` at once.": "No single line is wrong, so there is no error. Without `launch`, "
            "all you see is a hang until the timeout.",
        },
        look_at="Two ranks that both send first",
    ),
    Question(
        text="With `record=False`, as in a script. Rank 0 sends two float32 elements. What does rank 1 return?",
        program=Program(
            """
def f(rank, world_size):
    buffer = torch.full([4], -1.0)
    if rank == 0:
        dist.send(torch.tensor([7.0, 8.0]), dst=1)
    else:
        dist.recv(buffer, src=0)
    return buffer.tolist()
""",
            holds='str(results[1]) == right.strip("`")',
            options={"record": False},
        ),
        right="`[7.0, 8.0, -1.0, -1.0]`",
        letter="b",
        why="A message is bytes. Its 8 bytes fill the first half of the receive buffer, and the rest keeps its old "
        "values, without an error.",
        wrong={
            "`[7.0, 8.0]`": "`recv` does not create a tensor or change its shape. It writes into the tensor that "
            "it is given, which has four elements.",
            "`[7.0, 8.0, 0.0, 0.0]`": "Nothing clears the rest of the receive buffer. Its old values stay, and they "
            "look like part of the result.",
            "Nothing: the shapes differ, so it raises.": "gloo does not compare shapes. Too many bytes abort the "
            "process, but too few cause no error.",
        },
        look_at="Messages are bytes: shape and dtype mismatches",
    ),
    Question(
        text="Rank 1 receives late. What arrives there? (`record=False`)",
        program=Program(
            """
def f(rank, world_size):
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        handle = dist.isend(tensor, dst=1)
        tensor += 4
        handle.wait()
    else:
        time.sleep(0.3)
        dist.recv(tensor, src=0)
    return tensor.item()
""",
            holds='str(results[1]) == right.strip("`")',
            options={"record": False},
        ),
        right="`5.0`",
        letter="a",
        why="`isend` makes no copy. The bytes were sent when rank 1 was ready, and by then the tensor held a 5. Do "
        "not touch the tensor between `isend` and `wait`.",
        wrong={
            "`1.0`": "The tensor held a 1 when `isend` was called, but `isend` makes no copy. It sends what is in "
            "the tensor when rank 1 is ready.",
            "`4.0`": "`+=` adds to what is already there, so the tensor holds 1 + 4. The message has the value, not "
            "the last change.",
            "`0.0`": "`recv` blocks until the message has arrived, so rank 1 does not return the zero that it "
            "started with.",
        },
        look_at="Send without waiting: isend and irecv",
    ),
    Question(
        text="A message takes 1 ms plus 1 ms per 100 KB. What is the fastest way to send 100 gradients of 1 KB each?",
        right="One message of 100 KB, which takes 2 ms.",
        letter="d",
        why="Each message pays the latency. One large message takes 1 ms + 1 ms, and a hundred small ones take "
        "1.01 ms each, or 101 ms in all.",
        wrong={
            "A hundred messages of 1 KB, because small ones are fast.": "Each of them is fast, but each pays the "
            "latency. 100 x 1.01 ms is 101 ms.",
            "No difference, because all send the same bytes.": "The bytes are only one part of the time. The other "
            "part is the latency, which each message pays once.",
            "Ten messages of 10 KB, a good compromise.": "10 x 1.1 ms is 11 ms. Nothing else is gained here, so "
            "each additional message only adds latency.",
        },
        look_at="Measure latency and bandwidth",
    ),
    Question(
        text="Three ranks run this, and it hangs. Would it help if `send` were buffered?",
        program=Program(
            """
def f(rank, world_size):
    token = torch.zeros(1)
    dist.recv(token, src=(rank - 1) % 3)
    dist.send(token, dst=(rank + 1) % 3)
""",
            holds='type(error).__name__ == "WorkersStuck"',
            ranks=3,
        ),
        right="No: all ranks wait in `recv`.",
        letter="b",
        why="Each rank waits for the previous one, in a circle, so none of them ever sends. At least one rank has to "
        "send before it receives.",
        wrong={
            "Yes: `send` would return at once.": "It would, but no rank ever reaches its `send`. All three wait one "
            "line earlier, in `recv`.",
            "Yes, if the tensor is small enough.": "The size matters if ranks wait in `send`, as in `swap_politely`. "
            "Here all of them wait in `recv`.",
            "No: three ranks can't form a ring.": "Any number of ranks can form a ring. It works as soon as one of "
            "them sends first, as in the exercise.",
        },
        look_at="Exercise: pass a token around a ring",
    ),
)
