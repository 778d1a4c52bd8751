"""Messages to read: a small program that goes wrong, its message, and the question which line is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddp_lessons.check.report import Report

WHEN_ONE_RETURNED = """
  torchrun would show: "Connection closed by peer" when a rank exits (NCCL: "Watchdog caught collective operation \
timeout")."""
BEGIN = "Start with the message: which rank waits, in which line and for which rank, and what did that rank do instead?"


@dataclass(frozen=True)
class Reading:
    """`message` is the exact message of `launch` for the program; a test runs it and compares."""

    program: str
    message: str
    wrong: tuple[int, ...]  # the wrong lines, counted from 1
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
  Rank 0 is in collective call 2; rank 1 made only 1.
  Next: look for an `if rank == 0`, an early return or a swallowed exception before that call."""
        + WHEN_ONE_RETURNED,
        wrong=(5, 7),
        why="barrier() is a collective, but only rank 0 calls it, so rank 0 hangs. Move it out of the `if`, so that "
        "every rank calls it.",
        hints={
            3: "Both ranks called all_reduce in line 3, and it completed: the message says that rank 1 made 1 call.",
            6: "Saving on one rank only is right. Which line waits for the other ranks afterwards?",
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
  Rank 0 is in collective call 4; rank 1 made only 3.
  Next: look for a loop with fewer steps on some ranks: uneven batches, a `break` or a swallowed exception."""
        + WHEN_ONE_RETURNED,
        wrong=(2, 3),
        why="With 7 batches, rank 0 gets 4 and rank 1 gets 3, so rank 0 takes one more step. Drop or repeat a batch, "
        "so that every rank takes the same number of steps.",
        hints={
            5: "The loop is the same on both ranks, but makes 4 steps on one and 3 on the other. Why?",
            7: "Here rank 0 waits in collective call 4. Rank 1 made only 3. Why not a fourth?",
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
        why="It allocates a buffer of 8 elements, but only 4 are sent. The other 4 stay 0, so the mean is half of "
        "what it should be.",
        hints={
            5: "Sending half is what the program wants: 4 elements each.",
            6: "Rank 0 correctly sends 4 elements. What does the error message say about the rank that receives?",
            9: "recv fills the buffer that you pass. Which line allocates it?",
            10: "This is the mean of the values in `mine`. Which values does it have?",
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
        why="Every rank receives from the rank that it sends to, so all wait in a circle. The left neighbor is "
        "(rank - 1) % world_size.",
        hints={
            2: "This is right: the right neighbor of rank 0 is rank 1, that of rank 2 is rank 0. Where does each "
            "message come from?",
            5: "isend does not block, so every rank can send. Which rank does each one send to, and which does it "
            "receive from?",
            6: "Here every rank waits. Rank 0 waits for rank 1. To which rank does rank 1 send?",
            7: "No rank reaches line 7. Which rank does each one wait for before that?",
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
        why="It swallows the exception of rank 0, which then returns early. Without it, launch would show the line "
        "and the error.",
        hints={
            2: "A number here fixes this run, until the next bad score. Which line hides the error?",
            6: "Rank 0 raises TypeError here. What happens to the exception?",
            9: "Rank 1 waits here, but rank 0 has already returned. Which line made rank 0 return?",
        },
    ),
)


def reading(number: int, line: int | None = None) -> Report:
    """Show a program and its message; with `line`, say whether that line of the program is wrong.

    Raises:
        ValueError: there is no reading with this number.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(READINGS):
        raise ValueError(f"there is no reading {number!r}: choose a number from 1 to {len(READINGS)}")
    one, name = READINGS[number - 1], f"reading({number})"
    if line is None:
        return Report(name, False, "which line is wrong?", "", tuple(_question(one, number)))
    if line in one.wrong:
        return Report(name, True, "passed", f"Correct, line {line}. {one.why}")
    return Report(name, False, "not right yet", _hint(one, line))


def _question(one: Reading, number: int) -> list[str]:
    program = [f"    {place:>2}  {text}".rstrip() for place, text in enumerate(one.program.split("\n"), 1)]
    message = [f"    {text}" for text in one.message.split("\n")]
    asked = f"  Which line is wrong? Answer with check.reading({number}, line=...)."
    return [*program, "", "  The message:", *message, "", asked]


def _hint(one: Reading, line: object) -> str:
    lines = one.program.count("\n") + 1
    if not isinstance(line, int) or not 1 <= line <= lines:
        return f"The program has lines 1 to {lines}, so {line!r} is not one of them."
    return f"Not line {line}. {one.hints.get(line, BEGIN)}"
