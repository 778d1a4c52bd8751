"""Which stage of a pipeline works on which micro-batch, step by step, and where it is idle: the bubble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ddp_lessons.record.event import Event
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.show.figures.drawing import Box, Line, Shape, Words
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.figures.formats import events_of
from ddp_lessons.show.figures.layouts import (
    LEFT,
    LINE_HEIGHT,
    Cue,
    Film,
    film_of,
    fits,
    key_at,
    name_rank,
    notes_at,
    write_figure,
)
from ddp_lessons.show.figures.palette import color_of_rank, ink_on

LANE, SLOT_HEIGHT, WIDEST_SLOT = 30.0, 24.0, 64.0  # pixels


class Work(NamedTuple):
    """The forward or backward pass of one micro-batch on one stage."""

    rank: int
    micro_batch: int
    is_forward: bool

    def given_by(self, stages: int) -> Work:
        """The pass that has to end before this one can start; its rank is -1 for the first stage's forward."""
        if self.is_forward or self.rank == stages - 1:
            return Work(self.rank - self.is_forward, self.micro_batch, True)
        return Work(self.rank + 1, self.micro_batch, False)


Slots = Mapping[Work, int]  # the step of each


def pipeline(results: Any, title: str = "") -> Figure:
    """Show step by step which stage works on which micro-batch, and where it is idle: the bubble.

    The order is that of the recorded messages between neighbors. If barriers separate several training steps, the last
    one is shown. Each piece of work is one step wide, however long it took.
    """
    events = events_of(results)
    stages = events.world_size
    slots = _slots([_works(rank, stages, _last_step(events.of(rank), stages)) for rank in range(stages)])
    if not slots:
        return write_figure("No rank sent a message to its neighbor, so there is no pipeline to draw.")
    steps = max(slots.values())
    total = stages * steps
    idle = total - len(slots)
    bubble = f"{idle} of {total} slots are idle, a bubble of {100 * idle / total:.0f}%"
    captions = ["Before the first micro-batch."]
    for step in range(1, steps + 1):
        working = [work.rank for work, slot in slots.items() if slot == step]
        ranks = [str(rank) for rank in range(stages) if rank not in working]
        said = f"{'rank' if len(ranks) == 1 else 'ranks'} {', '.join(ranks)} idle" if ranks else "all ranks work"
        captions.append(f"Step {step} of {steps}: {said}.")
    captions[-1] += f" In total, {bubble}."
    signs = {(work.rank, slot): f"{'BF'[work.is_forward]}{work.micro_batch}" for work, slot in slots.items()}
    wide = max(map(len, signs.values()))
    lines = [[signs.get((rank, step), ".").ljust(wide) for step in range(1, steps + 1)] for rank in range(stages)]
    text = "\n".join(f"rank {rank} | {' '.join(line).rstrip()}" for rank, line in enumerate(lines))
    text += f"\nF = forward, B = backward (followed by the micro-batch), . = idle. {bubble}."
    batches = len({work.micro_batch for work in slots})
    alt = f"{batches} micro-batch{'es' * (batches != 1)} on {count(stages, 'stage')}, {steps} steps: {bubble}."
    return film_of(lambda width: _draw(slots, stages, bubble, width), captions, steps, title, text, alt, begins=steps)


def _last_step(calls: Sequence[Event], stages: int) -> list[Event]:
    """The last messages without a collective of all ranks in between; objects, which torch sends too, don't count."""
    parts: list[list[Event]] = [[]]
    for call in calls:
        if call.is_collective and len(call.group_ranks) == stages:
            parts.append([])
        elif not call.is_collective and not call.call.endswith("_object_list"):
            parts[-1].append(call)
    return next((part for part in reversed(parts) if part), [])


def _works(rank: int, stages: int, calls: Sequence[Event]) -> list[Work]:
    """The passes of this rank, in its order.

    A received message starts a pass. The first stage receives nothing for its forward passes, nor the last stage for
    its backward passes, so there the sent message counts.
    """
    begins: dict[tuple[str, int | None], bool] = {
        ("recv", rank - 1) if rank else ("send", 1): True,
        ("recv", rank + 1) if rank < stages - 1 else ("send", rank - 1): False,
    }
    ways = [begins.get((call.operation, call.peer)) for call in sorted(calls, key=_moment) if call.took_part]
    return [Work(rank, ways[:place].count(way), way) for place, way in enumerate(ways) if way is not None]


def _moment(call: Event) -> float:
    """The end of a recv, but the start of a send, because torch's schedules make several of them at once."""
    return call.begin if call.operation == "send" or call.end is None else call.end


def _slots(works: Sequence[list[Work]]) -> dict[Work, int]:
    """Schedule each pass as early as possible: after the previous one on its rank, and after the one that feeds it."""
    slots, stages = dict[Work, int](), len(works)
    while ready := [mine for mine in works if mine and _is_ready(mine[0].given_by(stages), slots)]:
        for mine in ready:
            work = mine.pop(0)
            own = [slot for other, slot in slots.items() if other.rank == work.rank]
            slots[work] = 1 + max([slots.get(work.given_by(stages), 0), *own])
    return slots


def _is_ready(before: Work, slots: Slots) -> bool:
    return before.rank < 0 or before in slots


def _draw(slots: Slots, stages: int, bubble: str, width: float) -> Film:
    steps = max(slots.values())
    wide = min((width - LEFT - 6) / steps, WIDEST_SLOT)
    names = ["F: forward pass of a micro-batch", "B: backward pass", "idle"]
    signs = [Box(0, -6, 16, 12, "faint"), _pale("faint", 0, -6, 16, 12), _idle(0, -6, 16, 12)]
    key, y = key_at(0, [*zip(signs, names, strict=True)], width)
    cues = [*map(Cue, key)]
    y += LINE_HEIGHT / 2
    for rank in range(stages):
        top = y + rank * LANE
        cues += [Cue(shape) for shape in name_rank(rank, top + SLOT_HEIGHT / 2)]
        floor = top + SLOT_HEIGHT + 2
        cues.append(Cue(Line([(LEFT, floor), (LEFT + steps * wide - 2, floor)])))
        taken = {slot for work, slot in slots.items() if work.rank == rank}
        free = sorted({*range(1, steps + 1)} - taken)
        cues += [Cue(_idle(LEFT + (slot - 1) * wide, top, wide - 2, SLOT_HEIGHT), slot) for slot in free]
    for work, slot in sorted(slots.items(), key=lambda one: one[1]):
        before = work.given_by(stages)
        is_sent = before.rank not in (-1, work.rank)
        origin = ((slots[before] - slot) * wide, (before.rank - work.rank) * LANE) if is_sent else None
        cell = _cell(work, LEFT + (slot - 1) * wide, y + work.rank * LANE, wide - 2)
        cues += [Cue(shape, slot, origin=origin) for shape in cell]
    y += stages * LANE
    cues.append(Cue(Words(4, y + LINE_HEIGHT / 2, bubble), steps))
    below, end = notes_at(y + LINE_HEIGHT, ["steps of equal width: they show the order, not the time"], width)
    return Film(width, end + 4, [*cues, *map(Cue, below)])


def _cell(work: Work, x: float, y: float, width: float) -> Iterator[Shape]:
    color, number = color_of_rank(work.rank), str(work.micro_batch)
    names = f"{'F' if work.is_forward else 'B'}{number}", number
    place = x, y, width, SLOT_HEIGHT
    yield Box(*place, color, corner=3) if work.is_forward else _pale(color, *place)
    ink = ink_on(color) if work.is_forward else "ink"
    for name in [name for name in names if fits(name, width / 1.1)][:1]:  # bold is wider
        yield Words(x + width / 2, y + SLOT_HEIGHT / 2, name, ink, "middle", is_bold=work.is_forward)


def _pale(color: str, x: float, y: float, width: float, height: float) -> Box:
    return Box(x, y, width, height, color, color, 0.2, 3)


def _idle(x: float, y: float, width: float, height: float) -> Box:
    return Box(x, y, width, height, edge="line", corner=3, is_dashed=True)
