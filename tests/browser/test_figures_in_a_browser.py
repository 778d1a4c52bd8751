"""Figures in a real browser: read at any width and on any page, moved by mouse and by keyboard, alive in a notebook."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest
from figure_catalog import figure
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, expect
from screen import Screen

KINDS = (
    "timeline by steps, timeline by time, timeline of a rank that is missing, timeline of phases, timeline of nothing, "
    "collectives, ring, waits in a circle, joining, samples, samples of many, fingerprints, memory, sharding, "
    "pipeline, machines, terminal, mpi_run, what_works"
).split(", ")
THEMES = {
    "light": "background:#fff;color:#111820",
    "dark": "--jp-layout-color0:#111;--jp-content-font-color1:#eee;background:#111;color:#eee",
}
# of each figure: the width of its column, of the layout that is shown, and of all layouts of that view
LAYOUTS = """() => [...document.querySelectorAll('.ddp-figure')].map(figure => {
  const layouts = [...figure.querySelectorAll('[data-view]')]
  const shown = layouts.filter(one => one.getAttribute('display') != 'none')
  const width = one => parseFloat(one.dataset.size), room = figure.querySelector('.ddp-room').clientWidth
  return [room, shown.map(width), layouts.filter(one => one.dataset.view == shown[0].dataset.view).map(width)]
})"""
SIZES = """() => [...document.querySelectorAll('main *')].filter(one => one.checkVisibility() && one.tagName != 'STYLE')
  .filter(one => [...one.childNodes].some(node => node.nodeType == 3 && node.data.trim()))
  .map(one => parseFloat(getComputedStyle(one).fontSize) * (one.getScreenCTM ? one.getScreenCTM().a : 1))"""
SIDEWAYS = "() => document.documentElement.scrollWidth - innerWidth"
IN_MOTION = "() => document.getAnimations().filter(one => one.playState == 'running').length"
SEEN = """figure => [...figure.querySelectorAll('[data-view]:not([display=none]) text')]
  .filter(one => one.checkVisibility({ visibilityProperty: true })).map(one => one.textContent)"""
A_TIMELINE = """
import torch.distributed as dist
from ddp_lessons import launch, show
show.timeline(launch(lambda rank, world_size: dist.barrier(), 2), axis="steps")
"""
A_TERMINAL = "show.terminal('a line\\n' + 'a long line ' * 40, 'What two ranks said.')"

pytestmark = pytest.mark.xdist_group("figures")


def show(screen: Screen, *names: str, theme: str = "light") -> list[Locator]:
    """These figures in one page of their own."""
    pages = "".join(figure(name)._repr_mimebundle_()[0]["text/html"] for name in names)
    body = f"<body style='{THEMES[theme]}'><main><h1>x</h1>{pages}</main></body>"
    screen.page.goto("about:blank")
    screen.page.set_content(f"<!doctype html><html lang='en'><title>x</title>{body}</html>")
    return screen.page.locator(".ddp-figure").all()


def captions(name: str) -> list[str]:
    return [*figure(name).captions]


def view_of(shown: Locator) -> list[float]:
    """The part of the drawing that is seen: x, y, width, height."""
    return [float(number) for number in str(shown.locator("svg").get_attribute("viewBox")).split()]


@pytest.mark.parametrize("theme", THEMES)
def test_figures_are_read_at_any_width_and_hinder_nobody(theme: str, screen: Screen) -> None:
    show(screen, *KINDS, theme=theme)
    for width in (1300, 800, 360):
        screen.resize(width, 900)
        screen.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert screen.page.evaluate(SIDEWAYS) <= 0
        assert min(screen.page.evaluate(SIZES)) >= 12
        for room, shown, widths in screen.page.evaluate(LAYOUTS):
            assert shown == [max((one for one in widths if one <= room), default=widths[0])]
        assert screen.findings("main") == []


def test_a_film_is_moved_by_buttons_and_by_its_slider(screen: Screen) -> None:
    (ring,) = show(screen, "ring")
    about, told = ring.locator(".ddp-about"), captions("ring")
    expect(about).to_have_text(told[0])
    ring.get_by_role("button", name="Step", exact=True).click()
    assert screen.page.evaluate(IN_MOTION) > 0
    expect(about).to_have_text(told[1])
    ring.get_by_role("button", name="Back").click()
    expect(about).to_have_text(told[0])
    ring.get_by_role("button", name="Play").click()
    expect(ring.get_by_role("button", name="Pause")).to_be_visible()
    expect(about).to_have_text(told[-1], timeout=60_000)
    expect(ring.get_by_role("button", name="Play")).to_be_visible()
    screen.page.wait_for_function(f"() => ({IN_MOTION})() == 0")
    assert ring.evaluate(SEEN).count("4444") == 4
    ring.get_by_role("slider").click()
    expect(about).to_have_text(told[len(told) // 2])
    assert ring.evaluate(SEEN).count("4444") < 4


def test_a_film_is_moved_by_keyboard_alone(screen: Screen) -> None:
    (ring,) = show(screen, "ring")
    about, told, press = ring.locator(".ddp-about"), captions("ring"), screen.page.keyboard.press
    ring.locator(".ddp-room").focus()
    for key, step in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1)):
        press(key)
        expect(about).to_have_text(told[step])
    press(" ")
    expect(about).to_have_text(told[-1], timeout=60_000)
    ring.get_by_role("slider").focus()
    press("Home")
    expect(about).to_have_text(told[0])


def test_without_motion_steps_change_at_once(screen: Screen) -> None:
    screen.page.emulate_media(reduced_motion="reduce")
    (ring,) = show(screen, "ring")
    ring.get_by_role("button", name="Step", exact=True).click()
    moving = screen.page.evaluate(IN_MOTION)
    screen.page.emulate_media(reduced_motion="no-preference")
    expect(ring.locator(".ddp-about")).to_have_text(captions("ring")[1])
    assert moving == 0


def test_two_figures_of_a_page_move_on_their_own(screen: Screen) -> None:
    one, other = show(screen, "pipeline", "pipeline")
    expect(one.locator(".ddp-about")).to_have_text(captions("pipeline")[-1])  # the step in which the reader finds it
    one.get_by_role("button", name="Back").click()
    expect(one.locator(".ddp-about")).to_have_text(captions("pipeline")[-2])
    expect(other.locator(".ddp-about")).to_have_text(captions("pipeline")[-1])


def test_a_timeline_has_two_views_and_its_time_is_zoomed_and_moved(screen: Screen) -> None:
    (shown,) = show(screen, "timeline by steps")
    expect(shown.get_by_role("button", name="Steps")).to_have_attribute("aria-pressed", "true")
    shown.get_by_role("button", name="Time").click()
    expect(shown.get_by_role("button", name="Steps")).to_have_attribute("aria-pressed", "false")
    whole = view_of(shown)
    shown.get_by_role("button", name="+").click()
    assert view_of(shown)[2] < whole[2]
    shown.locator("svg").hover()
    screen.page.keyboard.down("Control")
    screen.page.mouse.wheel(0, -200)
    screen.page.keyboard.up("Control")
    before = view_of(shown)
    screen.drag(shown.locator("svg"), by=-60)
    assert view_of(shown)[0] > before[0]
    shown.get_by_role("button", name="Fit").click()
    assert view_of(shown) == whole


def test_a_call_is_told_when_it_is_pointed_at_and_its_partners_are_marked(screen: Screen) -> None:
    (shown,) = show(screen, "timeline by time")
    about = shown.locator(".ddp-about")
    hint = about.inner_text()
    shown.locator("[data-call]:visible").first.hover()
    expect(about).to_contain_text("rank 0: barrier")
    expect(about).to_contain_text("with ranks 1 and 2")
    expect(shown.locator(".ddp-chosen:visible")).to_have_count(3)
    screen.page.mouse.move(0, 0)
    expect(about).to_have_text(hint)


def test_a_timeline_is_walked_by_keyboard(screen: Screen) -> None:
    (shown,) = show(screen, "timeline by steps")
    about, press = shown.locator(".ddp-about"), screen.page.keyboard.press
    hint = about.inner_text()
    shown.locator(".ddp-room").focus()
    for key, told in (
        ("ArrowRight", "rank 0: send → 1"),
        ("ArrowDown", "rank 1: recv ← 0"),
        ("ArrowRight", "rank 1: send → 2"),
        ("Escape", hint),
    ):
        press(key)
        expect(about).to_contain_text(told)


def test_in_a_notebook_a_figure_lives_also_when_it_was_saved_and_the_notebook_keeps_its_keys(
    server: JupyterServer, screen: Screen
) -> None:
    name, make = server.write("figure.ipynb", A_TIMELINE, A_TERMINAL), nbformat.v4
    notebook: Any = server.read(name)
    data, about = figure("all_gather")._repr_mimebundle_()
    notebook.cells[0].outputs = [make.new_output("display_data", data, metadata=about)]  # type: ignore[no-untyped-call]
    nbformat.write(notebook, server.notebooks / name)  # type: ignore[no-untyped-call]
    screen.open(server, name, cells=2)
    # of a notebook that isn't trusted, JupyterLab runs no script
    assert screen.output(0).locator("img").evaluate("image => image.naturalWidth") == 760
    assert screen.output(0).inner_text().strip() == ""
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert screen.errors() == []
    shown, selected = screen.output(0).locator(".ddp-figure"), screen.page.locator(".jp-Cell.jp-mod-selected")
    screen.cell(0).locator(".jp-InputPrompt").click()
    shown.locator("svg").click()  # the mouse leaves the focus where it was
    screen.page.keyboard.press("ArrowDown")
    expect(selected).to_contain_text("show.terminal")
    shown.locator(".ddp-room").focus()
    for key, told in (("ArrowRight", "rank 0: barrier"), ("ArrowDown", "rank 1: barrier")):
        screen.page.keyboard.press(key)
        expect(shown.locator(".ddp-about")).to_contain_text(told)
    expect(selected).to_contain_text("show.timeline")
    shown.get_by_role("button", name="Steps").click()
    screen.page.keyboard.press("Shift+Enter")
    expect(screen.prompt(0)).to_have_text("[3]:")
    height, seen, whole = (
        screen.output(1).locator("pre").evaluate("box => [box.clientHeight, box.clientWidth, box.scrollWidth]")
    )
    assert height < 80
    assert whole > seen
    assert screen.findings(".jp-OutputArea-output :is(figure, .ddp-figure)") == []
    screen.cell(1).locator(".cm-content").click()
    screen.save()
    screen.shut_down()
    screen.open(server, "figure.ipynb", cells=2)  # with a new kernel, which knows nothing of the figure
    shown.get_by_role("button", name="Time").click()
    expect(shown.get_by_role("button", name="+")).to_be_visible()
    screen.shut_down()
