"""Questions are answered by keyboard alone, in every theme and window; without a kernel their page can be unfolded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, expect
from screen import WIDE, Screen

LESSON = Path(__file__).parent.parent.parent / "notebooks" / "00_start_four_ranks.ipynb"
QUIZ = "from ddp_lessons import quiz\n\nquiz.questions({})"
WITHOUT_WIDGETS = """
import sys
widgets, sys.modules["ipywidgets"] = sys.modules["ipywidgets"], None  # as if they were not installed
display(quiz.questions(1))
sys.modules["ipywidgets"] = widgets
"""
ANSWER = 'quiz.answer(1, question=2, choice="a")'
# what sticks out of its output, and a button whose words are cut
CUT_OFF = """output => [...output.querySelectorAll('button, pre, p')].filter(part =>
  part.getBoundingClientRect().right > Math.min(output.getBoundingClientRect().right, window.innerWidth) + 1 ||
  (part.tagName == 'BUTTON' &&
    (part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1)))
  .map(part => part.outerHTML.slice(0, 80))"""

pytestmark = pytest.mark.xdist_group("quiz")  # they share one open notebook


def test_a_published_lesson_can_be_answered_before_it_has_run(server: JupyterServer, screen: Screen) -> None:
    shutil.copy(LESSON, server.notebooks)
    screen.open(server, LESSON.name, cells=len(server.read(LESSON.name).cells))
    screen.show_all()
    said = screen.page.get_by_text("a) is not right. Threads would do that")
    expect(said).to_be_hidden()
    screen.page.locator("summary", has_text="a) [0, 1, 2]").focus()
    screen.page.keyboard.press("Space")
    expect(said).to_be_visible()
    screen.resize(*WIDE)
    screen.shut_down()


@pytest.fixture(scope="module")
def notebook(server: JupyterServer, screen: Screen) -> Iterator[Screen]:
    server.write("quiz.ipynb", QUIZ.format(0), QUIZ.format(9), WITHOUT_WIDGETS, ANSWER)
    screen.open(server, "quiz.ipynb", cells=4)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert screen.errors() == []
    screen.wait_until_drawn(pictures=2)
    yield screen
    screen.shut_down()


@pytest.fixture
def asked(notebook: Screen) -> Locator:
    """The questions of lesson 0, none of them answered."""
    notebook.run_cell(0)
    expect(notebook.output(0).get_by_text("Answered right: 0 of 5")).to_be_visible()
    return notebook.output(0)


def test_questions_are_answered_by_keyboard_alone(notebook: Screen, asked: Locator) -> None:
    press, said = notebook.page.keyboard.press, asked.get_by_role("status").first
    press("Escape")
    asked.get_by_role("button", name="a) [0, 1, 2]").focus()
    press("Space")
    expect(said).to_contain_text("a) is not right. Threads would do that")
    expect(said).to_contain_text('Look again at "Each process has its own memory", and try another choice.')
    expect(asked.get_by_role("button", name="a) [0, 1, 2] (tried)")).to_be_focused()
    press("Tab")
    press("Tab")
    press("Enter")
    expect(said).to_contain_text("c) is right. Each rank appended to a copy of its own")
    press("Shift+Tab")
    press("Space")  # somebody wants to know what is behind another choice
    expect(said).to_contain_text('Look again at "Each process has its own memory".')
    press("Tab")
    press("Tab")
    press("Tab")  # from the last choice to the first one of the next question
    press("Tab")
    press("Space")
    expect(asked.get_by_role("status").nth(1)).to_contain_text("b) is right. Three tens and a fifteen.")
    expect(asked.get_by_text("Answered right: 2 of 5, 1 of them at the first try.")).to_be_visible()


def test_whoever_runs_the_cell_and_stays_in_it_comes_to_the_choices_by_tab(notebook: Screen, asked: Locator) -> None:
    press, first = notebook.page.keyboard.press, asked.get_by_role("button", name="a) [0, 1, 2]")
    notebook.cell(0).locator(".jp-InputArea-prompt").click()
    press("Shift+Enter")
    press("ArrowUp")
    press("Control+Enter")
    expect(asked.get_by_text("Answered right: 0 of 5")).to_be_visible()
    tabs = 0
    while not first.evaluate("button => button === document.activeElement"):
        press("Tab")
        tabs += 1
        assert tabs < 10, notebook.page.evaluate("document.activeElement.outerHTML.slice(0, 300)")
    press("Space")
    expect(asked.get_by_role("status").first).to_contain_text("a) is not right.")


def test_whoever_shows_them_again_begins_again(notebook: Screen, asked: Locator) -> None:
    asked.get_by_role("button", name="c) []").click()
    expect(asked.get_by_text("Answered right: 1 of 5")).to_be_visible()
    notebook.run_cell(0)
    expect(asked.get_by_text("Answered right: 0 of 5")).to_be_visible()
    expect(asked.get_by_role("button", name="c) []", exact=True)).to_have_count(1)


def test_without_widgets_each_choice_can_be_unfolded_by_keyboard(notebook: Screen) -> None:
    page = notebook.output(2)
    folded = page.get_by_text("a) is not right. It may have them")
    expect(folded).to_be_hidden()
    page.locator("summary").first.focus()
    notebook.page.keyboard.press("Space")
    expect(folded).to_be_visible()
    expect(notebook.output(3)).to_contain_text("a) is not right. Nobody asked for a GPU")


def check_that_all_can_use_it(notebook: Screen) -> None:
    """No serious findings, and nothing sticks out of the window or is cut."""
    notebook.page.locator(".jp-WindowedPanel-outer").evaluate("notebook => notebook.scrollTo(0, 0)")
    assert notebook.findings() == []
    for number in range(3):
        assert notebook.output(number).evaluate(CUT_OFF) == []


def answer_two(asked: Locator) -> None:
    asked.get_by_role("button", name="a) [0, 1, 2]").click()
    asked.get_by_role("button", name="b) 45.0").click()
    expect(asked.get_by_text("Answered right: 1 of 5")).to_be_visible()


def test_a_light_theme_for_questions(notebook: Screen, asked: Locator) -> None:
    answer_two(asked)
    check_that_all_can_use_it(notebook)


@pytest.mark.usefixtures("dark")
def test_a_dark_theme_for_questions(notebook: Screen, asked: Locator) -> None:
    answer_two(asked)
    check_that_all_can_use_it(notebook)


def test_a_narrow_window_for_questions(notebook: Screen, asked: Locator) -> None:
    answer_two(asked)
    notebook.page.locator(".jp-SideBar.jp-mod-left .lm-mod-current").click()  # away with the list of files
    notebook.resize(480, 900)
    check_that_all_can_use_it(notebook)
