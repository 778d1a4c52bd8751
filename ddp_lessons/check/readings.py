"""Messages to read: a small program that goes wrong, what it said, and the question which of its lines is to blame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddp_lessons.check.judging.report import Report

WHEN_ONE_RETURNED = """
  torchrun would show: "Connection closed by peer" when a rank exits (NCCL: "Watchdog caught collective operation \
timeout")."""
BEGIN = "Begin with the message: who waits, in which line and for whom, and what did that rank do instead?"


@dataclass(frozen=True)
class Reading:
    """`message` is what `launch` says of the program, word for word; a test runs it and compares."""

    program: str
    message: str
    wrong: tuple[int, ...]  # the lines to blame, counted from 1
    why: str
    hints: Mapping[int, str]  # about other lines


READINGS = (
    Reading(
        program="""\
def train(rank, world_size):
    loss = torch.tensor([float(rank)])
    dist.all_reduce(loss)
    mean = loss / world_size
    if rank == 0:
        torch.save(mean, os.devnull)
        dist.barrier()
    return mean.item()

launch(train, world_size=2)""",
        message="""\
WorkersStuck: hang, no rank can make progress
    rank 0   waits in barrier (cell line 7:   dist.barrier())
    rank 1   has returned
  A collective completes only when every rank in its group calls it. Rank 1 returned without calling it.
  Rank 0 is in its collective call number 2; rank 1 made 1.
  Next: look for an `if rank == 0`, an early return or a swallowed exception before that call."""
        + WHEN_ONE_RETURNED,
        wrong=(5, 7),
        why="A barrier is a collective, and only rank 0 comes. Move it behind the `if`, where every rank calls it.",
        hints={
            3: "Both ranks called all_reduce in line 3, and it ended: the message says that rank 1 made 1 call.",
            6: "To save on one rank only is right. Who waits for the others afterwards?",
        },
    ),
    Reading(
        program="""\
def train(rank, world_size):
    batches = torch.arange(7.0)
    mine = batches[rank::world_size]
    weight = torch.zeros(1)
    for batch in mine:
        gradient = weight - batch
        dist.all_reduce(gradient)
        weight -= 0.1 * gradient / world_size
    return weight.item()

launch(train, world_size=2)""",
        message="""\
WorkersStuck: hang, no rank can make progress
    rank 0   waits in all_reduce of float32 [1] (cell line 7:   dist.all_reduce(gradient))
    rank 1   has returned
  A collective completes only when every rank in its group calls it. Rank 1 returned without calling it.
  Rank 0 is in its collective call number 4; rank 1 made 3.
  Next: look for a loop with fewer steps on some ranks: uneven batches, a `break` or a swallowed exception."""
        + WHEN_ONE_RETURNED,
        wrong=(2, 3),
        why="7 batches for 2 ranks are 4 and 3, so rank 0 makes one step more. Cut them evenly: drop or repeat one.",
        hints={
            5: "The loop is the same on both ranks, and makes 4 steps on one and 3 on the other. Why?",
            7: "That is where rank 0 waits, in its call number 4. Rank 1 was there 3 times: why not once more?",
        },
    ),
    Reading(
        program="""\
def hand_out(rank, world_size):
    whole = torch.arange(8.0)
    mine = torch.zeros(8)
    if rank == 0:
        halves = whole.chunk(2)
        dist.send(halves[1], 1)
        mine = halves[0]
    else:
        dist.recv(mine, 0)
    return mine.mean().item()

launch(hand_out, world_size=2)""",
        message="""\
WorkerFailed: mismatched send and recv, the results cannot be trusted
  Shape mismatch between send and recv: rank 0 sends [4] float32 (cell line 6), rank 1 receives into [8] \
float32 (cell line 9).
  Next: receive into a tensor with the shape and dtype of the one that is sent.
  torchrun would show: no error.""",
        wrong=(3,),
        why="It makes room for 8 numbers, and 4 are sent. The other 4 stay 0, and the mean is half of the right one.",
        hints={
            5: "Halves are what is to be handed out: 4 numbers each.",
            6: "Rank 0 sends what rank 1 should have, 4 numbers. What does the message say about the other side?",
            9: "recv fills the tensor that it is given. Where was that one made?",
            10: "The mean is right for what is in `mine`. What is in it?",
        },
    ),
    Reading(
        program="""\
def pass_on(rank, world_size):
    right = (rank + 1) % world_size
    left = (rank + 1) % world_size
    mine, received = torch.tensor([rank]), torch.tensor([-1])
    sending = dist.isend(mine, right)
    dist.recv(received, left)
    sending.wait()
    return received.item()

launch(pass_on, world_size=3)""",
        message="""\
WorkersStuck: deadlock, no rank can make progress
    rank 0   waits in recv from rank 1 (cell line 6:   dist.recv(received, left))
    rank 1   waits in recv from rank 2 (cell line 6:   dist.recv(received, left))
    rank 2   waits in recv from rank 0 (cell line 6:   dist.recv(received, left))
  The ranks wait for each other in a circle (0 for 1, 1 for 2, 2 for 0): a deadlock.
  Rank 0 sent to rank 1 (cell line 5), but rank 1 receives from rank 2 (cell line 6).
  Next: check the destination of each send and the source of each recv.
  torchrun would show: after 30 minutes "Timed out waiting 1800000ms for recv operation to complete" (NCCL: "Watchdog \
caught collective operation timeout").""",
        wrong=(3,),
        why="Rank 0 sends to rank 1 and waits for rank 1, which sends to rank 2. Left is (rank - 1) % world_size.",
        hints={
            2: "Right of rank 0 is rank 1, right of rank 2 is rank 0: that is so. Where does each message come from?",
            5: "isend does not wait, so every rank sends. To whom, and who receives from whom?",
            6: "That is where all wait. Rank 0 waits for rank 1: to whom does rank 1 send?",
            7: "No rank comes to line 7: look at who waits for whom before it.",
        },
    ),
    Reading(
        program="""\
def train(rank, world_size):
    scores = [0.9, 0.4, "0.7", 0.2]
    total = torch.zeros(1)
    try:
        for score in scores[rank::world_size]:
            total += score
    except TypeError:
        return None
    dist.all_reduce(total)
    return total.item()

launch(train, world_size=2)""",
        message="""\
WorkersStuck: hang, no rank can make progress
    rank 0   has returned
    rank 1   waits in all_reduce of float32 [1] (cell line 9:   dist.all_reduce(total))
  A collective completes only when every rank in its group calls it. Rank 0 returned without calling it.
  Next: look for an `if rank == 0`, an early return or a swallowed exception before that call."""
        + WHEN_ONE_RETURNED,
        wrong=(7, 8),
        why="It swallows what rank 0 raised, and rank 0 leaves. Else launch would have shown the line and the error.",
        hints={
            2: "A number there cures this run, until the next bad score. Which line hid it from everybody?",
            6: "Rank 0 raises TypeError here. What becomes of that?",
            9: "That is where rank 1 waits. Rank 0 returned before it: in which line?",
        },
    ),
)


def reading(number: int, line: int | None = None) -> Report:
    """Show a program and the message that it gave; with `line`, say whether that line of the program is to blame.

    Raises:
        ValueError: there is no reading of this number.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(READINGS):
        raise ValueError(f"there is no reading {number!r}: they are numbered from 1 to {len(READINGS)}")
    one, name = READINGS[number - 1], f"reading({number})"
    if line is None:
        return Report(name, False, "which line is wrong?", "", tuple(_question(one, number)))
    if line in one.wrong:
        return Report(name, True, "passed", f"Line {line} it is. {one.why}")
    return Report(name, False, "not right yet", _hint(one, line))


def _question(one: Reading, number: int) -> list[str]:
    program = [f"    {place:>2}  {text}".rstrip() for place, text in enumerate(one.program.split("\n"), 1)]
    message = [f"    {text}" for text in one.message.split("\n")]
    asked = f"  Which line has to be changed? Answer with check.reading({number}, line=...)."
    return [*program, "", "  What it says:", *message, "", asked]


def _hint(one: Reading, line: object) -> str:
    lines = one.program.count("\n") + 1
    if not isinstance(line, int) or not 1 <= line <= lines:
        return f"The program has the lines 1 to {lines}, and {line!r} is none of them."
    return f"Not line {line}. {one.hints.get(line, BEGIN)}"
