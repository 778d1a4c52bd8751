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
from nights import by_day
from places import leave_out
from playwright.sync_api import expect
from screen import Screen

ROOT = Path(__file__).parent.parent.parent
BUILD = ROOT / "build"
SITE, SLIDES = BUILD / "site", BUILD / "slides"
OF_EACH_KIND = (
    "index.html",
    "notebooks/00_start_four_ranks.html",
    "notebooks/04_ring_all_reduce.html",
    "notebooks/11_debug_hangs.html",
    "docs/where.html",
    "docs/measured.html",
    "api/run.html",
    "scripts/started.py.html",
    "contents.html",
    "search.html",
)
EVERY = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html") if "_static" not in page.parts)
PAGES = by_day(EVERY, lambda page: page in OF_EACH_KIND)
LESSONS = sorted(page.stem for page in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PHONES = (390, 360)
TOO_WIDE = "() => Math.max(document.documentElement.scrollWidth, document.body.scrollWidth) - innerWidth"
# Of every slide, with all that comes with the next key: what leaves the page, what would have to be scrolled, and the
# size of its smallest words and code. The words of a picture are drawn.
SLIDES_IN_FULL = """() => Reveal.getSlides().map((slide, number) => {
  Reveal.slide(number, 0, 99)
  const page = slide.getBoundingClientRect(), parts = [...slide.querySelectorAll(':not(aside, aside *)')]
  const texts = parts.filter(part => [...part.childNodes].some(node => node.nodeType == 3 && node.data.trim()))
  const scaled = ({ a, b }) => Math.hypot(a, b)
  const scale = part => part.getScreenCTM ? scaled(part.getScreenCTM()) : part.currentCSSZoom
  const size = part => Math.round(10 * parseFloat(getComputedStyle(part).fontSize) * scale(part)) / 10
  const smallest = some => Math.min(99, ...some.map(size))
  const outside = part => {
    const box = part.getBoundingClientRect()
    const isBeyond = box.bottom > page.bottom + 1 || box.right > page.right + 1
    return box.width && (isBeyond || box.top < page.top || box.left < page.left)
  }
  const isBlock = part => part instanceof HTMLElement && getComputedStyle(part).display != 'inline'
  const cut = part => isBlock(part) && part.scrollWidth > part.clientWidth + 1
  return {
    title: slide.querySelector('h1, h2').innerText,
    pictures: slide.querySelectorAll('img').length,
    page: [page.left, page.top, page.width, page.height],
    outside: parts.filter(outside).map(part => part.outerHTML.slice(0, 80)),
    scrolls: slide.scrollHeight > slide.clientHeight || parts.some(cut),
    code: smallest(texts.filter(part => part.closest('pre'))),
    words: smallest(texts.filter(part => !part.closest('pre, code, .ddp-living'))),
    inFigures: smallest(texts.filter(part => part.closest('.ddp-living:not(.is-small)'))),
  }
})"""

NAMES_OF_FIGURES = "() => [...document.querySelectorAll('.cell_output .ddp-room')].map(room => room.ariaLabel)"


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    for folder, command in ((SITE, "make site"), (SLIDES, "make slides")):
        if not (folder / "index.html").exists():
            leave_out(f"there is no {folder.relative_to(ROOT)}; type: {command}")


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


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_a_phone_and_hinders_nobody(page: str, address: str, screen: Screen) -> None:
    screen.page.goto(f"{address}/site/{page}")
    assert screen.findings("body") == []
    for width in PHONES:
        screen.resize(width, 844)
        screen.page.evaluate("() => new Promise(requestAnimationFrame)")  # the page has heard of it
        assert screen.page.evaluate(TOO_WIDE) <= 0
    assert screen.findings("body") == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_in_the_dark(page: str, address: str, screen: Screen, dark: None) -> None:
    screen.page.goto(f"{address}/site/{page}")
    assert screen.findings("body") == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_as_a_file_without_a_complaint(page: str, screen: Screen) -> None:
    screen.page.goto((SITE / page).as_uri())
    expect(screen.page).to_have_title(re.compile("ddp-lessons"))


def position(screen: Screen) -> float:
    return float(screen.page.locator(".opening input").input_value())


@pytest.mark.parametrize("place", ["file", "server"])
def test_the_figure_of_the_first_page_plays_without_a_kernel(place: str, address: str, screen: Screen) -> None:
    screen.page.goto((SITE / "index.html").as_uri() if place == "file" else f"{address}/site/index.html")
    expect(screen.page.locator(".opening .ddp-room")).to_have_attribute("aria-label", re.compile("4 ranks"))
    values = screen.page.locator(".opening svg")
    before = values.evaluate("svg => svg.innerHTML")
    screen.page.wait_for_function("() => Number(document.querySelector('.opening input').value) >= 2")
    assert values.evaluate("svg => svg.innerHTML") != before
    screen.page.get_by_role("button", name="Pause").click()
    expect(screen.page.get_by_role("button", name="Play")).to_be_visible()
    screen.page.get_by_role("button", name="Back").click()
    assert position(screen) >= 1


def test_the_first_page_leads_to_every_lesson_and_shows_a_thumbnail_of_it(screen: Screen) -> None:
    screen.page.goto((SITE / "index.html").as_uri())
    cards = screen.page.locator("#lessons li")
    assert cards.count() == len(LESSONS)
    drawn = (
        "card => card.querySelector('.thumbnail img')?.naturalWidth ?? card.querySelector('.thumbnail svg').clientWidth"
    )
    for card, lesson in zip(cards.all(), LESSONS, strict=True):
        assert card.evaluate(drawn) > 20
        expect(card).to_contain_text(re.compile(r"Lesson \d+ · \d+ minutes"))
        expect(card.get_by_role("link")).to_have_attribute("href", f"notebooks/{lesson}.html")


def test_the_first_page_leads_to_what_each_reader_wants(screen: Screen) -> None:
    for words, heading in (
        ("instructor guide", "Instructor guide"),
        ("Lesson 11", "Debug hangs, deadlocks and silent errors"),
        ("PyTorch names", "PyTorch names: lessons, programs and tests"),
        ("Read lesson 0", "Start four ranks"),
    ):
        screen.page.goto((SITE / "index.html").as_uri())
        screen.page.get_by_role("link", name=words, exact=True).click()
        expect(screen.page.get_by_role("heading", level=1)).to_contain_text(heading)
    screen.page.locator(".sidebar-brand").click()
    expect(screen.page.locator(".landing")).to_be_visible()


def test_a_still_follows_the_theme_that_a_reader_chose(screen: Screen) -> None:
    """Here a dark page in a light system."""
    screen.page.goto((SITE / "index.html").as_uri())
    for theme in ("dark", "light"):
        screen.page.evaluate("theme => { document.body.dataset.theme = theme }", theme)
        shown = screen.page.locator(".thumbnail img").first.evaluate("image => getComputedStyle(image).colorScheme")
        assert shown == theme


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_has_its_questions_and_says_nothing_of_outputs_to_clear(lesson: str, screen: Screen) -> None:
    screen.page.goto((SITE / f"notebooks/{lesson}.html").as_uri())
    said = screen.page.locator("article").inner_text()
    assert not re.search(r"clear\b.{0,60}output", said, re.I)
    quiz = screen.page.locator(".ddp-quiz", has_text=f"Lesson {int(lesson[:2])}: ")
    quiz.get_by_role("button", name="all questions").click()
    for question in quiz.locator(".ddp-question").all():
        for choice in question.get_by_role("listitem").get_by_role("button").all():
            choice.click()
            expect(question.get_by_role("status")).to_contain_text(re.compile("is (not )?right"))
        expect(question.get_by_text("✓ right")).to_have_count(1)
    expect(quiz.locator(".ddp-done")).to_be_visible()


def test_what_you_are_to_predict_is_seen_after_reveal_and_all_else_at_once(screen: Screen) -> None:
    screen.page.goto((SITE / "notebooks/00_start_four_ranks.html").as_uri())
    asked = screen.page.get_by_text("([10, 11, 12, 13], 10)")
    expect(asked).to_be_hidden()
    screen.page.get_by_text("Reveal", exact=True).and_(screen.page.locator(".collapsed")).first.click()
    expect(asked).to_be_visible()
    expect(screen.page.locator(".ddp-room svg").first).to_be_visible()  # no prediction is asked before the figure


def test_slides_open_as_a_file_without_a_complaint(screen: Screen) -> None:
    screen.page.goto((SLIDES / f"{LESSONS[0]}.slides.html").as_uri())
    screen.page.keyboard.press("End")
    screen.page.wait_for_function("() => window.Reveal && Reveal.isLastSlide()")


def find(words: str, address: str, screen: Screen) -> None:
    screen.page.goto(f"{address}/index.html")
    screen.page.get_by_placeholder("Search").first.fill(words)
    screen.page.keyboard.press("Enter")
    results = screen.page.locator("#search-results")
    expect(results.locator("li", has_text="The ring all-reduce by hand").locator(".context").first).to_contain_text(
        words
    )
    results.get_by_role("link", name="The ring all-reduce by hand").first.click()
    expect(screen.page.get_by_role("heading", level=1)).to_contain_text("The ring all-reduce by hand")


def test_the_search_finds_a_lesson_in_files_without_a_server(screen: Screen) -> None:
    find("all_reduce", SITE.as_uri(), screen)


def test_the_search_finds_a_lesson_on_a_server_that_has_no_network(address: str, screen: Screen) -> None:
    find("all_reduce", f"{address}/site", screen)


def test_a_picture_of_a_lesson_has_its_words(screen: Screen) -> None:
    screen.page.goto((SITE / "notebooks/04_ring_all_reduce.html").as_uri())
    words = [picture.get_attribute("alt") or "" for picture in screen.page.locator(".cell_output img").all()]
    words += screen.page.evaluate(NAMES_OF_FIGURES)
    assert len(words) >= 5
    assert all(len(word.split()) >= 3 for word in words), words
    assert screen.page.evaluate("() => [...document.images].every(image => image.naturalWidth > 20)")


def open_slides(lesson: str, screen: Screen, place: str = SLIDES.as_uri()) -> None:
    screen.resize(1280, 720)
    screen.page.goto(f"{place}/{lesson}.slides.html")
    screen.page.wait_for_function("() => window.Reveal && Reveal.isReady()")


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_slide_leaves_its_page_or_scrolls_and_all_can_be_read(lesson: str, screen: Screen) -> None:
    open_slides(lesson, screen)
    slides = screen.page.evaluate(SLIDES_IN_FULL)
    assert len(slides) > 15
    for slide in slides:
        assert slide["page"] == [0, 0, 1280, 720], slide
        assert slide["outside"] == [], slide
        assert not slide["scrolls"], slide
        assert slide["pictures"] <= 1, slide
        assert slide["words"] >= 24, slide
        assert slide["code"] >= 20, slide
        assert slide["inFigures"] >= 12, slide


def present(slide: str, screen: Screen) -> int:
    """Show the first slide for which that holds, with all that comes with the next keys."""
    number = int(screen.page.evaluate(f"() => Reveal.getSlides().findIndex(slide => {slide})"))
    screen.page.evaluate("number => Reveal.slide(number)", number)
    return number


def test_a_figure_on_a_slide_is_played_by_the_presenters_keys(screen: Screen) -> None:
    open_slides("01_start_ranks", screen)
    number = present("slide.querySelector('.fragment .ddp-room')?.ariaLabel.includes('ranks start, write')", screen)
    film = screen.page.locator("section.present .ddp-figure")
    step = film.locator("input")
    screen.page.keyboard.press("Space")  # what the cell showed
    expect(step).to_have_value("0")
    screen.page.keyboard.press("Enter")
    expect(step).to_have_value("1")
    step.focus()
    screen.page.keyboard.press("Home")  # now a key of the figure, not of the slides
    expect(step).to_have_value("0")
    screen.page.keyboard.press("ArrowRight")
    expect(step).to_have_value("1")
    assert screen.page.evaluate("() => Reveal.getState().indexh") == number


def test_a_film_that_plays_by_itself_waits_until_its_slide_shows_it(screen: Screen) -> None:
    open_slides("03_collectives", screen)
    present("slide.querySelector('.picture.fragment .plays')", screen)
    step = screen.page.locator("section.present .ddp-figure input")
    screen.page.wait_for_timeout(500)
    expect(step).to_have_value("0")
    screen.page.keyboard.press("Space")
    expect(step).to_have_value("1")


def test_slides_are_walked_by_the_keyboard_and_each_answer_comes_with_a_key_of_its_own(screen: Screen) -> None:
    open_slides(LESSONS[0], screen)
    keys = screen.page.evaluate("Reveal.getTotalSlides() + document.querySelectorAll('.fragment').length - 1")
    for _ in range(keys):
        assert not screen.page.evaluate("Reveal.isLastSlide() && !Reveal.availableFragments().next")
        screen.page.keyboard.press("Space")
    assert screen.page.evaluate("Reveal.isLastSlide() && !Reveal.availableFragments().next")
    assert screen.page.evaluate("() => Reveal.getSlides().filter(slide => Reveal.getSlideNotes(slide)).length") > 10


@pytest.mark.parametrize("number", [1, 5, 10])
def test_a_slide_hinders_nobody_and_stays_a_page_on_a_phone(number: int, address: str, screen: Screen) -> None:
    open_slides("04_ring_all_reduce", screen, f"{address}/slides")
    for is_dark, width, height in ((False, 1280, 720), (True, 1280, 720), (False, 390, 844)):
        screen.page.emulate_media(color_scheme="dark" if is_dark else "light")
        screen.resize(width, height)
        screen.page.evaluate("number => Reveal.slide(number, 0, 99)", number)
        assert screen.findings("section.present") == []
        box = screen.page.locator("section.present").bounding_box()
        assert box
        assert box["width"] / box["height"] == pytest.approx(16 / 9, rel=0.01)
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert screen.page.evaluate("() => document.documentElement.scrollHeight <= innerHeight")
    screen.page.emulate_media(color_scheme="light")
