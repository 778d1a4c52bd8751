"""A chart is SVG: small, sharp, in the colors of a light or a dark page, and it can be read without eyes."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.style
import pytest
from made_up_charts import CHARTS
from nights import nightly
from PIL import Image

from ddp_lessons import show
from ddp_lessons.show.figures.drawing import DARK, LIGHT
from ddp_lessons.show.page import picture as house

SVG = "{http://www.w3.org/2000/svg}"
every_chart = pytest.mark.parametrize("name", CHARTS)


@every_chart
def test_a_chart_shows_itself_small_and_with_words(name: str) -> None:
    chart = CHARTS[name]()
    data, metadata = chart._repr_mimebundle_()
    assert data["text/plain"] == chart.text == repr(chart)
    assert metadata["image/svg+xml"]["alt"] == chart.alt
    root = ElementTree.fromstring(data["image/svg+xml"])
    assert root.get("aria-label") == chart.alt
    assert 300 < float(root.get("width", 0)) < 800  # a column of a notebook has room for it
    assert len(data["image/svg+xml"]) < 30_000


@every_chart
def test_words_are_at_least_twelve_pixels_high(name: str) -> None:
    root = ElementTree.fromstring(CHARTS[name]().svg)
    per_unit = float(root.get("width", 0)) / float(root.get("viewBox", "").split()[2])
    sizes = [float(one.get("font-size", root.get("font-size", 0))) for one in root.iter(f"{SVG}text")]
    assert sizes
    assert min(sizes) * per_unit >= 12


@every_chart
def test_no_color_is_left_that_a_dark_page_has_otherwise(name: str) -> None:
    drawn = re.sub(r"<style>.*?</style>", "", CHARTS[name]().svg, flags=re.DOTALL).lower()
    assert not [color for color in (LIGHT[name].lower() for name in DARK) if color in drawn]


def test_the_house_colors_are_those_that_a_page_can_change() -> None:
    assert {LIGHT[name] for name in DARK} == {
        getattr(house, name) for name in ("PAPER", "INK", "FAINT", "LINE", "BAND", "ALARM")
    }


@nightly
@every_chart
def test_a_chart_is_the_same_in_every_run_and_in_every_style_of_the_notebook(name: str) -> None:
    one, other = CHARTS[name](), CHARTS[name]()
    assert (one.text, one.alt, one.svg) == (other.text, other.alt, other.svg)
    with matplotlib.style.context("dark_background"):
        assert CHARTS[name]().svg == one.svg


@nightly
def test_in_a_page_no_two_charts_share_a_name() -> None:
    pages = [make()._repr_html_() for make in CHARTS.values()]
    names = [set(re.findall(r" id='([^']+)'", page)) for page in pages]
    assert [set(re.findall(r"#(ddp-[\w-]+)", page)) for page in pages] == names
    assert len(set.union(*names)) == sum(map(len, names)) > len(pages)


def test_words_of_a_learner_stay_words() -> None:
    html = CHARTS["scaling"]()._repr_html_()
    assert "&lt;title&gt;</text>" in html
    assert "<title>" not in html
    svg = show.distance({'a "b" & $c$': [1e-9]}).svg
    assert 'a "b" &amp; $c$' in [one.replace("&quot;", '"') for one in re.findall(r"<text[^>]*>(.*?)</text>", svg)]


def test_a_chart_is_saved_as_png_or_svg(tmp_path: Path) -> None:
    chart = CHARTS["training"]()
    chart.save(tmp_path / "one.png")
    chart.save(str(tmp_path / "one.svg"))
    assert Image.open(tmp_path / "one.png").format == "PNG"
    assert (tmp_path / "one.svg").read_text(encoding="utf-8") == chart.svg
