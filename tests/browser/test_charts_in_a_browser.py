"""Charts in a real browser: in the colors of the page, read at any width, in explorers, while ranks run."""

from __future__ import annotations

import base64
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from jupyter_server import JupyterServer
from PIL import Image
from playwright.sync_api import expect
from screen import Screen

from ddp_lessons.show.figures.living import script_of_page, style_sheet

sys.path.append(str(Path(__file__).parent.parent / "show"))
from made_up_charts import CHARTS

DARK = "--jp-layout-color0:#111111;--jp-content-font-color1:#EEEEEE;background:#111111;color:#eee"
THEMES = {"light": "", "dark": DARK}
SIZES = """() => [...document.querySelectorAll('main text')]
  .map(one => [parseFloat(getComputedStyle(one).fontSize), one.getScreenCTM()])
  .map(([size, place]) => size * Math.hypot(place.a, place.b))"""
# how each word stands out from the paper; the browser itself says which colors these are
PALEST = """() => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true})
  const luminance = color => {
    context.fillStyle = color
    context.fillRect(0, 0, 1, 1)
    const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255)
    const [red, green, blue] = parts.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  const paper = luminance(getComputedStyle(document.querySelector('main .f-paper')).fill)
  return Math.min(...[...document.querySelectorAll('main text')].map(one => {
    const [darker, lighter] = [luminance(getComputedStyle(one).fill), paper].sort((a, b) => a - b)
    return (lighter + 0.05) / (darker + 0.05)
  }))
}"""
PAPER = "() => getComputedStyle(document.querySelector('.ddp-chart .f-paper')).fill"
MARKERS = """() => [...document.querySelectorAll('main use')].map(one => one.getBoundingClientRect())
  .map(place => [place.left, place.top, place.right, place.bottom].map(Math.round))"""
ONE_CHART = """
from ddp_lessons import launch, show, tell
show.distance({"by hand": [1e-9, 2e-9]})
"""
AN_EXPLORER = "show.explore_scaling(lambda ranks, *_: 1e3 * ranks, cores=4, latency=1e-4, bandwidth=1e9)"
LIVE = """
import time
def train(rank, world_size):
    for step in range(12):
        tell(step=step, loss=1 / (step + 1))
        time.sleep(0.2)
done = launch(train, 2, live=show.training)
"""

pytestmark = pytest.mark.xdist_group("charts")


@pytest.fixture
def page(screen: Screen) -> Screen:
    screen.page.goto("about:blank")
    screen.page.set_content(f"<html lang='en'><title>x</title><style>{style_sheet()}</style><main></main></html>")
    screen.page.add_script_tag(content=script_of_page())
    return screen


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", CHARTS)
def test_words_are_large_and_dark_enough_and_the_page_never_moves_sideways(name: str, theme: str, page: Screen) -> None:
    page.page.evaluate("style => document.body.setAttribute('style', style)", THEMES[theme])
    document = {"kind": "chart", "html": CHARTS[name]()._repr_html_()}
    page.page.evaluate("chart => ddpFigures.mount(document.querySelector('main'), chart)", document)
    for width in (1280, 848, 360):
        page.resize(width, 900)
        sizes = page.page.evaluate(SIZES)
        assert min(sizes) >= 11.99
        assert max(sizes) <= 16
        assert page.page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.page.evaluate(PALEST) >= 4.5
    assert page.findings("main") == []


@pytest.mark.parametrize("theme", THEMES)
def test_each_marker_and_tick_stands_out_from_the_paper(theme: str, page: Screen) -> None:
    page.page.evaluate("style => document.body.setAttribute('style', style)", THEMES[theme])
    document = {"kind": "chart", "html": CHARTS["scaling"]()._repr_html_()}
    page.page.evaluate("chart => ddpFigures.mount(document.querySelector('main'), chart)", document)
    drawn = Image.open(io.BytesIO(page.page.screenshot())).convert("L")
    places = page.page.evaluate(MARKERS)
    assert len(places) > 10
    for left, top, right, bottom in places:
        near: Any = drawn.crop((left - 2, top - 2, right + 2, bottom + 2)).getextrema()
        darkest, lightest = near
        assert lightest - darkest > 60, (left, top)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_still_is_as_dark_as_the_readers_system(scheme: str, page: Screen) -> None:
    image = base64.b64encode(CHARTS["scaling"]().svg.encode()).decode()
    page.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    corner = """async source => {
      const image = new Image()
      image.src = source
      await image.decode()
      const context = document.createElement('canvas').getContext('2d')
      context.drawImage(image, 0, 0)
      return [...context.getImageData(5, 5, 1, 1).data]
    }"""
    seen = page.page.evaluate(corner, f"data:image/svg+xml;base64,{image}")
    page.page.emulate_media(color_scheme="light")
    assert seen == ([255, 255, 255, 255] if scheme == "light" else [0x15, 0x19, 0x1E, 255])


def test_in_a_notebook_charts_have_the_colors_of_its_theme(server: JupyterServer, screen: Screen) -> None:
    server.write("charts.ipynb", ONE_CHART, AN_EXPLORER, LIVE)
    screen.open(server, "charts.ipynb", cells=3)
    screen.choose("Run", "Run All Cells")
    live = screen.cell(2).locator(".ddp-chart")
    expect(live).to_contain_text("rank 1")  # while the ranks run
    screen.wait_until_all_ran()
    assert screen.errors() == []
    expect(screen.page.locator(".jp-OutputArea-output .ddp-chart")).to_have_count(3)
    expect(screen.page.locator(".jp-OutputArea-output img")).to_have_count(0)
    explorer = screen.output(1)
    explorer.get_by_role("combobox", name="the images are").select_option("for each rank (weak scaling)")
    expect(explorer.locator(".ddp-chart")).to_have_attribute("aria-label", re.compile("for each rank"))
    light = screen.page.evaluate(PAPER)
    screen.choose("Settings", "Theme", "JupyterLab Dark")
    expect(screen.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    screen.page.wait_for_function(f"before => ({PAPER})() != before", arg=light)
    assert screen.findings() == []
    screen.choose("Settings", "Theme", "JupyterLab Light")
    screen.shut_down()
