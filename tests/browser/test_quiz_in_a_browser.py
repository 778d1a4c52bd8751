"""Questions are answered by keyboard alone, in every theme and window; without a kernel their page can be unfolded."""

from __future__ import annotations

import re
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
widgets, sys.modules["anywidget"] = sys.modules["anywidget"], None  # as if it were not installed
from ddp_lessons.show.figures import living
living._widget_class.cache_clear()
display(quiz.questions(1))
sys.modules["anywidget"] = widgets
"""
RIGHT_OF_THE_LAST = 2  # c
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


def choice(asked: Locator, letter: str) -> Locator:
    """Of the question that is shown."""
    return asked.locator(".ddp-question:visible").get_by_role("button", name=re.compile(rf"^{letter}\)"))


def verdict(asked: Locator) -> Locator:
    return asked.locator(".ddp-question:visible").get_by_role("status")


def test_questions_are_answered_by_keyboard_alone(notebook: Screen, asked: Locator) -> None:
    press = notebook.page.keyboard.press
    press("Escape")
    choice(asked, "a").focus()
    press("Space")
    expect(verdict(asked)).to_contain_text("a) is not right. Threads would do that")
    expect(verdict(asked)).to_contain_text('Look again at "Change a variable in every process".')
    expect(choice(asked, "a")).to_be_focused()
    expect(choice(asked, "a")).to_have_accessible_name("a) [0, 1, 2] ✗ tried")
    press("Tab")
    press("Tab")
    press("Enter")
    expect(verdict(asked)).to_contain_text("c) is right. Each rank appended to its own copy")
    expect(choice(asked, "c")).to_have_accessible_name("c) [] ✓ right")
    press("Shift+Tab")
    press("Space")  # you may want to know what is behind another choice
    expect(verdict(asked)).to_contain_text("b) is not right.")
    for _ in "cd":
        press("Tab")
    press("Tab")  # Back leads nowhere from the first question
    expect(asked.get_by_role("button", name="the next question")).to_be_focused()
    press("Enter")
    expect(asked.locator(".ddp-question:visible > p").first).to_be_focused()  # which is read aloud
    expect(asked.get_by_text("Question 2 of 5")).to_be_visible()
    press("Tab")
    expect(choice(asked, "a")).to_be_focused()
    press("ArrowDown")
    press("Space")
    expect(verdict(asked)).to_contain_text("b) is right. It is 3 * 10 + 15.")
    expect(asked.get_by_text("Answered right: 2 of 5, 1 of them at the first try.")).to_be_visible()


def test_a_letter_chooses_and_does_nothing_to_the_notebook(notebook: Screen, asked: Locator) -> None:
    """In JupyterLab a and b insert a cell, and d twice deletes one."""
    notebook.page.keyboard.press("Escape")  # to the mode in which they do so
    choice(asked, "a").focus()
    for letter in "abdd":
        notebook.page.keyboard.press(letter)
        expect(verdict(asked)).to_contain_text(f"{letter}) is not right.")
    expect(notebook.page.locator(".jp-CodeCell")).to_have_count(4)
    notebook.page.keyboard.press("c")
    expect(verdict(asked)).to_contain_text("c) is right.")
    expect(asked.get_by_text("Answered right: 1 of 5, 0 of them at the first try.")).to_be_visible()


def test_the_choices_are_a_list_and_their_code_is_set_as_code(asked: Locator) -> None:
    items = asked.locator(".ddp-question:visible").get_by_role("list").get_by_role("listitem")
    expect(items).to_have_count(4)
    assert items.locator("code").all_inner_texts() == ["[0, 1, 2]", "[0]", "[]", "[3]"]


def test_all_questions_can_be_shown_at_once_and_keep_their_answers(asked: Locator) -> None:
    shown = asked.locator(".ddp-question:visible")
    expect(shown).to_have_count(1)
    choice(asked, "c").click()
    asked.get_by_role("button", name="all questions").click()
    expect(shown).to_have_count(5)
    expect(shown.first.get_by_role("status")).to_contain_text("c) is right.")
    shown.last.get_by_role("button").nth(RIGHT_OF_THE_LAST).click()
    expect(asked.get_by_text("Answered right: 2 of 5, 2 of them at the first try.")).to_be_visible()
    asked.get_by_role("button", name="one question at a time").click()
    expect(shown).to_have_count(1)


def test_whoever_runs_the_cell_and_stays_in_it_comes_to_the_choices_by_tab(notebook: Screen, asked: Locator) -> None:
    press, first = notebook.page.keyboard.press, choice(asked, "a")
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
    expect(verdict(asked)).to_contain_text("a) is not right.")


def test_whoever_shows_them_again_begins_again(notebook: Screen, asked: Locator) -> None:
    choice(asked, "c").click()
    expect(asked.get_by_text("Answered right: 1 of 5")).to_be_visible()
    notebook.run_cell(0)
    expect(asked.get_by_text("Answered right: 0 of 5")).to_be_visible()
    expect(choice(asked, "c")).to_have_accessible_name("c) []")


def test_without_widgets_each_choice_can_be_unfolded_by_keyboard(notebook: Screen) -> None:
    page = notebook.output(2)
    folded = page.get_by_text("a) is right. All four ranks join at one address")
    expect(folded).to_be_hidden()
    page.locator("summary").first.focus()
    notebook.page.keyboard.press("Space")
    expect(folded).to_be_visible()
    expect(notebook.output(3)).to_contain_text("a) is not right. A rank finds rank 0 only through")


def check_that_all_can_use_it(notebook: Screen) -> None:
    """No serious findings, and nothing sticks out of the window or is cut."""
    notebook.page.locator(".jp-WindowedPanel-outer").evaluate("notebook => notebook.scrollTo(0, 0)")
    assert notebook.findings() == []
    for number in range(3):
        assert notebook.output(number).evaluate(CUT_OFF) == []


def answer_two(asked: Locator) -> None:
    choice(asked, "a").click()
    asked.get_by_role("button", name="all questions").click()
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
