"""The site and the slides, as a reader has them before the eyes: without a network, on a phone, and in the dark.

`make test-browser` makes both before; a page of each kind is looked at, and by `make test-all` every page.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from effort import EVERYTHING, leave_out
from playwright.sync_api import expect
from screen import Screen

BUILD = Path(__file__).parent.parent.parent / "build"
SITE, SLIDES = BUILD / "site", BUILD / "slides"
OF_EACH_KIND = (
    "index.html",
    "notebooks/00_start_four_ranks.html",
    "notebooks/04_ring_all_reduce.html",
    "notebooks/09_when_nothing_moves.html",
    "docs/where.html",
    "docs/measured.html",
    "api/run.html",
    "api/show.html",
    "scripts/started.py.html",
    "search.html",
)
EVERY = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html") if "_static" not in page.parts)
PAGES = EVERY if EVERYTHING else OF_EACH_KIND
LESSONS = ("03_collectives", "04_ring_all_reduce", "09_when_nothing_moves")
PHONE = 360
TOO_WIDE = "() => document.documentElement.scrollWidth - innerWidth"
SLIDE = """() => {
  const slide = Reveal.getCurrentSlide(), box = slide.getBoundingClientRect()
  return {wide: slide.scrollWidth - slide.clientWidth, below: Math.round(box.bottom - innerHeight)}
}"""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    for folder, command in ((SITE, "make site"), (SLIDES, "make slides")):
        if not (folder / "index.html").exists():
            leave_out(f"there is no {folder.relative_to(BUILD.parent)}; type: {command}")


@pytest.fixture
def dark(screen: Screen) -> Iterator[None]:
    screen.page.emulate_media(color_scheme="dark")
    yield
    screen.page.emulate_media(color_scheme="light")


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder, given out on loopback."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(BUILD) as address:
        yield address


def look_at(page: str, screen: Screen) -> None:
    screen.page.goto(page)
    assert screen.findings("body") == []
    screen.resize(PHONE, 740)
    screen.page.evaluate("() => new Promise(requestAnimationFrame)")  # the page has heard of it
    assert screen.page.evaluate(TOO_WIDE) <= 0
    assert screen.findings("body") == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone_and_hinders_nobody(page: str, address: str, screen: Screen) -> None:
    look_at(f"{address}/site/{page}", screen)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_in_the_dark(page: str, address: str, screen: Screen, dark: None) -> None:
    look_at(f"{address}/site/{page}", screen)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_as_a_file_without_a_complaint(page: str, screen: Screen) -> None:
    screen.page.goto((SITE / page).as_uri())
    expect(screen.page).to_have_title(re.compile("ddp-lessons"))


def test_slides_open_as_a_file_without_a_complaint(screen: Screen) -> None:
    screen.page.goto((SLIDES / f"{LESSONS[0]}.slides.html").as_uri())
    screen.page.keyboard.press("End")
    screen.page.wait_for_function("() => window.Reveal && Reveal.isLastSlide()")


def find(words: str, address: str, screen: Screen) -> None:
    screen.page.goto(f"{address}/index.html")
    screen.page.get_by_placeholder("Search").first.fill(words)
    screen.page.keyboard.press("Enter")
    results = screen.page.locator("#search-results")
    results.get_by_role("link", name="The ring all-reduce by hand").first.click()
    expect(screen.page.get_by_role("heading", level=1)).to_contain_text("The ring all-reduce by hand")


def test_the_search_finds_a_lesson_in_files_without_a_server(screen: Screen) -> None:
    find("all_reduce", SITE.as_uri(), screen)


def test_the_search_finds_a_lesson_on_a_server_that_has_no_network(address: str, screen: Screen) -> None:
    find("all_reduce", f"{address}/site", screen)


def test_a_picture_of_a_lesson_has_its_words(screen: Screen) -> None:
    screen.page.goto((SITE / "notebooks/04_ring_all_reduce.html").as_uri())
    words = [picture.get_attribute("alt") or "" for picture in screen.page.locator(".cell_output img").all()]
    words += [figure.get_attribute("aria-label") or "" for figure in screen.page.locator(".ddp-figure").all()]
    assert len(words) >= 10
    assert all(len(word.split()) >= 3 for word in words), words
    assert screen.page.evaluate("() => [...document.images].every(image => image.naturalWidth > 20)")


@pytest.mark.parametrize("lesson", LESSONS)
def test_slides_go_to_the_last_by_the_keyboard_and_nothing_leaves_the_screen(
    lesson: str, address: str, screen: Screen
) -> None:
    screen.resize(1280, 800)
    screen.page.goto(f"{address}/slides/{lesson}.slides.html")
    screen.page.wait_for_function("() => window.Reveal && Reveal.isReady()")
    seen = set()
    for _ in range(400):  # with every fragment; no lesson has so many
        where = screen.page.evaluate(SLIDE)
        assert where["wide"] <= 1
        assert where["below"] <= 0
        if (number := screen.page.evaluate("Reveal.getSlidePastCount()")) not in seen:
            seen.add(number)
        if screen.page.evaluate("Reveal.isLastSlide() && !Reveal.availableFragments().next"):
            break
        screen.page.keyboard.press("Space")
    assert len(seen) == screen.page.evaluate("Reveal.getTotalSlides()") > 15
    assert screen.findings("section.present") == []
