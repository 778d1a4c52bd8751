"""Draw README's two pictures: `.venv/bin/python docs/draw.py`.

The ring all-reduce comes from a real run; a test makes the same run and compares. The first lesson's cells come from
the stored notebook, drawn by Chromium, which needs what `make test-browser` installs. The picture has their text in its
metadata, so that a test notices when it is out of date.
"""

from __future__ import annotations

import io
import pathlib
import re
import shutil
from typing import Any

import nbformat
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from ddp_lessons import launch, show
from ddp_lessons.train.ring import ring_all_reduce

DOCS = pathlib.Path(__file__).parent
LESSON = DOCS.parent / "notebooks" / "00_start_four_ranks.ipynb"
SHOWN = ("def add_up(", "def add_up_unless_unlucky(", "except WorkerFailed")  # the cells that contain these
SHELL = "--no-sandbox", "--disable-background-networking", "--no-first-run"


def add_up(rank: int, world_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    mine = torch.arange(1, world_size + 1) * 10**rank
    return mine.clone(), ring_all_reduce(mine)


def ring_by_steps() -> str:
    """The ring all-reduce of four ranks as SVG. Drawn by steps, it is the same in every run."""
    figure = show.timeline(launch(add_up, 4, record="values", quiet=True), axis="steps")
    return re.sub("<metadata>.*</metadata>", "", figure.svg) + "\n"  # in which times are


def shown_cells() -> list[Any]:
    """The cells of the first lesson that README shows."""
    read: Any = nbformat.read
    return [cell for cell in read(LESSON, as_version=4).cells if any(words in cell.source for words in SHOWN)]


def text_of(cells: list[Any]) -> str:
    """The text in the picture."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    said = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join([cell.source for cell in cells] + ["".join(one) for one in said])


def picture_of(cells: list[Any]) -> Image.Image:
    from nbconvert import HTMLExporter
    from playwright.sync_api import sync_playwright

    make: Any = nbformat.v4
    export: Any = HTMLExporter
    page_text, _ = export(theme="light").from_notebook_node(make.new_notebook(cells=cells))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=[*SHELL])
        page = browser.new_page(viewport={"width": 1000, "height": 400}, device_scale_factor=1.5)
        page.set_content(page_text, wait_until="domcontentloaded")
        return Image.open(io.BytesIO(page.locator("main").screenshot()))


def draw_first_lesson() -> None:
    cells = shown_cells()
    about = PngInfo()
    about.add_itxt("cells", text_of(cells))
    picture_of(cells).save(DOCS / "first_lesson.png", pnginfo=about, optimize=True)


if __name__ == "__main__":
    (DOCS / "ring.svg").write_text(ring_by_steps(), encoding="utf-8")
    draw_first_lesson()
