"""Which stage of a pipeline works on which micro-batch, step by step, and where it is idle: the bubble."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.show.figures.drawing import Box, Line, Shape, color_of_rank, ink_on
from ddp_lessons.show.figures.figure import Figure, write_figure
from ddp_lessons.show.figures.films import Cue, Film, film_of
from ddp_lessons.show.figures.layouts import LEFT, LINE_HEIGHT, fits, key_at, label, name_rank, notes_at
from ddp_lessons.show.page.picture import count, events_of

LANE, SLOT_HEIGHT, WIDEST_SLOT = 30.0, 24.0, 64.0  # pixels
MOST_SLOTS = 60
NO_PIPELINE = "No rank sent a message to its neighbor: a pipeline is made of these."


@dataclass(frozen=True)
class Work:
    """One micro-batch on one stage, on its way forward or back."""

    rank: int
    micro_batch: int
    is_forward: bool

    @property
    def name(self) -> str:
        return f"{'forward' if self.is_forward else 'backward'} of micro-batch {self.micro_batch}"

    def given_by(self, stages: int) -> Work | None:
        """What has to be over before this one can begin."""
        if self.is_forward:
            return Work(self.rank - 1, self.micro_batch, True) if self.rank else None
        is_last = self.rank == stages - 1
        return Work(self.rank if is_last else self.rank + 1, self.micro_batch, is_last)


Slots = Mapping[Work, int]  # the step of each


def pipeline(results: Any, title: str | None = None) -> Figure:
    """Show which stage works on which micro-batch, in steps, and the slots in which it is idle: the bubble.

    The order is that of the recorded messages between neighbors; of several training steps with a barrier between them,
    the last one's. Every piece of work is drawn one step wide, however long it took.
    """
    events = events_of(results)
    stages = events.world_size
    works = [_works(rank, stages, _last_part(events.of(rank), stages)) for rank in range(stages)]
    slots = _slots(works)
    if not slots:
        return write_figure(NO_PIPELINE)
    steps = max(slots.values())
    if steps > MOST_SLOTS:
        return write_figure(f"{steps} steps are too many to be drawn: show at most {MOST_SLOTS}.")
    bubble = _bubble(slots, stages)
    captions = ["Before the first micro-batch.", *(_caption(slots, stages, step) for step in range(1, steps + 1))]
    captions[-1] += f" All in all, {bubble}."
    batches = len({work.micro_batch for work in slots})
    noun = "micro-batch" if batches == 1 else "micro-batches"
    alt = f"{batches} {noun} on {count(stages, 'stage')}, {steps} steps: {bubble}."
    text = _text(slots, stages, bubble)
    return film_of(lambda width: _draw(slots, stages, bubble, width), captions, [steps], title or "", text, alt)


def _last_part(calls: Sequence[Event], stages: int) -> list[Event]:
    """The messages after the last collective of all ranks that any came after; torch's stages also send objects."""
    tensors = [call for call in calls if not call.call.endswith("_object_list")]
    parts = groupby(tensors, lambda call: call.is_collective and len(call.group_ranks) == stages)
    with_messages = [own for own in ([*part] for is_cut, part in parts if not is_cut) if any(map(_is_message, own))]
    return with_messages[-1] if with_messages else []


def _is_message(call: Event) -> bool:
    return not call.is_collective


def _works(rank: int, stages: int, calls: Sequence[Event]) -> list[Work]:
    """In the order in which this rank did them.

    A message that comes in begins a piece of work. The first stage is sent nothing to go forward with, nor the last
    to go back: there it is the message that goes out.
    """
    begins = [
        ("recv", rank - 1, True) if rank else ("send", 1, True),
        ("recv", rank + 1, False) if rank < stages - 1 else ("send", rank - 1, False),
    ]
    works: list[Work] = []
    for call in sorted((call for call in calls if call.took_part), key=_moment):
        for operation, peer, is_forward in begins:
            if (call.operation, call.peer) == (operation, peer):
                works.append(Work(rank, sum(work.is_forward == is_forward for work in works), is_forward))
    return works


def _moment(call: Event) -> float:
    """When a recv was over, and when a send began: torch's schedules make several of them at once."""
    return call.begin if call.operation == "send" or call.end is None else call.end


def _slots(works: Sequence[Sequence[Work]]) -> dict[Work, int]:
    """Each as early as it can be: after the one before it on its rank, and after the one that it is given by."""
    rest, slots = [[*mine] for mine in works], dict[Work, int]()
    while ready := [mine for mine in rest if mine and _is_ready(mine[0], slots, len(works))]:
        for mine in ready:
            work = mine.pop(0)
            before = work.given_by(len(works))
            own = [slot for other, slot in slots.items() if other.rank == work.rank]
            slots[work] = 1 + max([slots[before] if before else 0, *own])
    return slots


def _is_ready(work: Work, slots: Slots, stages: int) -> bool:
    before = work.given_by(stages)
    return before is None or before in slots


def _bubble(slots: Slots, stages: int) -> str:
    total = stages * max(slots.values())
    idle = total - len(slots)
    return f"{idle} of {total} slots are idle, a bubble of {100 * idle / total:.0f} %"


def _caption(slots: Slots, stages: int, step: int) -> str:
    works = {work.rank: work for work, slot in slots.items() if slot == step}
    idle = [str(rank) for rank in range(stages) if rank not in works]
    said = f"{'rank' if len(idle) == 1 else 'ranks'} {', '.join(idle)} idle" if idle else "all ranks work"
    return f"Step {step} of {max(slots.values())}: {said}."


def _draw(slots: Slots, stages: int, bubble: str, width: float) -> Film:
    steps = max(slots.values())
    wide = min((width - LEFT - 6) / steps, WIDEST_SLOT)
    has_backward = any(not work.is_forward for work in slots)
    names = ["forward, with the number of the micro-batch", *["backward"] * has_backward, "idle"]
    signs = [Box(0, -6, 16, 12, "faint"), *[_pale("faint", 0, -6, 16, 12)] * has_backward, _idle(0, -6, 16, 12)]
    key, y = key_at(0, [*zip(signs, names, strict=True)], width)
    cues = [Cue(shape) for shape in key]
    y += LINE_HEIGHT / 2
    for rank in range(stages):
        cues += [Cue(shape) for shape in name_rank(rank, y + rank * LANE + SLOT_HEIGHT / 2)]
        floor = y + rank * LANE + SLOT_HEIGHT + 2
        cues.append(Cue(Line([(LEFT, floor), (LEFT + steps * wide - 2, floor)])))
        taken = {slot for work, slot in slots.items() if work.rank == rank}
        free = sorted({*range(1, steps + 1)} - taken)
        cues += [Cue(_idle(LEFT + (s - 1) * wide, y + rank * LANE, wide - 2, SLOT_HEIGHT), s) for s in free]
    for work, slot in sorted(slots.items(), key=lambda one: one[1]):
        origin = _origin(work, slots, stages, wide)
        place = LEFT + (slot - 1) * wide, y + work.rank * LANE, wide - 2, SLOT_HEIGHT
        cues += [Cue(shape, slot, origin=origin) for shape in _cell(work, *place)]
    y += stages * LANE
    cues.append(Cue(label(4, y + LINE_HEIGHT / 2, bubble[0].upper() + bubble[1:]), steps))
    notes = ["steps of equal width: the order, not the time"]
    below, end = notes_at(y + LINE_HEIGHT, notes, width)
    return Film(width, end + 4, [*cues, *map(Cue, below)])


def _origin(work: Work, slots: Slots, stages: int, wide: float) -> tuple[float, float] | None:
    """From the slot on the stage that it comes from."""
    before = work.given_by(stages)
    if before is None or before.rank == work.rank:
        return None
    return (slots[before] - slots[work]) * wide, (before.rank - work.rank) * LANE


def _cell(work: Work, x: float, y: float, width: float, height: float) -> Iterator[Shape]:
    color, number = color_of_rank(work.rank), str(work.micro_batch)
    about = "" if fits(number, width) else work.name
    if work.is_forward:
        yield Box(x, y, width, height, color, corner=3, about=about)
    else:
        yield _pale(color, x, y, width, height, about)
    if not about:
        ink = ink_on(color) if work.is_forward else "ink"
        yield label(x + width / 2, y + height / 2, number, ink, "middle", is_bold=work.is_forward)


def _pale(color: str, x: float, y: float, width: float, height: float, about: str = "") -> Box:
    return Box(x, y, width, height, color, color, 0.2, 3, about=about)


def _idle(x: float, y: float, width: float, height: float) -> Box:
    return Box(x, y, width, height, "none", "line", corner=3, is_dashed=True)


def _text(slots: Slots, stages: int, bubble: str) -> str:
    steps = max(slots.values())
    by_place = {
        (work.rank, slot): ("F" if work.is_forward else "B") + str(work.micro_batch) for work, slot in slots.items()
    }
    wide = max(map(len, by_place.values()))
    lines = [
        f"rank {rank} | "
        + " ".join(by_place.get((rank, step), ".").ljust(wide) for step in range(1, steps + 1)).rstrip()
        for rank in range(stages)
    ]
    return "\n".join([*lines, f"F forward, B backward, with the micro-batch; . idle. {bubble[0].upper()}{bubble[1:]}."])
