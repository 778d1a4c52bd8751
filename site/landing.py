"""The first page: a figure that moves, the commands of README, and a map of the lessons.

Nothing is stored twice: the commands and the aim of each lesson come from README; the title, the minutes and the
figures come from the lesson.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from math import log

from committed import ROOT, lessons, minutes_of, number_of, read_lesson, title_of
from living import STILL, image_of

from ddp_lessons import show
from ddp_lessons.show.figures.figure import living_svg_in, page_of
from ddp_lessons.train.ring import ring_all_reduce

# the first lesson of each part, with the title and a description of the part
PARTS = {
    0: ("Communication between ranks", "Start processes, send tensors between them, and build an all-reduce by hand."),
    5: ("Training on many ranks", "Average gradients, partition the data, and take DistributedDataParallel apart."),
    9: ("For work", "Write a training script, keep its accuracy, find out why it hangs, and have it judged."),
    13: (
        "Electives",
        "The speed of GPUs, several machines and Slurm, models that don't fit on one rank, jobs at work.",
    ),
    17: ("For reference", "Backends, stores, other ways to form a group, MPI and RPC."),
}
CARD = 16 / 10  # width divided by height
NOTHING_STORED = """\
<svg class="no-figure" viewBox="0 0 160 100" aria-hidden="true"><path d="M24 32h112M24 50h112M24 68h112"/>
<circle cx="44" cy="32" r="5"/><circle cx="80" cy="50" r="5"/><circle cx="116" cy="68" r="5"/></svg>"""


@dataclass(frozen=True)
class Card:
    number: int
    title: str
    aim: str
    minutes: int
    thumbnail: str
    page: str


@dataclass(frozen=True)
class Part:
    title: str
    about: str
    time: str
    cards: list[Card]


def first_page() -> dict[str, object]:
    """The variables of the template landing.html."""
    headline, _, sentence = readme().split("\n\n")[1].replace("\n", " ").partition(": ")
    words = {"headline": f"{headline}.", "sentence": sentence[0].upper() + sentence[1:], "commands": commands()}
    return words | {"figure": moving_figure(), "parts": [asdict(part) for part in parts()]}


@cache
def readme() -> str:
    return (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> str:
    """The first commands of README."""
    found = re.search(r"^## Get started\n[^#]*?\n\n((?: {4}.+\n)+)", readme(), re.M)
    return re.sub("^ {4}", "", found[1], flags=re.M).strip() if found else ""


def moving_figure() -> str:
    """It plays as soon as it is visible; in a lesson, such a figure waits for the reader."""
    figure = show.ring(ring_all_reduce)
    return page_of(replace(figure, data={**figure.data, "plays": True}).living_svg, figure.alt)


def parts() -> Iterator[Part]:
    cards = [card_of(lesson) for lesson in lessons()]
    begins = [*PARTS, len(cards)]
    for first, end in pairwise(begins):
        here = [card for card in cards if first <= card.number < end]
        yield Part(*PARTS[first], duration(sum(card.minutes for card in here)), here)


def duration(minutes: int) -> str:
    return f"{minutes} minutes" if minutes < 100 else f"{minutes / 60:.0f} hours"


def card_of(lesson: str) -> Card:
    row = re.search(rf"\({re.escape(lesson)}\) \| [^|]+ \| (.+) \|$", readme(), re.M)
    aim = re.sub("`(.+?)`", r"<code>\1</code>", html.escape(row[1], quote=False)) if row else ""
    title, page = title_of(lesson).partition(":")[0], lesson.removesuffix(".ipynb")
    return Card(number_of(lesson), title[0].upper() + title[1:], aim, minutes_of(lesson), thumbnail(lesson), page)


def thumbnail(lesson: str) -> str:
    """The best of the stored figures. It needs no alt text, because the lesson's title is next to it."""
    outputs = (output for cell in read_lesson(lesson).cells for output in cell.get("outputs", []))
    stills = [output.data[STILL] for output in outputs if STILL in output.get("data", {})]
    return image_of(min(stills, key=fitness), "") if stills else NOTHING_STORED


def fitness(still: str) -> float:
    """Prefer figures of values to calls, and these to charts; but what is far from a card's shape would be cut off."""
    living = living_svg_in(still)
    kind = 2 if "data-view" not in living else 1 if 'data-view="Time"' in living else 0
    return kind + 2 * abs(log(shape_of(still) / CARD))


def shape_of(still: str) -> float:
    box = re.search(r"viewBox=.[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)", still)
    return float(box[1]) / float(box[2]) if box else CARD
