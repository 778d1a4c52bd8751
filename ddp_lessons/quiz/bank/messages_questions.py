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
        right="Nothing, ever: both wait in `send`.",
        letter="c",
        why="gloo hands a message from hand to hand: `send` ends when the other side receives. Neither comes to "
        "its `recv`.",
        wrong={
            "1.0 on rank 0 and 0.0 on rank 1.": "So it would be with a letter box between them, and some backends "
            "have a small one. gloo has none, not even for one number.",
            "0.0 on both: nothing has come yet.": "`recv` does not return before something has come. And neither "
            "rank gets as far as `recv`.",
            "An error: both call `send` at once.": "Nothing is wrong with any single line, so nobody raises. That "
            "is why such a standstill is silent without `launch`.",
        },
        look_at="Two polite ranks",
    ),
    Question(
        text="With `record=False`, as in a script. Rank 0 sends two float32 numbers. What does rank 1 return?",
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
        why="A message is bytes. Eight of them fill the front of the buffer, the rest stays as it was, and nobody "
        "complains.",
        wrong={
            "`[7.0, 8.0]`": "`recv` makes no tensor and changes no shape: it writes into the one that it is "
            "given, and that has four places.",
            "`[7.0, 8.0, 0.0, 0.0]`": "Nobody clears the rest. What was in the buffer before stays in it, and "
            "looks like an answer.",
            "Nothing: the shapes differ, so it raises.": "gloo compares no shapes. Only too many bytes end the "
            "process; too few pass in silence.",
        },
        look_at="Messages carry bytes, nothing else",
    ),
    Question(
        text="Rank 1 is late. What arrives there? (`record=False`)",
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
        why="`isend` makes no copy. The bytes left when rank 1 was ready, and by then there was a 5. Between "
        "`isend` and `wait` the tensor belongs to the message.",
        wrong={
            "`1.0`": "It was a 1 when `isend` was called, but `isend` only notes where the tensor lies. What is "
            "there when the bytes leave is what is sent.",
            "`4.0`": "`+=` adds to what is there: 1 + 4. And what is sent is the tensor, not the last change.",
            "`0.0`": "`recv` blocks until the message is there, so rank 1 does not return its empty buffer.",
        },
        look_at="Send without waiting",
    ),
    Question(
        text="A message takes 1 ms plus 1 ms for each 100 KB. Which is quickest for 100 gradients of 1 KB each?",
        right="One message of 100 KB, which takes 2 ms.",
        letter="d",
        why="Latency is paid for each message: once 1 ms + 1 ms, against a hundred times 1.01 ms one by one.",
        wrong={
            "A hundred messages of 1 KB, for small ones are quick.": "Each is quick, but each pays the latency: "
            "100 x 1.01 ms are 101 ms.",
            "No difference, for the bytes are the same in all.": "Bytes are one part of the bill. The other is "
            "the latency, and that is counted by messages.",
            "Ten messages of 10 KB, which is the fair middle.": "10 x 1.1 ms are 11 ms. As long as nothing else "
            "is gained by it, each further message only adds a latency.",
        },
        look_at="How fast is a message?",
    ),
    Question(
        text="Rank 0 sends first with `tag=1`, then with `tag=2`, both by `dist.send`. Rank 1 receives tag 2 "
        "first. What happens?",
        program=Program(
            """
def f(rank, world_size):
    tensor = torch.ones(1)
    if rank == 0:
        dist.send(tensor, dst=1, tag=1)
        dist.send(tensor, dst=1, tag=2)
    else:
        dist.recv(tensor, src=0, tag=2)
        dist.recv(tensor, src=0, tag=1)
""",
            holds='type(error).__name__ == "WorkersStuck"',
        ),
        right="Both wait for ever, each for the other message.",
        letter="b",
        why="Rank 0's first `send` waits until somebody takes tag 1; rank 1 waits for tag 2, which is only sent "
        "after it.",
        wrong={
            "Rank 1 gets both: tags make the order unimportant.": "So it is with `isend`, which sets both on "
            "their way. `send` waits for the first to be taken before it begins the second.",
            "Rank 1 gets the first message, although its tag is 1.": "A `recv` with a tag takes only what was "
            "sent with that tag. It would rather wait for ever.",
            "gloo raises an error, for the tags do not match.": "They may match at any moment, for all that gloo "
            "knows. So it waits.",
        },
        look_at="Tags: which message is which",
    ),
    Question(
        text="`dist.recv(tensor)` without `src`, three times on rank 0, while ranks 1, 2 and 3 send. In which "
        "order do they come?",
        right="In any order; each `recv` returns who it was.",
        letter="a",
        why="It takes from whoever is first. A program whose answer depends on that is hard to repeat.",
        wrong={
            "By rank: first that of 1, then of 2, then of 3.": "That is what `src=1`, then `src=2`, then `src=3` "
            "would give. Without `src` nobody is asked to wait for a lower rank.",
            "In no order: without `src` it is an error.": "It is allowed, and means: from anyone. Only the "
            "returned rank tells from whom.",
            "All three at once, added up into the tensor.": "Adding up is a collective's work, `reduce`. A `recv` "
            "takes one message and overwrites the buffer.",
        },
        look_at="From anyone",
    ),
)
