"""What every figure has to be: valid, complete, read at each width and on a light and a dark page."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from drawn import SIZE, SVG, Drawn, Layout, layouts_of, shown_layout
from figure_catalog import COLLECTIVES, FIGURES, figure, svg_in
from PIL import Image

from ddp_lessons import show
from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.figures.palette import DARK, LIGHT, RANKS, contrast

LAUNCHED = {*COLLECTIVES, "collectives", "ring", "ring that sends nothing"}
OTHERS = "terminal mpi_run what_works latency cost distance scaling explore_scaling training digits".split()
DRAWN = [name for name in FIGURES if name not in (*OTHERS, "cost by ranks")]
every_figure = pytest.mark.parametrize("name", DRAWN)
THEMES = {"light": LIGHT | RANKS, "dark": LIGHT | RANKS | DARK}


@every_figure
def test_it_is_one_image_with_its_words_in_a_page_with_one_script(name: str) -> None:
    shown = figure(name)
    data, metadata = shown._repr_mimebundle_()
    svg = ElementTree.fromstring(data["image/svg+xml"])
    assert (svg.get("role"), svg.get("aria-label")) == ("img", shown.alt)
    assert metadata["image/svg+xml"]["alt"] == shown.alt
    assert data["text/plain"] == shown.text == repr(shown)
    assert svg_in(data["text/html"]) == shown.living_svg
    assert data["text/html"].count("<script") == 1
    assert len(data["image/svg+xml"]) < 350_000


@every_figure
def test_its_layouts_are_for_narrow_and_for_wide_columns_and_one_is_shown(name: str) -> None:
    layouts = layouts_of(figure(name))
    for _, of_view in itertools.groupby(layouts, lambda layout: layout.view):
        widths = [layout.width for layout in of_view]
        assert widths == sorted(set(widths))
        assert set(widths) <= {320, 520, 760, 1060}
    svg = ElementTree.fromstring(figure(name).svg)
    assert [shown_layout(figure(name)).width, shown_layout(figure(name)).height] == [
        float(svg.get(side, 0)) for side in ("width", "height")
    ]
    assert {float(one.get("font-size", SIZE)) for one in svg.iter()} == {SIZE}


@every_figure
def test_words_are_inside_and_none_covers_another(name: str) -> None:
    for layout in layouts_of(figure(name)):
        outside = [
            word.text
            for word in layout.texts
            if min(word.left, word.top) < 0 or word.right > layout.width or word.bottom > layout.height
        ]
        pairs = itertools.combinations(layout.texts, 2)
        covered = [(one.text, other.text) for one, other in pairs if one.is_with(other) and one.overlaps(other)]
        assert (outside, covered) == ([], []), (layout.view, layout.width)


@every_figure
@pytest.mark.parametrize("theme", THEMES)
def test_words_stand_out_from_what_is_below_them(name: str, theme: str) -> None:
    for layout in layouts_of(figure(name)):
        pale = [word.text for word in layout.texts if _contrast(word, layout, THEMES[theme]) < 4.5]
        assert pale == [], (layout.view, layout.width)


def _contrast(word: Drawn, layout: Layout, colors: dict[str, str]) -> float:
    below = colors["paper"]
    middle = Drawn("", (), 1, *_middle(word), word.since, word.until)
    for shape in layout.shapes[: layout.shapes.index(word)]:
        fill = _fill(shape, colors)
        is_with = shape.is_with(word) or (shape.since, shape.until) == (word.since, word.until)
        if fill and not shape.text and is_with and shape.overlaps(middle):
            below = _mixed(fill, below, shape.opacity)
    if "s-paper" in word.colors:
        below = colors["paper"]  # its halo
    return contrast(_fill(word, colors) or colors["ink"], below)


def _middle(word: Drawn) -> tuple[float, float, float, float]:
    x, y = (word.left + word.right) / 2, (word.top + word.bottom) / 2
    return x, y, x, y


def _fill(shape: Drawn, colors: dict[str, str]) -> str | None:
    names = [color.removeprefix("f-").replace("-", " ") for color in shape.colors if color.startswith("f-")]
    plain = [color for color in shape.colors if color.startswith("#")]
    return next(iter([*(colors[name] for name in names), *plain]), None)


def _mixed(color: str, below: str, opacity: float) -> str:
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(below[1:]), strict=True)
    return "#" + bytes(round(opacity * one + (1 - opacity) * other) for one, other in pairs).hex()


@every_figure
def test_every_step_changes_something_and_is_told(name: str) -> None:
    svg = ElementTree.fromstring(figure(name).svg)
    captions = json.loads(svg.get("data-captions", "[]"))
    moments = [one.get(f"data-{kind}") for one in svg.iter(f"{SVG}g") for kind in ("since", "until")]
    changes = {int(moment) for moment in moments if moment is not None}
    assert all(0 <= step <= len(captions) for step in changes)
    assert all(
        captions[step] and (step in changes or captions[step] != captions[step - 1]) for step in range(1, len(captions))
    )


@every_figure
def test_every_call_is_told_and_knows_its_lane_and_its_partners(name: str) -> None:
    for view in (one for one in ElementTree.fromstring(figure(name).svg) if one.get("data-view") is not None):
        calls = {one.get("data-call"): one for one in view.iter(f"{SVG}g") if one.get("data-call") is not None}
        for number, call in calls.items():
            assert str(call.findtext(f"{SVG}title")).startswith(f"rank {call.get('data-lane')}: ")
            partners = str(call.get("data-with")).split()
            assert number not in partners
            assert {*partners} <= calls.keys() or "not shown" in "".join(view.itertext())


@pytest.mark.parametrize("name", [name for name in DRAWN if name not in LAUNCHED])
def test_it_is_the_same_in_every_run(name: str) -> None:
    assert FIGURES[name]().svg == figure(name).svg


def test_it_is_saved_as_svg_and_as_png_in_the_colors_of_the_ranks(tmp_path: Path) -> None:
    shown: show.Figure = figure("timeline of 16 ranks")
    shown.save(tmp_path / "one.svg")
    shown.save(str(tmp_path / "one.png"))
    assert (tmp_path / "one.svg").read_text(encoding="utf-8") == shown.svg
    image = Image.open(io.BytesIO((tmp_path / "one.png").read_bytes())).convert("RGB")
    assert image.width == 2 * shown_layout(shown).width
    colors = {"#" + bytes(pixel).hex().upper() for _, pixel in image.getcolors(1 << 20) or []}  # type: ignore[arg-type]
    assert {*RANK_COLORS, "#FFFFFF"} <= colors
