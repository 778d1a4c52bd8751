"""A figure is data; its still image shows that data anywhere, and a notebook shows it alive."""

from __future__ import annotations

import ast
import html
import io
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from looks import check_layouts, layouts_of
from nights import nightly
from notebook_session import OPEN_WIDGETS, NotebookSession
from PIL import Image
from recorded import ring_steps, token_round

from ddp_lessons import Results, show
from ddp_lessons.machines.live_or_recorded import recall
from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.record.rank_record import Told
from ddp_lessons.run.output.cards import framed, lines_of_text
from ddp_lessons.show.figures import living
from ddp_lessons.show.figures.drawing import (
    DARK,
    LIGHT,
    MOST_DATA,
    RANKS,
    Bars,
    Box,
    Drawing,
    Line,
    Words,
    document_of,
    ink_on,
    to_png,
    to_svg,
)
from ddp_lessons.show.page.picture import contrast
from ddp_lessons.train.ring import ring_all_reduce

TOLD: Results[None] = Results(
    (None,) * 2, ([], []), 1.0, token_round(2), tuple((Told(1e-3, "forward", {}),) for _ in range(2))
)
FIGURES: dict[str, Callable[[], show.Figure]] = {
    "timeline": lambda: show.timeline(token_round(4)),
    "timeline of 16": lambda: show.timeline(token_round(16), title="Sixteen & more"),
    "timeline with phases": lambda: show.timeline(TOLD),
    "ring": lambda: show.ring(ring_all_reduce),
    "nothing": lambda: show.timeline(ring_steps(2, 0)),
}
DRAWINGS: dict[str, Callable[[], show.Figure]] = {
    "traffic": lambda: show.traffic(ring_steps(8, 6), textbook=48),
    "memory": lambda: show.memory(
        {"DDP": [{"parameters": 800, "gradients": 800, "optimizer": 1600}] * 4}, title="A & B"
    ),
    "fingerprints": lambda: show.fingerprints([["1a2b3c4d", "00000000"], ["1a2b3c4d", "ffffffff"]]),
    "samples": lambda: show.samples([[[0, 4, 5], [3, 1, 0]], [[2, 1, 4], [0, 5, 2]]], total=8),
    "machines": lambda: show.machines(recall("lose_and_regain", ""), "A machine is lost"),
    "samples of many": lambda: show.samples([range(3000), range(2000, 4000)], total=5000),
}
FIGURES |= DRAWINGS
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", FIGURES)
def test_a_still_stands_alone_and_carries_its_words_and_its_data(name: str) -> None:
    figure = FIGURES[name]()
    data, metadata = figure._repr_mimebundle_()
    assert data["text/plain"] == figure.text == repr(figure)
    assert metadata["image/svg+xml"]["alt"] == figure.alt
    image = ET.fromstring(data["image/svg+xml"])
    assert image.findtext(f"{SVG}title") == figure.alt
    assert image.find(f"{SVG}metadata") is not None
    assert document_of(data["image/svg+xml"]) == json.loads(json.dumps(figure.document))
    assert "href" not in data["image/svg+xml"]
    assert len(data["image/svg+xml"]) < 60_000


@pytest.mark.parametrize("name", FIGURES)
def test_a_still_has_all_shapes_of_its_drawing(name: str) -> None:
    figure = FIGURES[name]()
    image = ET.fromstring(figure.svg)
    shapes = figure.still.shapes
    boxes = [one for one in shapes if isinstance(one, Box)]
    words = [one.text for one in shapes if isinstance(one, Words)]
    assert [text.text for text in image.iter(f"{SVG}text")] == words
    assert len(list(image.iter(f"{SVG}polyline"))) == sum(isinstance(one, Line) for one in shapes)
    assert len(list(image.iter(f"{SVG}path"))) == sum(isinstance(one, Bars) for one in shapes)
    hatched = sum(one.is_hatched for one in boxes)
    assert len(list(image.iter(f"{SVG}rect"))) == len(boxes) + hatched + 1  # the paper


def test_very_much_data_is_not_stored_in_the_image() -> None:
    figure = show.timeline(ring_steps(8, 60))
    assert len(json.dumps(figure.document)) > MOST_DATA
    assert "ddp-figure" not in figure.svg


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_picture_is_laid_out_for_narrow_and_for_wide_columns(name: str) -> None:
    figure = DRAWINGS[name]()
    check_layouts(figure)
    assert figure.document["layouts"][0]["width"] <= 344  # a column of 360 less what is beside it
    for layout in layouts_of(figure):
        ends = [shape.x + shape.width for shape in layout.shapes if isinstance(shape, Box)]
        assert max(ends, default=0) <= layout.width


def test_more_room_that_changes_nothing_makes_no_further_layout() -> None:
    assert [one.width for one in layouts_of(show.fingerprints([["1a2b3c4d"], ["1a2b3c4d"]]))] == [320]


@pytest.mark.parametrize("height", [20.0, -20.0])
def test_bars_stand_on_their_foot_or_hang_from_it(height: float) -> None:
    bars = Bars(10, 30, 8, height, [0.5, 0, 1], gap=2, fill="alarm")
    first, last = bars.boxes()
    assert [(box.x, box.width, box.height) for box in (first, last)] == [(10, 6, 10), (26, 6, 20)]
    assert [box.y for box in (first, last)] == ([20, 10] if height > 0 else [30, 30])
    outline = ET.fromstring(to_svg(Drawing(60, 60, [replace(bars, gap=0.0)]), "one outline")).find(f"{SVG}path")
    tops = ("20", "30", "10") if height > 0 else ("40", "30", "50")
    assert outline is not None
    assert outline.get("d") == "M10 30" + "".join(f"V{top}h8" for top in tops) + "V30z"


def test_bars_are_in_the_png_too() -> None:
    drawing = Drawing(60, 60, [Bars(10, 50, 20, 40, [1, 0], fill="alarm")])
    image = Image.open(io.BytesIO(to_png(drawing, scale=1))).convert("RGB")
    assert "#" + "".join(f"{part:02X}" for part in image.getpixel((20, 30))) == LIGHT["alarm"]  # type: ignore[union-attr]
    assert image.getpixel((40, 30)) == (255, 255, 255)


@pytest.mark.parametrize("name", FIGURES)
def test_words_and_still_are_the_same_in_every_run(name: str) -> None:
    one, other = FIGURES[name](), FIGURES[name]()
    assert (one.text, one.alt, one.svg) == (other.text, other.alt, other.svg)


@pytest.mark.parametrize("colors", [LIGHT, LIGHT | DARK])
def test_words_can_be_read_on_a_light_and_on_a_dark_page(colors: dict[str, str]) -> None:
    for name in ("ink", "faint", "alarm"):
        assert min(contrast(colors[name], colors[paper]) for paper in ("paper", "band")) >= 4.5
    for name in ("collective", "ddp", *RANKS):
        assert contrast(ink_on(name), (colors | RANKS)[name]) >= 4.5
    for name in ("collective", "ddp"):
        assert min(contrast(colors[name], colors[paper]) for paper in ("paper", "band")) >= 3


def test_a_figure_is_saved_as_png_or_svg(tmp_path: Path) -> None:
    figure = FIGURES["timeline with phases"]()
    figure.save(tmp_path / "one.png")
    figure.save(str(tmp_path / "one.svg"))
    image = Image.open(tmp_path / "one.png")
    assert (image.format, image.width, image.getpixel((0, 0))) == ("PNG", 1520, (255, 255, 255, 255))
    assert (tmp_path / "one.svg").read_text(encoding="utf-8") == figure.svg
    with pytest.raises(ValueError, match=r"\.png or \.svg"):
        figure.save(tmp_path / "one.doc")


@nightly
def test_a_png_has_the_colors_of_the_ranks() -> None:
    file = io.BytesIO()
    file.write(to_png(FIGURES["timeline of 16"]().still))
    colors = Image.open(file).convert("RGB").getcolors(1 << 20) or []
    assert set(RANK_COLORS) <= {"#" + "".join(f"{part:02X}" for part in pixel) for _, pixel in colors}  # type: ignore[union-attr]


CELLS = (
    "from ddp_lessons import launch, show; import torch.distributed as dist",
    "figure = show.timeline(launch(lambda rank, size: dist.barrier(), 2))",
    "figure",
)


@nightly
def test_a_notebook_shows_a_living_figure_a_still_and_a_caption_that_opens_to_text() -> None:
    with NotebookSession() as session:
        shown, caption = [session.run(cell) for cell in CELLS][-1].displays
        text = ast.literal_eval(session.run("figure.text").value)
        document = ast.literal_eval(session.run("dict(figure.document)").value)
        name = shown["application/vnd.jupyter.widget-view+json"]["model_id"]
        widget = f"{OPEN_WIDGETS}[{name!r}].document"
        assert ast.literal_eval(session.run(widget).value) == document
    assert {"application/vnd.jupyter.widget-view+json", "image/svg+xml", "text/plain"} == set(shown)
    assert caption["text/html"].startswith("<details><summary>Timeline of 2 ranks, 1 collective")
    assert html.unescape(caption["text/html"]).partition("<pre>")[2].removesuffix("</pre></details>") == text


def test_without_a_kernel_there_is_no_widget() -> None:
    code = "from ddp_lessons.show.figures.living import view_of; print(view_of({'kind': 'note'}))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert asked.stdout.strip() == "{}"


def test_the_modules_of_the_browser_use_only_those_before_them_and_share_no_name() -> None:
    before: set[str] = set()
    names: list[str] = []
    for module in living.MODULES:
        source = (living.HERE / f"{module}.js").read_text(encoding="utf-8")
        assert set(re.findall(r'^import .* from "\./(\w+)\.js"', source, re.MULTILINE)) <= before
        names += re.findall(r"^(?:export )?(?:const|let|function|class) (\w+)", source, re.MULTILINE)
        before.add(module)
    assert {file.stem for file in living.HERE.glob("*.js")} == before
    assert len(names) == len(set(names))


def test_the_renderer_is_small_and_calls_nothing_from_outside() -> None:
    import gzip

    source = living.joined_modules() + living.style_sheet()
    assert len(gzip.compress(source.encode())) < 60_000
    assert set(re.findall(r"https?://[^\"'`\s]+", source)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(?:fetch|XMLHttpRequest|eval)\(", source)


def test_the_browser_and_the_still_have_the_same_colors() -> None:
    source = living.joined_modules()
    colors: Any = set(RANK_COLORS) | {LIGHT["collective"], LIGHT["ddp"]}
    assert all(color in source for color in colors)


def test_figures_and_messages_of_one_page_have_no_class_in_common() -> None:
    message = framed("".join(lines_of_text(["    rank 0   waits (x.py line 3:   f())", "     1  def f():"])), "wrong")
    style, _, body = message.partition("</style>")
    of_messages = {*re.findall(r"\.(ddp-[a-z-]+)", style), *re.findall(r"ddp-[a-z-]+", body)}
    assert "ddp-message" in of_messages
    assert of_messages & set(re.findall(r"\.(ddp-[a-z-]+)", living.style_sheet())) == set()
