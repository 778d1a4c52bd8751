"""Breaks a correct program in one place, and says what was broken.

A change counts only if the program is wrong for it whatever the timing: that is asked of the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from program_simulator import is_always_wrong
from program_steps import (
    Batch,
    Change,
    Collective,
    Compute,
    Content,
    Leave,
    Message,
    Missed,
    NewGroup,
    Program,
    Sleep,
    Step,
    Steps,
    Wait,
)
from random_programs import FLOATS, INTEGERS, ONLY_BLOCKING, WITH_ROOT, WITHOUT_TENSOR, reduce_ops_for

_COMMUNICATING = (Message, Batch, Collective)
_MOST_TRIALS = 30


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
        return _names_of(self.step)

    def __str__(self) -> str:
        return f"{self.kind}: rank {self.rank}, step {self.index}, which was {self.step}\n{self.program}"


def break_one(program: Program, seed: int) -> Broken:
    """Break it in one place. Seeds in a row give one kind after the other, as far as the program has room for it."""
    random = Random(seed)
    kinds = sorted(KINDS)
    first = kinds.pop(seed % len(kinds))
    random.shuffle(kinds)
    for kind in [first, *kinds]:
        places = list(_places(program, kind))
        random.shuffle(places)
        for rank, index in places[:_MOST_TRIALS]:
            broken = break_at(program, kind, rank, index, random)
            if broken is not None:
                return broken
    raise ValueError(f"nothing in program {program.seed} can be broken")


def break_at(program: Program, kind: str, rank: int, index: int, random: Random) -> Broken | None:
    """None if that makes no wrong program."""
    steps = program.steps[rank]
    changed = KINDS[kind](program, rank, index, random)
    if changed is None or changed == steps:
        return None
    result = program.with_steps(rank, changed)
    return Broken(result, kind, rank, index, _begun_by(steps, steps[index])) if is_always_wrong(result) else None


def _begun_by(steps: Steps, step: Step) -> Step:
    """Of a wait, the step that began what it waits for."""
    if not isinstance(step, Wait):
        return step
    return next(one for one in steps if getattr(one, "handle", None) == step.handle)


def _places(program: Program, kind: str) -> Iterator[tuple[int, int]]:
    for rank, index, step in program.all_of(Step):
        if kind in _KINDS_FOR_GROUPS:
            fits = isinstance(step, NewGroup)
        elif kind == "wait_left_out":
            fits = isinstance(step, Wait)
        else:
            fits = isinstance(step, _COMMUNICATING) or (kind == "exchanged" and isinstance(step, Wait))
        if fits:
            yield rank, index


Breaking = Callable[[Program, int, int, Random], Steps | None]


def _left_out(program: Program, rank: int, index: int, random: Random) -> Steps:
    steps = program.steps[rank]
    return steps[:index] + steps[index + 1 :]


def _raised_and_swallowed(program: Program, rank: int, index: int, random: Random) -> Steps:
    return _with(program.steps[rank], index, Missed(program.steps[rank][index].turn, program.steps[rank][index]))


def _returned_early(program: Program, rank: int, index: int, random: Random) -> Steps:
    steps = program.steps[rank]
    return (*steps[:index], Leave(steps[index].turn), *steps[index:])


def _exchanged(program: Program, rank: int, index: int, random: Random) -> Steps | None:
    """With the next step, unless that waits for this one."""
    steps = list(program.steps[rank])
    later = next((i for i in range(index + 1, len(steps)) if not isinstance(steps[i], Sleep | Compute)), None)
    if later is None or _begun_by(tuple(steps), steps[later]) == steps[index]:
        return None
    steps[index], steps[later] = steps[later], steps[index]
    return tuple(steps)


def _groups_exchanged(program: Program, rank: int, index: int, random: Random) -> Steps | None:
    steps = list(program.steps[rank])
    if index + 1 == len(steps) or not isinstance(steps[index + 1], NewGroup):
        return None
    steps[index], steps[index + 1] = steps[index + 1], steps[index]
    return tuple(steps)


def _changed_before_wait(program: Program, rank: int, index: int, random: Random) -> Steps | None:
    steps = program.steps[rank]
    step = steps[index]
    messages = step.parts if isinstance(step, Batch) else (step,) if isinstance(step, Message) else ()
    # a part of a larger tensor is not watched: what lies beside it may be changed
    if not any(message.how == "isend" and not message.content.sliced for message in messages):
        return None
    assert isinstance(step, Batch | Message)
    assert step.handle is not None
    return (*steps[: index + 1], Change(step.turn, step.handle), *steps[index + 1 :])


def _changing(change: Callable[[Program, Any, Random], Step | None]) -> Breaking:
    """One field of the step, or of one part of a batch."""

    def changed(program: Program, rank: int, index: int, random: Random) -> Steps | None:
        steps = program.steps[rank]
        step = steps[index]
        new: Step | None
        if isinstance(step, Batch):
            place = random.randrange(len(step.parts))
            part = change(program, step.parts[place], random)
            new = replace(step, parts=_with(step.parts, place, part)) if isinstance(part, Message) else None
        else:
            new = change(program, step, random)
        return _with(steps, index, new) if new is not None else None

    return changed


def _other_root(program: Program, step: Step, random: Random) -> Step | None:
    if not isinstance(step, Collective) or step.root is None:
        return None
    return replace(step, root=random.choice(program.groups[step.group]))


def _other_reduce_op(program: Program, step: Step, random: Random) -> Step | None:
    if not isinstance(step, Collective) or step.reduce_op is None:
        return None
    return replace(step, reduce_op=random.choice(reduce_ops_for(step.content.dtype)))


def _has_tensor(step: Step) -> bool:
    uneven = ("all_to_all_uneven", *WITHOUT_TENSOR)  # whose lengths follow from the turn
    return isinstance(step, Message) or (isinstance(step, Collective) and step.name not in uneven)


def _other_shape(program: Program, step: Any, random: Random) -> Step | None:
    if not _has_tensor(step):
        return None
    elements = step.content.elements
    other = random.choice((elements + 1, elements * 2, max(1, elements // 2), max(1, elements - 1)))
    return replace(step, content=replace(step.content, shape=(other,)))  # type: ignore[no-any-return]


def _other_dtype(program: Program, step: Any, random: Random) -> Step | None:
    if not _has_tensor(step):
        return None
    fitting = [name for name in (*FLOATS, *INTEGERS) if (name in INTEGERS) == (step.content.dtype in INTEGERS)]
    return replace(step, content=replace(step.content, dtype=random.choice(fitting)))  # type: ignore[no-any-return]


def _other_collective(program: Program, step: Step, random: Random) -> Step | None:
    if not isinstance(step, Collective):
        return None
    names = ["all_reduce", "broadcast", "all_gather", "reduce", "gather", "scatter", "reduce_scatter", "barrier"]
    if step.handle is None:
        names += ONLY_BLOCKING
    name = random.choice(names)
    root = step.root if step.root is not None else random.choice(program.groups[step.group])
    content = step.content if step.content.dtype != "bool" else Content(step.content.shape, "uint8")
    reduce_op = step.reduce_op or random.choice(("SUM", "MAX"))
    reduces = "reduce" in name
    return replace(
        step,
        name=name,
        content=Content() if name in WITHOUT_TENSOR else content,
        root=root if name in WITH_ROOT else None,
        reduce_op=reduce_op if reduces else None,
    )


def _other_tag(program: Program, step: Step, random: Random) -> Step | None:
    return replace(step, tag=random.choice((step.tag + 1, 3))) if isinstance(step, Message) else None


def _other_peer(program: Program, step: Step, random: Random) -> Step | None:
    if not isinstance(step, Message) or step.peer is None:
        return None
    return replace(step, peer=random.choice(program.groups[step.group]))


KINDS: dict[str, Breaking] = {
    "left_out": _left_out,
    "exchanged": _exchanged,
    "other_root": _changing(_other_root),
    "other_reduce_op": _changing(_other_reduce_op),
    "other_shape": _changing(_other_shape),
    "other_dtype": _changing(_other_dtype),
    "other_tag": _changing(_other_tag),
    "other_peer": _changing(_other_peer),
    "other_collective": _changing(_other_collective),
    "returned_early": _returned_early,
    "raised_and_swallowed": _raised_and_swallowed,
    "wait_left_out": _left_out,
    "changed_before_wait": _changed_before_wait,
    "group_left_out": _left_out,
    "groups_exchanged": _groups_exchanged,
}
_KINDS_FOR_GROUPS = ("group_left_out", "groups_exchanged")


def _with(items: tuple[Any, ...], index: int, item: Any) -> tuple[Any, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _names_of(step: Step) -> tuple[str, ...]:
    if isinstance(step, Message):
        return ("send", "isend") if step.is_send else ("recv", "irecv")
    if isinstance(step, Batch):
        return ("send", "isend", "recv", "irecv", "batch_isend_irecv")
    if isinstance(step, NewGroup):
        return ("new_group",)
    if isinstance(step, Collective):
        return {
            "all_to_all_uneven": ("all_to_all_single", "all_to_all"),
            "monitored_barrier": ("monitored_barrier", "barrier"),
            "all_gather_single": ("all_gather_single", "all_gather_into_tensor", "all_gather"),
            "reduce_scatter_single": ("reduce_scatter_single", "reduce_scatter_tensor", "reduce_scatter"),
        }.get(step.name, (step.name,))
    return ()
