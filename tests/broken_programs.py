"""Breaks a correct program in one place, and says what was broken.

Each change makes the program wrong whatever the timing: a call or its counterpart is missing, or two calls that meet
don't agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from program_steps import Batch, Change, Collective, Content, Leave, Message, Missed, NewGroup, Program, Step, Wait
from random_programs import FLOATS, INTEGERS, ONLY_BLOCKING, WITH_ROOT, WITHOUT_TENSOR, reduce_ops_for

_COMMUNICATING = (Message, Batch, Collective)
_UNUSED_TAG = 99
# nothing has to wait for these where nothing is written
_MAY_BE_LEFT = ("barrier", "broadcast", "reduce", "gather")


@dataclass(frozen=True)
class Broken:
    """A program that is wrong, and where: rank and index of the step, which in its text is `step`."""

    program: Program
    kind: str
    rank: int
    index: int
    step: Step

    @property
    def calls(self) -> tuple[str, ...]:
        """By these names a message may speak of the broken call."""
        if isinstance(self.step, Message):
            return ("send", "isend") if self.step.is_send else ("recv", "irecv")
        if isinstance(self.step, Batch):
            return ("send", "isend", "recv", "irecv", "batch_isend_irecv")
        if isinstance(self.step, Collective):
            name = self.step.name
            return _OTHER_NAMES.get(name, (name,))
        return ("new_group",)

    def __str__(self) -> str:
        return f"{self.kind}: rank {self.rank}, step {self.index}, which was {self.step}\n{self.program}"


_OTHER_NAMES = {
    "all_to_all_uneven": ("all_to_all_single", "all_to_all"),
    "monitored_barrier": ("monitored_barrier", "barrier"),
    "all_gather_single": ("all_gather_single", "all_gather_into_tensor", "all_gather"),
    "reduce_scatter_single": ("reduce_scatter_single", "reduce_scatter_tensor", "reduce_scatter"),
}


def break_one(program: Program, seed: int) -> Broken:
    """Break it in one place. Seeds in a row give one kind after the other, as far as the program has room for it."""
    random = Random(seed)
    kinds = sorted(KINDS)
    first = kinds.pop(seed % len(kinds))
    for kind in [first, *random.sample(kinds, len(kinds))]:
        places = list(_places(program, kind))
        for rank, index in random.sample(places, len(places)):
            steps = program.steps[rank]
            put = KINDS[kind][1](program, rank, steps[index], random)
            if put != (steps[index],):
                result = program.with_steps(rank, (*steps[:index], *put, *steps[index + 1 :]))
                return Broken(result, kind, rank, index, _begun_by(program, rank, steps[index]))
    raise ValueError(f"nothing in program {program.seed} can be broken")


def _begun_by(program: Program, rank: int, step: Step) -> Step:
    """Of a wait, the step that began what it waits for."""
    if not isinstance(step, Wait):
        return step
    return next(one for one in program.steps[rank] if getattr(one, "handle", None) == step.handle)


def _places(program: Program, kind: str) -> Iterator[tuple[int, int]]:
    """Where a change matters to another rank, or to what this one reads."""
    for rank, index, step in program.all_of(Step):
        begun = _begun_by(program, rank, step)
        if isinstance(begun, Collective):
            matters = len(program.groups[begun.group]) > 1
        else:
            matters = not isinstance(begun, NewGroup) or (rank in begun.ranks and len(begun.ranks) > 1)
        if isinstance(step, Wait):
            matters &= not (isinstance(begun, Message) and begun.is_send)
            matters &= getattr(begun, "name", "") not in _MAY_BE_LEFT
        if matters and isinstance(step, KINDS[kind][0]):
            yield rank, index


Put = tuple[Step, ...]  # in the place of the step
Breaking = Callable[[Program, int, Any, Random], Put]


def _left_out(program: Program, rank: int, step: Any, random: Random) -> Put:
    return ()


def _raised_and_swallowed(program: Program, rank: int, step: Any, random: Random) -> Put:
    return (Missed(step.turn, step),)


def _returned_early(program: Program, rank: int, step: Any, random: Random) -> Put:
    return Leave(step.turn), step


def _changed_before_wait(program: Program, rank: int, step: Any, random: Random) -> Put:
    messages = step.parts if isinstance(step, Batch) else (step,)
    # a part of a larger tensor is not watched: what lies beside it may be changed
    if not any(message.how == "isend" and not message.content.sliced for message in messages):
        return (step,)
    return step, Change(step.turn, step.handle)


def _with_other(fields: Callable[[Program, int, Any, Random], dict[str, Any]]) -> Breaking:
    """Other fields of the step, or of one part of a batch. A step that has none of them stays as it is."""

    def changed(program: Program, rank: int, step: Any, random: Random) -> Put:
        part = random.choice(step.parts) if isinstance(step, Batch) else step
        new = replace(part, **fields(program, rank, part, random))
        if isinstance(step, Batch):
            new = replace(step, parts=tuple(new if one is part else one for one in step.parts))
        return (new,)

    return changed


def _other_root(program: Program, rank: int, step: Any, random: Random) -> dict[str, Any]:
    return {} if step.root is None else {"root": random.choice(program.groups[step.group])}


def _other_reduce_op(program: Program, rank: int, step: Any, random: Random) -> dict[str, Any]:
    return {} if step.reduce_op is None else {"reduce_op": random.choice(reduce_ops_for(step.content.dtype))}


def _other_peer(program: Program, rank: int, step: Any, random: Random) -> dict[str, Any]:
    others = [other for other in program.groups[step.group] if other != rank]
    return {} if step.peer is None else {"peer": random.choice(others)}


def _other_content(program: Program, rank: int, step: Any, random: Random) -> dict[str, Any]:
    if getattr(step, "name", "") in ("all_to_all_uneven", *WITHOUT_TENSOR):  # whose lengths follow from the turn
        return {}
    dtype, elements = step.content.dtype, step.content.elements
    if random.random() < 0.5:
        return {"content": replace(step.content, shape=(random.choice((elements + 1, elements * 2)),))}
    return {"content": replace(step.content, dtype=random.choice(INTEGERS if dtype in INTEGERS else FLOATS))}


def _other_collective(program: Program, rank: int, step: Any, random: Random) -> dict[str, Any]:
    names = ["all_reduce", "broadcast", "all_gather", "reduce", "gather", "scatter", "reduce_scatter", "barrier"]
    name = random.choice([*names, *(ONLY_BLOCKING if step.handle is None else [])])
    root = step.root if step.root is not None else random.choice(program.groups[step.group])
    content = step.content if step.content.dtype != "bool" else Content(step.content.shape, "uint8")
    return {
        "name": name,
        "content": Content() if name in WITHOUT_TENSOR else content,
        "root": root if name in WITH_ROOT else None,
        "reduce_op": (step.reduce_op or random.choice(("SUM", "MAX"))) if "reduce" in name else None,
    }


# the steps that can be broken so
KINDS: dict[str, tuple[type | tuple[type, ...], Breaking]] = {
    "left_out": (_COMMUNICATING, _left_out),
    "wait_left_out": (Wait, _left_out),
    "group_left_out": (NewGroup, _left_out),
    "raised_and_swallowed": (_COMMUNICATING, _raised_and_swallowed),
    "returned_early": (_COMMUNICATING, _returned_early),
    "changed_before_wait": ((Message, Batch), _changed_before_wait),
    "other_root": (Collective, _with_other(_other_root)),
    "other_reduce_op": (Collective, _with_other(_other_reduce_op)),
    "other_content": (_COMMUNICATING, _with_other(_other_content)),
    "other_tag": ((Message, Batch), _with_other(lambda *_: {"tag": _UNUSED_TAG})),
    "other_peer": ((Message, Batch), _with_other(_other_peer)),
    "other_collective": (Collective, _with_other(_other_collective)),
}
