"""Controls that are turned by mouse and by keyboard change the picture, in every theme and window; it can be saved."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, expect
from screen import Screen

WORDS = """
from ddp_lessons import launch
from ddp_lessons.show import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Steps, Tick
from ddp_lessons.show.page.picture import write_picture

def draw(ranks, word, loud, step):
    if word == "fail":
        raise ValueError("there is no such word")
    return write_picture(f"{ranks} ranks say {word}{'!' * loud} at step {step}")

Explorer(draw, title="Words", controls={
    "ranks": Slider("ranks", range(1, 9), 2),
    "word": Choice("word", ["one", "two", "fail"]),
    "loud": Tick("loud"),
    "step": Steps("step", range(4), seconds=0.1)})
"""
LAUNCH = """
def add_up(rank, world_size):
    return sum(range(rank + 1))

def draw_sums(world_size):
    return write_picture(f"the ranks say {list(launch(add_up, world_size))}")

Explorer(draw_sums, title="Sums", controls={"world_size": Slider("world size", range(1, 5), 2)}, run="Launch again")
"""
# what does not fit into its place: what sticks out of the output, and a button whose words are cut
CUT_OFF = """output => [...output.querySelectorAll('button, input, select, img, .slider')].filter(part =>
  part.getBoundingClientRect().right > Math.min(output.getBoundingClientRect().right, window.innerWidth) + 1 ||
  (part.tagName == 'BUTTON' && part.scrollWidth > part.clientWidth + 1)).map(part => part.outerHTML.slice(0, 80))"""

pytestmark = pytest.mark.xdist_group("widgets")  # they share one open notebook


@pytest.fixture(scope="module")
def notebook(server: JupyterServer, screen: Screen) -> Iterator[Screen]:
    server.write("widgets.ipynb", WORDS, LAUNCH)
    screen.open(server, "widgets.ipynb", cells=2)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert screen.errors() == []
    screen.wait_until_drawn(pictures=2)
    assert screen.widgets_and_images() == (2, 0)
    yield screen
    screen.shut_down()


@pytest.fixture
def words(notebook: Screen) -> Locator:
    """The first widget, as it was in the beginning."""
    words = notebook.output(0)
    words.get_by_role("spinbutton", name="ranks").fill("2")
    words.get_by_role("combobox", name="word").select_option("one")
    words.get_by_role("checkbox", name="loud").set_checked(False)
    words.get_by_role("spinbutton", name="step").fill("0")
    expect_picture(words, "2 ranks say one at step 0")
    return words


@pytest.fixture
def sums(notebook: Screen) -> Locator:
    return notebook.output(1)


def expect_picture(widget: Locator, sentence: str) -> None:
    """Its picture shows this, and says so to those who cannot see it."""
    expect(widget.get_by_role("img")).to_have_attribute("alt", sentence)
    expect(widget.get_by_role("status")).to_have_text(sentence)


def test_the_slider_is_moved_by_mouse(notebook: Screen, words: Locator) -> None:
    before = words.get_by_role("img").get_attribute("src")
    notebook.drag(words.get_by_role("slider").first, by=1000)
    expect_picture(words, "8 ranks say one at step 0")
    assert words.get_by_role("img").get_attribute("src") != before
    notebook.drag(words.get_by_role("slider").first, by=-1000)
    expect_picture(words, "1 ranks say one at step 0")


def test_all_is_reached_and_turned_by_keyboard_alone(notebook: Screen, words: Locator) -> None:
    press = notebook.page.keyboard.press
    words.get_by_role("spinbutton", name="ranks").focus()
    press("ArrowUp")
    expect_picture(words, "3 ranks say one at step 0")
    press("Tab")  # to the slider
    press("ArrowRight")
    expect_picture(words, "4 ranks say one at step 0")
    press("Tab")  # to the list of words, which Space opens: with the list closed, an arrow leads to the next cell
    for key in ("Space", "ArrowDown", "Enter"):
        press(key)
    expect_picture(words, "4 ranks say two at step 0")
    press("Tab")
    press("Space")
    expect_picture(words, "4 ranks say two! at step 0")
    press("Tab")  # to "Play"
    press("Enter")
    expect_picture(words, "4 ranks say two! at step 3")
    press("Tab")  # to "Back"
    press("Space")
    expect_picture(words, "4 ranks say two! at step 2")
    press("Tab")  # to "Step"
    press("Enter")
    expect_picture(words, "4 ranks say two! at step 3")


def test_buttons_are_pressed_by_mouse(words: Locator) -> None:
    for label, step in (("Step", 1), ("Step", 2), ("Back", 1), ("Play", 3)):
        words.get_by_role("button", name=label).click()
        expect_picture(words, f"2 ranks say one at step {step}")


def test_ranks_are_launched_again_by_mouse_and_by_keyboard(notebook: Screen, sums: Locator) -> None:
    field, button = sums.get_by_role("spinbutton", name="world size"), sums.get_by_role("button", name="Launch again")
    field.fill("4")
    button.click()
    expect_picture(sums, "the ranks say [0, 1, 3, 6]")
    field.fill("3")
    button.focus()
    notebook.page.keyboard.press("Enter")
    expect_picture(sums, "the ranks say [0, 1, 3]")


def test_an_error_stands_in_the_place_of_the_picture_and_the_controls_live_on(words: Locator) -> None:
    words.get_by_role("combobox", name="word").select_option("fail")
    expect(words.get_by_role("alert")).to_have_text("ValueError: there is no such word")
    expect(words.get_by_role("img")).to_have_count(0)
    words.get_by_role("combobox", name="word").select_option("two")
    expect_picture(words, "2 ranks say two at step 0")


def check_that_all_can_use_it(notebook: Screen, *widgets: Locator) -> None:
    """No serious findings, nothing sticks out of the window, and nothing lies over it."""
    expect(notebook.page.locator(".Toastify__toast")).to_have_count(0)
    notebook.page.locator(".jp-WindowedPanel-outer").evaluate("notebook => notebook.scrollTo(0, 0)")
    assert notebook.findings() == []
    for widget in widgets:
        assert widget.evaluate(CUT_OFF) == []


def test_a_light_theme(notebook: Screen, words: Locator, sums: Locator) -> None:
    check_that_all_can_use_it(notebook, words, sums)


@pytest.mark.usefixtures("dark")
def test_a_dark_theme(notebook: Screen, words: Locator, sums: Locator) -> None:
    check_that_all_can_use_it(notebook, words, sums)


def test_a_narrow_window(notebook: Screen, words: Locator, sums: Locator) -> None:
    notebook.page.locator(".jp-SideBar.jp-mod-left .lm-mod-current").click()  # away with the list of files
    notebook.resize(480, 900)
    check_that_all_can_use_it(notebook, words, sums)


def test_a_saved_notebook_has_its_pictures_without_a_kernel(
    server: JupyterServer, notebook: Screen, words: Locator, sums: Locator
) -> None:
    notebook.drag(words.get_by_role("slider").first, by=1000)
    expect_picture(words, "8 ranks say one at step 0")
    shown = sums.get_by_role("img").get_attribute("alt")
    notebook.save()
    notebook.shut_down()
    notebook.page.goto("about:blank")
    notebook.open(server, "widgets.ipynb", cells=2)
    notebook.wait_until_drawn(pictures=2)
    assert notebook.widgets_and_images() == (2, 0)
    expect_picture(words, "8 ranks say one at step 0")
    expect_picture(sums, str(shown))
    stored = [output.data for cell in server.read("widgets.ipynb").cells for output in cell.outputs if output.data]
    assert len(stored) == 2
    assert all("image/png" in data and "text/plain" in data for data in stored)  # for readers without widgets
