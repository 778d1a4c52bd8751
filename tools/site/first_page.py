"""The landing page: an animated figure, the commands of README.md, and a map of the lessons.

The commands and each lesson's title, minutes and aim come from README.md; the thumbnails are stored figures.
"""

from __future__ import annotations

import base64
import html
import re
from dataclasses import replace
from itertools import pairwise
from math import log

from ddp_lessons import show
from ddp_lessons.show.figures.figure import living_svg_in, page_of
from ddp_lessons.train.ring import ring_all_reduce
from ddp_lessons.workshop.stored_outputs import FIGURE
from tools.site.lesson_pages import ROOT, read_lesson

# the first lesson of each part, with the title and a description of the part
PARTS = {
    0: ("Communication between ranks", "Start processes, send tensors between them, and write an all-reduce yourself."),
    5: ("Training on many ranks", "Average gradients, partition the data, and take DistributedDataParallel apart."),
    9: ("For work", "Write a training script, preserve its accuracy, debug hangs, and have your script checked."),
    13: (
        "Electives",
        "Speed on GPUs, several nodes and Slurm, models that don't fit on one rank, and debugging at work.",
    ),
    17: ("For reference", "Backends, stores, other ways to form a group, MPI and RPC."),
}
ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\((.+)\.ipynb\) \| (\d+) \| (.+) \|$", re.M)
CARD = 16 / 10  # width divided by height
NOTHING_STORED = """\
<svg class="no-figure" viewBox="0 0 160 100" aria-hidden="true"><path d="M24 32h112M24 50h112M24 68h112"/>
<circle cx="44" cy="32" r="5"/><circle cx="80" cy="50" r="5"/><circle cx="116" cy="68" r="5"/></svg>"""


def first_page() -> dict[str, object]:
    """Return the variables of the template landing.html."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    headline, _, sentence = readme.split("\n\n")[1].replace("\n", " ").partition(": ")
    commands = "\n".join(re.findall("^ {4}(.+)$", readme.partition("## Get started")[2].partition("\n##")[0], re.M))
    figure = show.ring(ring_all_reduce)  # here it plays as soon as it is visible; in a lesson, the reader starts it
    moving = page_of(replace(figure, data={**figure.data, "plays": True}).living_svg, figure.alt)
    lessons = [card_of(*row) for row in ROW.findall(readme)]
    parts = [part_of(*PARTS[first], lessons[first:end]) for first, end in pairwise([*PARTS, len(lessons)])]
    words = {"headline": f"{headline}.", "sentence": sentence[0].upper() + sentence[1:], "commands": commands}
    return {**words, "figure": moving, "parts": parts}


def part_of(title: str, about: str, cards: list[dict[str, object]]) -> dict[str, object]:
    minutes = sum(int(str(card["minutes"])) for card in cards)
    time = f"{minutes} minutes" if minutes < 100 else f"{minutes / 60:.0f} hours"
    return {"title": title, "about": about, "time": time, "cards": cards}


def card_of(number: str, title: str, page: str, minutes: str, aim: str) -> dict[str, object]:
    aim = re.sub("`(.+?)`", r"<code>\1</code>", html.escape(aim, quote=False))
    card = {"number": number, "title": title.partition(":")[0], "page": page, "minutes": minutes, "aim": aim}
    return {**card, "thumbnail": thumbnail(f"{page}.ipynb")}


def thumbnail(lesson: str) -> str:
    """The most suitable of the stored figures. It needs no alt text, because the lesson's title is next to it."""
    outputs = (output for cell in read_lesson(lesson).cells for output in cell.get("outputs", []))
    stills = [output.data[FIGURE] for output in outputs if FIGURE in output.get("data", {})]
    if not stills:
        return NOTHING_STORED
    best = min(stills, key=fitness)
    return f'<img alt="" src="data:{FIGURE};base64,{base64.b64encode(best.encode()).decode()}">'


def fitness(still: str) -> float:
    """Prefer figures of values to timelines, and timelines to charts, but only with an aspect ratio near the card's."""
    living = living_svg_in(still)
    kind = 2 if "data-view" not in living else 1 if 'data-view="Time"' in living else 0
    width, height = re.findall(r"viewBox=.[\d.-]+ [\d.-]+ ([\d.]+) ([\d.]+)", still)[0]
    return kind + 2 * abs(log(float(width) / float(height) / CARD))
