"""Every picture can be seen in a light and a dark page, saved, and read without eyes."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import matplotlib
import matplotlib.style
import numpy as np
import pytest
import torch
from nights import nightly
from PIL import Image

from ddp_lessons import show
from ddp_lessons.record.colors import RANK_COLORS
from ddp_lessons.show.page.picture import (
    ALARM,
    BAND,
    FAINT,
    INK,
    PAPER,
    contrast,
    house_style,
    ink_on,
    new_figure,
    write_picture,
)
from ddp_lessons.train.digits import Digits

DIGITS = Digits(torch.rand(12, 1, 28, 28, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 10)
PICTURES: dict[str, Callable[[], show.Picture]] = {
    "digits": lambda: show.digits(DIGITS),
    "words": lambda: write_picture("There is nothing to draw."),
}


def png(picture: show.Picture) -> bytes:
    data, _ = picture._repr_mimebundle_()
    return base64.b64decode(data["image/png"])


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_shows_itself_small_and_with_words(name: str) -> None:
    picture = PICTURES[name]()
    data, metadata = picture._repr_mimebundle_()
    assert data["text/plain"] == picture.text == repr(picture)
    assert metadata["image/png"]["alt"] == picture.alt
    assert picture.alt.endswith(".")
    assert len(png(picture)) < 40_000
    assert Image.open(io.BytesIO(png(picture))).width > metadata["image/png"]["width"] > 300


@pytest.mark.parametrize("name", PICTURES)
def test_the_background_is_opaque_and_light_whatever_the_style_of_the_notebook(name: str) -> None:
    plain = png(PICTURES[name]())
    with matplotlib.style.context("dark_background"):
        dark = png(PICTURES[name]())
    assert dark == plain
    corner = Image.open(io.BytesIO(plain)).convert("RGBA").getpixel((0, 0))
    assert corner == (255, 255, 255, 255)


@pytest.mark.parametrize("name", PICTURES)
def test_words_and_picture_are_the_same_in_every_run(name: str) -> None:
    one, other = PICTURES[name](), PICTURES[name]()
    assert (one.text, one.alt) == (other.text, other.alt)
    assert png(one) == png(other)


def test_few_colors_leave_those_of_the_ranks_as_they_are() -> None:
    figure = new_figure(4, 2)
    figure.add_axes((0, 0, 1, 1)).bar(range(len(RANK_COLORS)), 1, color=RANK_COLORS)
    pixels = np.asarray(Image.open(io.BytesIO(png(show.Picture(figure, None, "", "")))).convert("RGB")).reshape(-1, 3)
    there = {"#" + "".join(f"{part:02X}" for part in pixel) for pixel in np.unique(pixels, axis=0)}
    assert {*RANK_COLORS, PAPER} <= there


def test_a_picture_is_saved_as_png_or_svg(tmp_path: Path) -> None:
    picture = PICTURES["digits"]()
    picture.save(tmp_path / "one.png")
    picture.save(str(tmp_path / "one.svg"))
    assert Image.open(tmp_path / "one.png").format == "PNG"
    drawing = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert picture.alt in drawing
    assert ">9</text>" in drawing  # words stay words
    with pytest.raises(ValueError, match=r"\.png or \.svg"):
        picture.save(tmp_path / "one.doc")


@pytest.mark.parametrize("color", RANK_COLORS)
def test_labels_inside_shapes_can_be_read(color: str) -> None:
    assert contrast(color, ink_on(color)) >= 4.5


@pytest.mark.parametrize("color", [INK, FAINT, ALARM])
def test_labels_on_paper_can_be_read(color: str) -> None:
    assert min(contrast(color, PAPER), contrast(color, BAND)) >= 4.5


def test_two_threads_that_draw_leave_the_style_of_the_notebook_as_it_was() -> None:
    before = dict(matplotlib.rcParams)
    first_is_in, first_may_leave = threading.Event(), threading.Event()

    def first() -> None:
        with house_style():
            first_is_in.set()
            first_may_leave.wait(0.2)  # the other one comes meanwhile

    def second() -> None:
        first_is_in.wait()
        with house_style():
            first_may_leave.set()
            threads[0].join(0.2)

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert dict(matplotlib.rcParams) == before


@nightly
def test_neither_the_front_door_nor_show_loads_matplotlib_before_a_picture_is_drawn() -> None:
    code = "import sys; from ddp_lessons import show; dir(show); sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import sys; from ddp_lessons.show import timeline; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_name_of_show_is_there() -> None:
    assert all(callable(getattr(show, name)) for name in show.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        show.nonsense  # noqa: B018
