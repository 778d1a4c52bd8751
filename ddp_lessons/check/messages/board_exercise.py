"""The exercise of an all_reduce over a key-value store: the sum must be in the tensor, with the same bits on all ranks.

Like a process group that calls such a function, this check ignores the returned value.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.judging.exercise import Case, Difference, Exercise, tensor_difference
from ddp_lessons.check.judging.exercise_trials import Trial, of_every_kind
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.unwritten_functions import mentions
from ddp_lessons.check.trials.notice_board import NO_NAME, NO_NOTE, NO_SUCH_NOTE, READS_FIRST, Board
from ddp_lessons.check.trials.sample_shares import InTurns, examine_in_turns
from ddp_lessons.run.diagnosis.wording import ranks_named

_INSTEAD_OF_WAITING = {"sleep", "check", "num_keys", "monotonic", "perf_counter"}
_LARGEST_WORLD = 3  # in which a rank comes late: mistakes show with few ranks, and many would wait for a long time
_RETURNED = re.compile(r"ReturnedEarly: (.*?) returned before (.*?) wrote")
_NO_SUCH_NOTE_NAMED = re.compile(rf"{NO_SUCH_NOTE} ('.*?'|\".*?\")")


def all_reduce_on_board(function: Callable[[Any, Tensor, int, int], object]) -> Report:
    """Check `function(board, tensor, rank, world_size)`: every rank ends with the sum over all ranks, through a store.

    `board` is a new key-value store for each call. All tensors have the same shape and dtype. The sum must be in
    `tensor` itself; the returned value is ignored. All ranks must have the same bits, also for floats. No other call of
    torch.distributed is allowed.
    """
    return examine_in_turns(_AllReduceOnBoard(function), function, _OnABoard)


class _OnABoard(InTurns):
    """Give each call its own board, and keep of its answer only whether there was one."""

    turns = 0

    def __call__(self, tensor: Any, *_: Any) -> object:
        self.turns += 1
        rank, world_size = dist.get_rank(), dist.get_world_size()
        is_late = rank == -self.turns % world_size and 1 < world_size <= _LARGEST_WORLD
        board = Board(str(self.turns), is_late, may_give_up=mentions(self.written, _INSTEAD_OF_WAITING))
        has_answer = self.written(board, tensor, rank, world_size) is not None
        board.whereabouts.has_returned()
        # None on all ranks with nothing changed means a stub
        return has_answer if has_answer or board.is_used else None


@dataclass(frozen=True)
class _Fractions(Trial):
    """Floats of very different magnitude, whose sum depends on the order."""

    def tensor(self, rank: int) -> Tensor:
        generator = torch.Generator().manual_seed(1000 * self.seed + rank)
        return torch.rand(self.shape, generator=generator) * 10.0 ** torch.randint(4, self.shape, generator=generator)


class _AllReduceOnBoard(Exercise):
    name = "all_reduce_on_board"
    parameters = ("board", "tensor", "rank", "world_size")
    world_sizes = (2, 3, 4, 8, 1)
    messages_only = False
    returns_answer = False
    trials = (
        *of_every_kind()[:-1],
        _Fractions((1000,), trait="fractions whose sum depends on the order", seed=20, lateness="at random"),
        _Fractions((1000,), trait="the same fractions, with a different rank late", seed=20, lateness="at random"),
        of_every_kind()[-1],  # last, because a loop over its elements would not end in time
    )
    measured = "bytes sent by the busiest rank"
    yardstick = "allowed"

    def __init__(self, function: object) -> None:
        self._gives_the_name_away = _gives_away(function, 1)
        self._uses_add = mentions(function, {"add"})
        self._sums: dict[int, Tensor] = {}  # of the fractions, as rank 0 first had it; by world size

    def expected(self, case: Case, rank: int) -> Tensor:
        return torch.stack(case.inputs).sum(0, dtype=case.inputs[0].dtype)

    def answer(self, case: Case, rank: int) -> Tensor:
        return case.given(rank)

    def difference(self, case: Case, rank: int) -> Difference | None:
        answer, expected = self.answer(case, rank), self.expected(case, rank)
        if isinstance(case.trial, _Fractions) and torch.allclose(answer, expected, rtol=1e-5):
            first = self._sums.setdefault(case.world_size, self.answer(case, 0))
            return _other_bits(answer, self.answer(case, 0), rank) or _order_of_arrival(answer, first, rank)
        found = tensor_difference(answer, expected)
        if found is None or found.mistake:
            return found
        return Difference(found.place, found.yours, found.expected, self.likely_mistake(case, rank, answer))

    def likely_mistake(self, case: Case, rank: int, answer: Tensor) -> str:
        total = self.expected(case, rank)
        return (
            self._why_unchanged(case, rank)
            or _who_is_missing(case, rank, total)
            or self._lost_fractions(case, answer)
            or _wrong_sum(case, rank, answer, total)
            or f"Rank {rank} does not end with the sum over all ranks. Add each rank's tensor exactly once."
        )

    def _why_unchanged(self, case: Case, rank: int) -> str:
        """A sentence if this rank's tensor is unchanged, although something else may be right."""
        if not case.is_unchanged(rank):
            return ""
        right = [one for one in range(case.world_size) if torch.equal(case.given(one), self.expected(case, one))]
        if right:
            return (
                f"`tensor` holds the sum only on {ranks_named(right)}, and rank {rank} still has its own values. "
                "Put the sum into `tensor` on every rank."
            )
        if self._gives_the_name_away:
            return (
                "The name `tensor` now refers to another tensor, and the caller's is unchanged. Use "
                "`tensor.copy_(...)`."
            )
        if case.outcomes[rank].answer is True:
            return "The returned value is ignored: the sum must be in `tensor`. Use `tensor.copy_(...)`."
        return ""

    def _lost_fractions(self, case: Case, answer: Tensor) -> str:
        if not isinstance(case.trial, _Fractions) or not torch.equal(answer, answer.round()):
            return ""
        if self._uses_add:
            return "board.add() counts in integers, so the fractions are lost. Write to_bytes(tensor) with board.set()."
        return "The fractions are lost. Write the tensor's bytes, and sum in its own dtype."

    def why_failed(self, message: str) -> str:
        if NO_NAME in message:
            return 'A key of the store must be a string, but this is a number. Use f"rank {rank}" or str(rank).'
        if NO_NOTE in message:
            return "A value in the store must be bytes. Write to_bytes(tensor), and read with from_bytes(note, tensor)."
        if found := _RETURNED.search(message):
            return (
                f"{found[1].capitalize()} returns before {found[2]} has written to the store. Read with "
                "board.get(key), which waits until the key exists. A sleep or board.check() doesn't wait for it."
            )
        if READS_FIRST in message:
            return (
                "Deadlock: every rank reads first, and board.get() waits for a key that no rank has written yet. Write "
                "your own value before you read the others."
            )
        if found := _NO_SUCH_NOTE_NAMED.search(message):
            return f"It waits for the key {found[1]}, which no rank writes. Read the same keys that the ranks write."
        if "from_bytes" in message or "view" in message:
            return (
                "The stored bytes carry no shape or dtype. Use from_bytes(note, tensor), which takes both from "
                "`tensor`."
            )
        return ""

    def too_much(self, case: Case) -> str:
        if any(case.traffic.brought):
            return "It calls torch.distributed in addition to the store. Use only `board`."
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0


def _other_bits(answer: Tensor, first: Tensor, rank: int) -> Difference | None:
    """Compare two sums of the same values on different ranks."""
    if torch.equal(answer, first):
        return None
    place = int((answer != first).nonzero()[0])
    mistake = (
        f"Rank {rank} sums in a different order than rank 0, so the last bits differ. Sum in rank order on every "
        "rank, starting with rank 0."
    )
    return Difference(f"rank {rank}, [{place}]", f"{answer[place]:.9g}", f"{first[place]:.9g}, as on rank 0", mistake)


def _order_of_arrival(answer: Tensor, before: Tensor, rank: int) -> Difference | None:
    """Compare two sums of the same values on the same rank, with different ranks late."""
    if torch.equal(answer, before):
        return None
    place = int((answer != before).nonzero()[0])
    mistake = "The last bits depend on which rank comes late. Sum in rank order, not in order of arrival."
    return Difference(f"rank {rank}, [{place}]", f"{answer[place]:.9g}", f"{before[place]:.9g}, as before", mistake)


def _who_is_missing(case: Case, rank: int, total: Tensor) -> str:
    """A sentence if the values of one rank are missing from the sum."""
    missing = {one: _missing_of(case, one, total) for one in range(case.world_size)}
    who = missing[rank]
    if who is None:
        return ""
    everywhere = all(one == who for one in missing.values())
    if everywhere and case.world_size > 1:
        return f"The values of rank {who} are missing from every sum. Loop over all ranks, range(world_size)."
    if case.is_unchanged(rank):
        return (
            f"Rank {rank} ends with its own tensor. Read the other ranks' values too, and write the sum into `tensor`."
        )
    if who == rank:
        return f"Rank {rank}'s own values are missing from its sum. Add its own tensor too."
    return f"The values of rank {who} are missing from the sum of rank {rank}. Read the values of all ranks."


def _missing_of(case: Case, rank: int, total: Tensor) -> int | None:
    return next(
        (who for who, brought in enumerate(case.inputs) if torch.equal(case.given(rank), total - brought)), None
    )


def _wrong_sum(case: Case, rank: int, answer: Tensor, total: Tensor) -> str:
    if torch.equal(answer, case.inputs[rank]):
        return (
            f"Rank {rank} ends with its own tensor. Read the other ranks' values too, and write the sum into `tensor`."
        )
    if torch.equal(answer, total + case.inputs[rank]):
        return f"Rank {rank} adds its own tensor twice, once from `tensor` and once from the store. Add it once."
    if torch.allclose(answer.double() * case.world_size, total.double(), rtol=1e-6):
        return "It computes the mean. Leave out the division."
    for who, brought in enumerate(case.inputs):
        if torch.equal(answer, case.world_size * brought):
            whose = "its own" if who == rank else f"rank {who}'s"
            return (
                f"Rank {rank} sums {whose} tensor {case.world_size} times. Write one key per rank, with the rank in "
                "its name, and read all of them."
            )
    if answer.dtype != torch.float32 and torch.allclose(answer.double(), total.double(), rtol=1e-5):
        return "The last digits are lost, as in float32. Write and sum in the tensor's own dtype."
    return ""


def _gives_away(function: object, place: int) -> bool:
    """Does its code assign something else to the name of this parameter, as in `tensor = ...`?"""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    if not isinstance(code, CodeType) or code.co_argcount <= place:
        return False
    steps = list(dis.get_instructions(code))
    # `tensor += ...` stores as well, but it stores the tensor itself, changed
    stores = [step for before, step in itertools.pairwise(steps) if not before.argrepr.endswith("=")]
    return any(code.co_varnames[place] in _stored(step) for step in stores)


def _stored(step: dis.Instruction) -> tuple[Any, ...]:
    """The names that an instruction stores; newer Pythons combine two stores."""
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    if step.opname in ("STORE_FAST", "STORE_DEREF", "STORE_FAST_LOAD_FAST"):
        return names[:1]
    return names if step.opname == "STORE_FAST_STORE_FAST" else ()
