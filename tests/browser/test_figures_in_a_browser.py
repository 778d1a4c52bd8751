"""Figures in a real browser: read at any width, played, walked by keyboard, and the same as their stills."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, expect
from screen import Screen

from ddp_lessons import show
from ddp_lessons.machines.live_or_recorded import recall
from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.figures.drawing import Words
from ddp_lessons.show.figures.layouts import HEADING
from ddp_lessons.show.figures.living import script_of_page, style_sheet
from ddp_lessons.train.ring import ring_all_reduce

sys.path.append(str(Path(__file__).parent.parent / "show"))
from recorded import call, record, ring_steps, token_round

EVERYONE = (0, 1, 2)
DARK = "--jp-layout-color0:#111111;--jp-content-font-color1:#EEEEEE;"
FIGURES: dict[str, Callable[[], show.Figure]] = {
    "steps": lambda: show.timeline(token_round(4), title="A token goes round"),
    "time": lambda: show.timeline(
        record([[call("barrier", 10 * rank, 90, group_ranks=EVERYONE)] for rank in range(3)])
    ),
    "hang": lambda: show.timeline(
        record(
            [
                [call("all_reduce", 1, None, group_ranks=EVERYONE)],
                [call("all_reduce", 2, None, group_ranks=EVERYONE)],
                [],
            ]
        )
    ),
    "two nodes": lambda: show.timeline(
        record(
            [[call("barrier", 10 * rank, 90, group_ranks=EVERYONE)] for rank in range(3)],
            nodes=[("alpha", 1e-4), ("alpha", 1e-4), ("beta", 1e-4)],
        )
    ),
    "collective": lambda: show.collective("all_gather", 4),
    "sheet": lambda: show.collectives(3),
    "ring": lambda: show.ring(ring_all_reduce),
    "nothing": lambda: show.timeline(ring_steps(2, 0)),
    "traffic": lambda: show.traffic(ring_steps(8, 6), textbook={"ring": 96, "star": 128}),
    "traffic of 16": lambda: show.traffic(ring_steps(16, 6)),
    "memory": lambda: show.memory({"DDP": [{"parameters": 800, "gradients": 800, "other": 1600}] * 4}, "Held"),
    "fingerprints": lambda: show.fingerprints([["1a2b3c4d"] * 12, ["1a2b3c4d"] * 9 + ["ffffffff"] * 3], "Two models"),
    "samples": lambda: show.samples([[[0, 4, 5], [3, 1, 0]], [[2, 1, 4], [0, 5, 2]]], total=8),
    "machines": lambda: show.machines(recall("lose_and_regain", ""), "A machine is lost"),
    "pipeline": lambda: show.pipeline(two_stages(), title="Two stages"),
    "samples of many": lambda: show.samples([range(3000), range(2000, 4000)], total=5000),
}


def two_stages() -> Any:
    """Two micro-batches go from rank 0 to rank 1."""
    sends = [call("send", 10 * step, 10 * step + 5, peer=1) for step in (1, 2)]
    return record([sends, [call("recv", 10 * step, 10 * step + 5, peer=0) for step in (1, 2)]])


OF_RANKS = {"rgb({}, {}, {})".format(*bytes.fromhex(color[1:])) for color in RANK_COLORS}
DRAWINGS = ["traffic", "traffic of 16", "memory", "fingerprints", "samples", "samples of many", "machines"]
MOUNT = """figure => {
  document.querySelector('#figure')?.remove()
  const place = document.createElement('div')
  place.id = 'figure'
  document.querySelector('main').append(place)
  ddpFigures.mount(place, figure)
}"""
SIZES = """() => [...document.querySelectorAll('#figure *')]
  .filter(one => [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()) && one.checkVisibility())
  .map(one => parseFloat(getComputedStyle(one).fontSize) * (one.getCTM ? one.getCTM().a : 1))"""
WORDS = "() => [...document.querySelectorAll('#figure svg text')].map(one => one.textContent)"
LOOKS = """([where, lower]) => {
  const svg = document.querySelector(where), corner = svg.getBoundingClientRect()
  return [...svg.querySelectorAll('rect, path, polyline, text')].filter(one => !one.closest('defs')).map(one => {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one)
    const place = one.tagName == 'text'
      ? [one.x.baseVal[0].value, one.y.baseVal[0].value - lower]
      : [box.x - corner.x, box.y - corner.y - lower, box.width, box.height]
    const look = [one.tagName, style.fillOpacity, style.fontWeight, one.textContent]
    return { look, place, colors: [style.fill, style.stroke].map(color => color.startsWith('url') ? 'stripes' : color) }
  })
}"""
SEEN = """() => [...document.querySelectorAll('#figure svg text')]
  .filter(one => one.checkVisibility({ visibilityProperty: true })).map(one => one.textContent)"""
FRAMES = """() => new Promise(done => {
  const moments = []
  const look = now => {
    moments.push([now, document.querySelectorAll('#figure .ddp-chip').length])
    moments.length < 40 ? requestAnimationFrame(look) : done(moments)
  }
  requestAnimationFrame(look)
})"""

pytestmark = pytest.mark.xdist_group("figures")


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    return {name: dict(make().document) | {"plays": False} for name, make in FIGURES.items()}


@pytest.fixture
def page(screen: Screen) -> Iterator[Screen]:
    """An empty page that can draw figures."""
    screen.page.goto("about:blank")
    screen.page.set_content(f"<html lang='en'><title>x</title><style>{style_sheet()}</style><main></main></html>")
    screen.page.add_script_tag(content=script_of_page())
    yield screen
    screen.page.emulate_media(reduced_motion="no-preference")


def mount(page: Screen, figure: Any, width: int = 848) -> Locator:
    page.resize(width, 900)
    page.page.evaluate(MOUNT, figure)
    page.page.evaluate("() => new Promise(requestAnimationFrame)")
    return page.page.locator("#figure .ddp-figure")


@pytest.mark.parametrize("name", FIGURES)
def test_words_are_large_enough_and_the_page_never_moves_sideways(name: str, documents: Any, page: Screen) -> None:
    mount(page, documents[name])
    for width in (1280, 848, 568, 360):
        page.resize(width, 900)
        page.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert min(page.page.evaluate(SIZES)) >= 12
        assert page.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_hinders_nobody_on_a_light_and_on_a_dark_page(name: str, documents: Any, page: Screen) -> None:
    mount(page, documents[name])
    for style in ("", DARK):
        page.page.evaluate("style => document.body.setAttribute('style', style)", style)
        assert page.findings("#figure") == []


@pytest.mark.parametrize("name", ["steps", "hang", "two nodes", "collective"])
def test_the_living_figure_has_the_words_of_the_still(name: str, documents: Any, page: Screen) -> None:
    """But for those that are text of the page: names of lanes, the title, what went wrong."""
    figure = FIGURES[name]()
    root = mount(page, documents[name])
    if name == "collective":
        root.get_by_role("button", name="one step on").click()
        expect(root).to_contain_text("After.")
        page.page.wait_for_function("() => !document.querySelector('#figure .ddp-chip')")
    drawn = page.page.evaluate(WORDS)
    beside = root.inner_text()
    still = [shape.text for shape in figure.still.shapes if isinstance(shape, Words)]
    assert set(drawn) <= set(still)
    assert all(text in drawn or text in beside for text in still)


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_has_the_widest_layout_that_fits_as_large_as_it_was_laid_out(
    name: str, documents: Any, page: Screen
) -> None:
    root, layouts = mount(page, documents[name]), documents[name]["layouts"]
    for width in (360, 560, 848):
        page.resize(width, 900)
        page.page.evaluate("() => new Promise(requestAnimationFrame)")
        wanted = [one for one in layouts if one["width"] <= width - 16][-1]  # the page has margins
        box = root.locator("svg").bounding_box()
        assert box is not None
        assert (box["width"], box["height"]) == pytest.approx((wanted["width"], wanted["height"]), abs=0.1)
        assert page.page.evaluate(WORDS) == [shape["words"][2] for shape in wanted["shapes"] if "words" in shape]


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_looks_like_its_still(name: str, documents: Any, page: Screen) -> None:
    """Each shape where the still has it, and in its color; what is gray is made from the ink of the page."""
    figure = FIGURES[name]()
    mount(page, documents[name])
    living = page.page.evaluate(LOOKS, ["#figure svg", 0])
    page.page.evaluate("svg => { document.querySelector('#figure').innerHTML = svg }", figure.svg)
    lower = HEADING if figure.document["title"] else 0
    still = page.page.evaluate(LOOKS, ["#figure svg", lower])[1 + bool(lower) :]  # without its paper and its title
    assert [one["look"] for one in living] == [one["look"] for one in still]
    assert len(living) > 20
    places = [(one["place"], other["place"]) for one, other in zip(living, still, strict=True)]
    assert all(one == pytest.approx(other, abs=1) for one, other in places)
    colors = {
        pair
        for one, other in zip(living, still, strict=True)
        for pair in zip(one["colors"], other["colors"], strict=True)
    }
    assert len({one for one, _ in colors}) == len({other for _, other in colors}) == len(colors)
    assert {other for one, other in colors if one in OF_RANKS} == {one for one, _ in colors} & OF_RANKS


def test_a_drawing_is_one_image_with_a_name_and_its_cells_say_what_has_no_room(documents: Any, page: Screen) -> None:
    root = mount(page, documents["traffic of 16"], 360)
    image = page.page.get_by_role("img", name=documents["traffic of 16"]["alt"])
    expect(image).to_have_count(1)
    expect(root.locator("title").first).to_have_text("rank 0 to rank 1: 48 B")


def test_a_line_with_a_head_and_a_frame_of_dashes_are_drawn(page: Screen) -> None:
    arrow = {"line": [[[10, 10], [60, 10]]], "has_head": True, "color": "alarm"}
    frame = {"box": [5, 20, 40, 20], "edge": "rank 1", "is_dashed": True}
    layout = {"width": 80, "height": 50, "shapes": [arrow, frame]}
    root = mount(page, {"kind": "drawing", "title": "", "alt": "An arrow.", "layouts": [layout]})
    expect(root.locator("path")).to_have_attribute("d", "M60 10L52 14L52 6Z")
    expect(root.locator("rect")).to_have_attribute("stroke-dasharray", "5 3")
    expect(root.locator("rect")).to_have_attribute("stroke", "#D55E00")


@pytest.mark.parametrize("name", ["collective", "ring"])
def test_a_film_plays_to_its_end_with_values_in_motion(name: str, documents: Any, page: Screen) -> None:
    root = mount(page, documents[name])
    root.get_by_role("button", name="play all steps").click()
    frames = page.page.evaluate(FRAMES)
    assert sum(flying > 0 for _, flying in frames) >= 10
    last = documents[name]["steps"][-1]["caption"]
    expect(root.locator(".ddp-about")).to_have_text(last, timeout=60_000)
    page.page.wait_for_function("() => !document.querySelector('#figure .ddp-chip')")
    held = [text for held in documents[name]["states"][-1]["held"] for tensor in held for text, _ in tensor]
    cells = page.page.evaluate(WORDS)
    assert [text for text in held if text not in cells] == []


def test_without_motion_steps_change_and_nothing_flies(documents: Any, page: Screen) -> None:
    page.page.emulate_media(reduced_motion="reduce")
    root = mount(page, documents["collective"])
    root.get_by_role("button", name="one step on").click()
    expect(root.locator(".ddp-about")).to_have_text(documents["collective"]["steps"][0]["caption"])
    root.get_by_role("button", name="play all steps").click()
    assert sum(flying > 0 for _, flying in page.page.evaluate(FRAMES)) == 0
    expect(root.locator(".ddp-about")).to_have_text(documents["collective"]["steps"][-1]["caption"], timeout=60_000)


def test_a_film_is_played_by_keyboard_alone(documents: Any, page: Screen) -> None:
    root, steps = mount(page, documents["ring"]), documents["ring"]["steps"]
    about, press = root.locator(".ddp-about"), page.page.keyboard.press
    press("Tab")
    expect(root.get_by_role("button", name="play all steps")).to_be_focused()
    press("ArrowRight")
    expect(about).to_have_text(steps[0]["caption"])
    press("ArrowRight")
    expect(about).to_have_text(steps[1]["caption"])
    press("ArrowLeft")
    press("ArrowLeft")
    expect(about).to_have_text(documents["ring"]["first"])
    root.get_by_role("slider").focus()
    press("End")
    expect(about).to_have_text(steps[-1]["caption"])


def test_in_a_film_of_shapes_each_comes_with_its_step_from_where_it_sets_out(documents: Any, page: Screen) -> None:
    root, about = mount(page, documents["pipeline"]), page.page.locator("#figure .ddp-about")
    numbers = [word for word in page.page.evaluate(SEEN) if word.isdigit()]
    assert numbers == []
    root.locator(".ddp-player input").focus()
    page.page.keyboard.press("End")
    expect(about).to_have_text(documents["pipeline"]["captions"][-1])
    assert [word for word in page.page.evaluate(SEEN) if word.isdigit()] == ["0", "1", "0", "1"]
    moved = [one.get_attribute("transform") for one in root.locator("g[transform]").all()]
    assert set(moved) == {"translate(0 0)"}
    page.page.keyboard.press("Home")
    set_out = {one.get_attribute("transform") for one in root.locator("g[transform]").all()}
    shapes = documents["pipeline"]["layouts"][-1]["shapes"]
    wanted = {tuple(shape["from"]) for shape in shapes if "from" in shape}
    assert {tuple(map(float, (way or "")[10:-1].split())) for way in set_out} == wanted
    root.get_by_role("button", name="play all steps").click()
    expect(about).to_have_text(documents["pipeline"]["captions"][-1])


def test_a_timeline_is_walked_by_keyboard_and_says_what_each_call_was(documents: Any, page: Screen) -> None:
    root = mount(page, documents["steps"])
    about, press = root.locator(".ddp-about"), page.page.keyboard.press
    root.locator(".ddp-scroll").focus()
    press("ArrowRight")
    expect(about).to_contain_text("rank 0: send → 1")
    expect(about).to_contain_text("cell line 3")
    press("ArrowDown")
    expect(about).to_contain_text("rank 1: recv ← 0")
    press("ArrowRight")
    expect(about).to_contain_text("rank 1: send → 2")
    press("Escape")
    expect(about).to_contain_text("Point at a call")


def test_a_collective_is_marked_on_all_its_ranks(documents: Any, page: Screen) -> None:
    root = mount(page, documents["time"])
    root.locator(".ddp-scroll").focus()
    page.page.keyboard.press("ArrowRight")
    expect(root.locator(".ddp-chosen")).to_have_count(3)
    expect(root.locator(".ddp-about")).to_contain_text("with ranks 1, 2")


def test_the_axis_is_switched_and_time_is_zoomed(documents: Any, page: Screen) -> None:
    root = mount(page, documents["steps"])
    wide = "() => document.querySelector('#figure .ddp-lanes').clientWidth"
    root.get_by_role("button", name="as long as it took").click()
    expect(root).to_contain_text("from the first call on")
    before = page.page.evaluate(wide)
    root.get_by_role("button", name="zoom in").click()
    assert page.page.evaluate(wide) == pytest.approx(2 * before, abs=2)
    root.get_by_role("button", name="show all of it").click()
    assert page.page.evaluate(wide) == before


def test_twenty_thousand_calls_are_drawn_and_moved(page: Screen) -> None:
    """How fast depends on the machine: `tests/browser/figure_speed.py` measures it."""
    root = mount(page, dict(show.timeline(ring_steps(16, 625)).document))
    for _ in range(4):
        root.get_by_role("button", name="zoom in").click()
    root.locator(".ddp-scroll").evaluate("box => { box.scrollLeft = box.scrollWidth / 2 }")
    page.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert page.page.evaluate("() => document.querySelectorAll('#figure svg *').length") < 5000
    assert len(page.page.evaluate(WORDS)) > 50


def test_a_document_of_an_unknown_kind_is_refused(page: Screen) -> None:
    said = page.page.evaluate(
        "() => { try { ddpFigures.mount(document.body, {kind: 'x'}) } catch (e) { return e.message } }"
    )
    assert said == "there is no figure of kind x"


def test_a_figure_that_was_saved_lives_in_the_next_kernel(server: JupyterServer, screen: Screen) -> None:
    server.write("figure.ipynb", "from ddp_lessons import show\nshow.collective('all_gather', 3)")
    screen.open(server, "figure.ipynb", cells=1)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert screen.errors() == []
    figure = screen.output(0).locator(".ddp-figure")
    expect(figure).to_contain_text("After.")  # it has played once by itself
    screen.save()
    screen.shut_down()
    screen.open(server, "figure.ipynb", cells=1)  # with a new kernel, which knows nothing of the figure
    figure.get_by_role("button", name="one step back").click()
    expect(figure).to_contain_text("Before.")
    screen.shut_down()


BARRIER = """
import torch.distributed as dist
from ddp_lessons import launch, show
show.timeline(launch(lambda rank, world_size: dist.barrier(), 2))
"""


def test_in_a_notebook_arrow_keys_walk_through_a_timeline_and_the_notebook_keeps_its_own(
    server: JupyterServer, screen: Screen
) -> None:
    server.write("timeline.ipynb", BARRIER, "'below'")
    screen.open(server, "timeline.ipynb", cells=2)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    figure, selected = screen.output(0).locator(".ddp-figure"), screen.page.locator(".jp-Cell.jp-mod-selected")
    screen.cell(0).locator(".jp-InputPrompt").click()
    figure.locator(".ddp-scroll").focus()
    screen.page.keyboard.press("ArrowRight")
    expect(figure.locator(".ddp-about")).to_contain_text("rank 0: barrier")
    screen.page.keyboard.press("ArrowDown")
    expect(figure.locator(".ddp-about")).to_contain_text("rank 1: barrier")
    expect(selected).to_contain_text("show.timeline")
    screen.cell(0).locator(".jp-InputPrompt").click()
    figure.locator(".ddp-lanes").click()  # the mouse leaves the focus where it was
    screen.page.keyboard.press("ArrowDown")
    expect(selected).to_contain_text("below")
    screen.shut_down()


def test_no_two_figures_of_a_page_share_the_name_of_a_pattern(documents: Any, page: Screen) -> None:
    """In a notebook each figure is drawn by a copy of the script; a pattern out of sight would leave others empty."""
    page.page.evaluate("document.querySelector('main').innerHTML = '<div></div>'.repeat(4)")
    for number, name in enumerate(("hang", "hang", "traffic", "traffic")):
        page.page.add_script_tag(content=script_of_page())
        page.page.evaluate(
            "([number, figure]) => ddpFigures.mount(document.querySelectorAll('main > div')[number], figure)",
            [number, documents[name]],
        )
    names = page.page.evaluate("[...document.querySelectorAll('main pattern')].map(one => one.id)")
    assert len(names) >= 4
    assert len(set(names)) == len(names)


def test_a_click_on_the_slider_leaves_the_notebook_s_keys_to_the_notebook(documents: Any, page: Screen) -> None:
    mount(page, documents["ring"]).get_by_role("slider").click()
    assert page.page.evaluate("document.activeElement == document.body")
