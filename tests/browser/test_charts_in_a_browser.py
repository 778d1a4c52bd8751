"""Charts in a real browser: in the colors of the page, with controls, and while ranks run."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from figure_catalog import FIGURES
from jupyter_server import JupyterServer
from PIL import Image
from playwright.sync_api import expect
from screen import Screen

PAGES = {"light": "", "dark": "--jp-layout-color0:#111;--jp-content-font-color1:#eee;background:#111"}
CHARTS = ("cost", "distance", "scaling", "explore_scaling", "training", "digits")
# how much each word stands out from the page; the browser itself says which colors these are
PALEST = """() => {
  const context = document.createElement('canvas').getContext('2d', {willReadFrequently: true})
  const luminance = color => {
    context.fillStyle = color
    context.fillRect(0, 0, 1, 1)
    const parts = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map(part => part / 255)
    const [red, green, blue] = parts.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
  }
  return Math.min(...[...document.querySelectorAll('main text')].map(one => {
    const paper = getComputedStyle(one.closest('.ddp-figure')).backgroundColor
    const [darker, lighter] = [getComputedStyle(one).fill, paper].map(luminance).sort((a, b) => a - b)
    return (lighter + 0.05) / (darker + 0.05)
  }))
}"""
SIGNS = "() => [...document.querySelectorAll('main use')].map(one => one.getBoundingClientRect().toJSON())"
CELLS = (
    "from ddp_lessons import launch, show, tell\n"
    "show.explore_scaling(lambda ranks, *_: 1e3 * ranks, cores=4, latency=1e-4, bandwidth=1e9)",
    "import time\ndef train(rank, world_size):\n    for step in range(12):\n"
    "        tell(step=step, loss=1 / (step + 1))\n        time.sleep(0.2)\n"
    "done = launch(train, 2, live=show.training)",
)


@pytest.mark.parametrize("page", PAGES)
def test_words_and_signs_of_charts_stand_out_from_the_page(page: str, screen: Screen) -> None:
    charts = "".join(FIGURES[name]()._repr_mimebundle_()[0]["text/html"] for name in CHARTS)
    screen.page.set_content(f"<html lang='en'><title>x</title><body style='{PAGES[page]}'><main>{charts}</main></html>")
    assert screen.page.evaluate(PALEST) >= 4.5
    assert screen.findings("main") == []
    drawn = Image.open(io.BytesIO(screen.page.screenshot(full_page=True))).convert("L")
    signs = screen.page.evaluate(SIGNS)
    assert len(signs) > 100
    for sign in signs:
        near: Any = drawn.crop([sign["left"] - 2, sign["top"] - 2, sign["right"] + 2, sign["bottom"] + 2]).getextrema()  # type: ignore[arg-type]
        assert near[1] - near[0] > 60, sign
    screen.resize(360, 900)
    assert screen.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_in_a_notebook_a_turned_control_redraws_and_curves_grow_while_ranks_run(
    server: JupyterServer, screen: Screen
) -> None:
    server.write("charts.ipynb", *CELLS)
    screen.open(server, "charts.ipynb", cells=2)
    screen.choose("Run", "Run All Cells")
    expect(screen.cell(1).locator(".ddp-figure svg")).to_contain_text("rank 1")  # while the ranks run
    screen.wait_until_all_ran()
    assert screen.errors() == []
    explored = screen.output(0)
    explored.get_by_role("combobox", name="images for").select_option("each rank (weak)")
    expect(explored.locator(".ddp-room")).to_have_attribute("aria-label", re.compile("^256 images per rank"))
    assert screen.findings() == []
    screen.shut_down()
