"""The exercise of an all_reduce over a store: the sum has to be in the tensor, and with the same bits everywhere.

Whoever calls such a function as a process group does passes over what it returns, and so does this check.
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
_LARGEST_WORLD = 3  # in which a rank comes late: mistakes show with few, and many wait for each other for long
_RETURNED = re.compile(r"ReturnedEarly: (.*?) returned before (.*?) wrote")
_NO_SUCH_NOTE_NAMED = re.compile(rf"{NO_SUCH_NOTE} ('.*?'|\".*?\")")


def all_reduce_on_board(function: Callable[[Any, Tensor, int, int], object]) -> Report:
    """Check `function(board, tensor, rank, world_size)`: every rank ends with the sum over all ranks, by notes alone.

    `board` is a store that is fresh for this call. All tensors have the same shape and dtype. The sum has to be in
    `tensor` itself, and what is returned does not count. All ranks have the same bits, of floats as well. Nothing else
    of torch.distributed may be called.
    """
    return examine_in_turns(_AllReduceOnBoard(function), function, _OnABoard)


class _OnABoard(InTurns):
    """Give each call a board of its own, and keep of its answer only whether there was one."""

    turns = 0

    def __call__(self, tensor: Any, *_: Any) -> object:
        self.turns += 1
        rank, world_size = dist.get_rank(), dist.get_world_size()
        is_late = rank == -self.turns % world_size and 1 < world_size <= _LARGEST_WORLD
        board = Board(str(self.turns), is_late, may_give_up=mentions(self.written, _INSTEAD_OF_WAITING))
        has_answer = self.written(board, tensor, rank, world_size) is not None
        board.whereabouts.has_returned()
        # None of all ranks, with nothing changed, is what a function gives that nobody has begun to write
        return has_answer if has_answer or board.is_used else None


@dataclass(frozen=True)
class _Fractions(Trial):
    """Floats of very different size, whose sum depends on the order."""

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
        _Fractions((1000,), trait="fractions, whose sum depends on the order", seed=20, lateness="at random"),
        _Fractions((1000,), trait="the same fractions, with another rank late", seed=20, lateness="at random"),
        of_every_kind()[-1],  # last, for what is done element by element does not come to its end
    )
    measured = "bytes given by the busiest rank"
    yardstick = "over the group"

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
            or f"Rank {rank} does not end with the sum over all ranks."
        )

    def _why_unchanged(self, case: Case, rank: int) -> str:
        """A sentence if this rank's tensor is what it was, though something else may be right."""
        if not case.is_unchanged(rank):
            return ""
        right = [one for one in range(case.world_size) if torch.equal(case.given(one), self.expected(case, one))]
        if right:
            return (
                f"Only {ranks_named(right)} has the sum in `tensor`, and every rank has to have it there: rank {rank} "
                "still has its own numbers."
            )
        if self._gives_the_name_away:
            return (
                "You gave the name `tensor` to another tensor, and the one of the caller is as it was: use "
                "`tensor.copy_(...)`."
            )
        if case.outcomes[rank].answer is True:
            return "What it returns does not count: the sum has to be in `tensor` itself, so use `tensor.copy_(...)`."
        return ""

    def _lost_fractions(self, case: Case, answer: Tensor) -> str:
        if not isinstance(case.trial, _Fractions) or not torch.equal(answer, answer.round()):
            return ""
        if self._uses_add:
            return (
                "board.add() counts in whole numbers, so fractions are lost: write to_bytes(tensor) with board.set()."
            )
        return "The fractions are lost on the way: write the tensor's bytes, and add up in its own dtype."

    def why_failed(self, message: str) -> str:
        if NO_NAME in message:
            return 'The name of a note has to be a text, as f"rank {rank}" or str(rank) is: a number is none.'
        if NO_NOTE in message:
            return "A note is bytes: write to_bytes(tensor), and read with from_bytes(note, tensor)."
        if found := _RETURNED.search(message):
            return (
                f"{found[1].capitalize()} returns before {found[2]} has written its note: read it with "
                "board.get(name), which waits until it is there. A sleep or board.check() does not."
            )
        if READS_FIRST in message:
            return (
                "Every rank reads first, and board.get() waits for a note that nobody has written yet: write your own "
                "note before you read those of the others."
            )
        if found := _NO_SUCH_NOTE_NAMED.search(message):
            return f"It waits for the note {found[1]}, which no rank writes: read by the names that are written."
        if "from_bytes" in message or "view" in message:
            return "A note has forgotten shape and dtype: from_bytes(note, tensor) makes it like `tensor`."
        return ""

    def too_much(self, case: Case) -> str:
        if any(case.traffic.brought):
            return "It calls torch.distributed beside the board: this shall be what such a call is made of."
        return ""

    def carried(self, case: Case) -> int:
        return max(case.traffic.brought)

    def textbook(self, case: Case) -> int:
        return 0


def _other_bits(answer: Tensor, first: Tensor, rank: int) -> Difference | None:
    """Of two sums of the same numbers."""
    if torch.equal(answer, first):
        return None
    place = int((answer != first).nonzero()[0])
    mistake = (
        f"Rank {rank} adds up in another order than rank 0, and the last bits of their sums differ: on every rank "
        "begin with what rank 0 brought, and go on in the order of the ranks."
    )
    return Difference(f"rank {rank}, [{place}]", f"{answer[place]:.9g}", f"{first[place]:.9g}, as on rank 0", mistake)


def _order_of_arrival(answer: Tensor, before: Tensor, rank: int) -> Difference | None:
    """Of two sums of the same numbers on the same rank, with different ranks late."""
    if torch.equal(answer, before):
        return None
    place = int((answer != before).nonzero()[0])
    mistake = "The last bits depend on which rank comes late: add up in the order of the ranks, not in that of arrival."
    return Difference(f"rank {rank}, [{place}]", f"{answer[place]:.9g}", f"{before[place]:.9g}, as before", mistake)


def _who_is_missing(case: Case, rank: int, total: Tensor) -> str:
    """A sentence if what one rank brought is not in the sum."""
    missing = {one: _missing_of(case, one, total) for one in range(case.world_size)}
    who = missing[rank]
    if who is None:
        return ""
    everywhere = all(one == who for one in missing.values())
    if everywhere and case.world_size > 1:
        return f"What rank {who} brought is missing on every rank: read the notes of all, range(world_size)."
    if case.is_unchanged(rank):
        return f"Rank {rank} ends with its own tensor: read the notes of the others, and put the sum into `tensor`."
    if who == rank:
        return f"What rank {rank} has brought itself is missing in its sum."
    return f"What rank {who} has brought is missing in the sum of rank {rank}."


def _missing_of(case: Case, rank: int, total: Tensor) -> int | None:
    return next(
        (who for who, brought in enumerate(case.inputs) if torch.equal(case.given(rank), total - brought)), None
    )


def _wrong_sum(case: Case, rank: int, answer: Tensor, total: Tensor) -> str:
    if torch.equal(answer, case.inputs[rank]):
        return f"Rank {rank} ends with its own tensor: read the notes of the others, and put the sum into `tensor`."
    if torch.equal(answer, total + case.inputs[rank]):
        return f"Rank {rank} counts its own tensor twice: it is in `tensor` already, and on the board."
    if torch.allclose(answer.double() * case.world_size, total.double(), rtol=1e-6):
        return "It makes the mean: leave out the division."
    for who, brought in enumerate(case.inputs):
        if torch.equal(answer, case.world_size * brought):
            whose = "its own" if who == rank else f"rank {who}'s"
            return (
                f"Rank {rank} adds up {whose} tensor {case.world_size} times: each rank needs a note with its rank in "
                "the name, and every rank has to read all of them."
            )
    if answer.dtype != torch.float32 and torch.allclose(answer.double(), total.double(), rtol=1e-5):
        return "The last digits are lost, as in a float32: write and add up in the tensor's own dtype."
    return ""


def _gives_away(function: object, place: int) -> bool:
    """Does its code give the name of this parameter to something else, as in `tensor = ...`?"""
    code = getattr(inspect.unwrap(function) if callable(function) else None, "__code__", None)
    if not isinstance(code, CodeType) or code.co_argcount <= place:
        return False
    steps = list(dis.get_instructions(code))
    # `tensor += ...` stores as well, but what it stores is the tensor itself, changed
    stores = [step for before, step in itertools.pairwise(steps) if not before.argrepr.endswith("=")]
    return any(code.co_varnames[place] in _stored(step) for step in stores)


def _stored(step: dis.Instruction) -> tuple[Any, ...]:
    """The names that a step stores; newer Pythons do two things in one."""
    names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    if step.opname in ("STORE_FAST", "STORE_DEREF", "STORE_FAST_LOAD_FAST"):
        return names[:1]
    return names if step.opname == "STORE_FAST_STORE_FAST" else ()
