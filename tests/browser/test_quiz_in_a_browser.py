"""Questions are answered by keyboard alone, in every theme and window; without a script their page can be unfolded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, expect
from screen import WIDE, Screen

from ddp_lessons.quiz.question import questions_of
from ddp_lessons.quiz.question_text import as_interactive_page

QUIZ = "from ddp_lessons import quiz\n\nquiz.questions(0)"
ASKED = as_interactive_page(0, questions_of(0))
PAGE = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Quiz</title><body>'
COLORS = "([paper, ink]) => document.body.style = `--jp-layout-color0: ${paper}; --jp-content-font-color1: ${ink}`"
# what sticks out of the window, or is cut
CUT_OFF = """[...document.querySelectorAll('.ddp-quiz :is(button, pre, p)')].filter(part =>
  part.getBoundingClientRect().right > window.innerWidth + 1 || part.scrollWidth > part.clientWidth + 1 ||
  part.scrollHeight > part.clientHeight + 1).map(part => part.outerHTML.slice(0, 80))"""


@pytest.fixture
def asked(screen: Screen, tmp_path: Path) -> Locator:
    """The questions of lesson 0, none of them answered, in a page that has them twice, and those of lesson 9."""
    page = f"{PAGE}{ASKED}{as_interactive_page(9, questions_of(9))}{ASKED}"
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    screen.page.goto((tmp_path / "page.html").as_uri())
    return screen.page.locator(".ddp-quiz").first


def choice(asked: Locator, letter: str) -> Locator:
    """Of the question that is shown."""
    return asked.locator(".ddp-question:visible").get_by_role("button", name=re.compile(rf"^{letter}\)"))


def verdict(asked: Locator) -> Locator:
    return asked.locator(".ddp-question:visible").get_by_role("status")


def test_questions_are_answered_by_keyboard_alone(screen: Screen, asked: Locator) -> None:
    press = screen.page.keyboard.press
    choice(asked, "a").focus()
    press("Space")
    expect(verdict(asked)).to_contain_text(re.compile('a[)] is not right. .* Look again at "Change a variable'))
    expect(choice(asked, "a")).to_have_accessible_name("a) [0, 1, 2] ✗ tried")
    for key in ("Tab", "Tab", "Enter"):
        press(key)
    expect(choice(asked, "c")).to_have_accessible_name("c) [] ✓ right")
    press("b")  # you may want to know what is behind another choice
    expect(verdict(asked)).to_contain_text("b) is not right.")
    for key in ("Tab", "Tab", "Enter"):  # to d and Next; Back leads nowhere from the first question
        press(key)
    expect(asked.locator(".ddp-question:visible > p").first).to_be_focused()  # which is read aloud
    for key in ("ArrowDown", "ArrowDown", "Space"):
        press(key)
    expect(verdict(asked)).to_contain_text("b) is right. Every rank gets the sum")
    expect(asked.get_by_text("Correct: 2 of 5, 1 of them on the first try.")).to_be_visible()


def test_each_quiz_of_a_page_has_answers_of_its_own_and_keeps_them(screen: Screen, asked: Locator) -> None:
    shown = asked.locator(".ddp-question:visible")
    choice(asked, "c").click()
    asked.get_by_role("button", name="all questions").click()
    expect(shown).to_have_count(5)
    shown.nth(1).get_by_role("button", name="b) 45.0").click()
    screen.page.add_script_tag(content=ASKED.split("<script data-ddp>")[1].removesuffix("</script>"))
    expect(asked.get_by_text("Correct: 2 of 5, 2 of them on the first try.")).to_be_visible()
    asked.get_by_role("button", name="one question at a time").click()
    expect(shown).to_have_count(1)
    expect(screen.page.get_by_text("Correct: 0 of ")).to_have_count(2)
    assert asked.locator("li code:visible").all_inner_texts() == ["[0, 1, 2]", "[0]", "[]", "[3]"]


@pytest.mark.parametrize("colors", [("#ffffff", "#212121"), ("#111111", "#ffffff")], ids=["light_quiz", "dark_quiz"])
def test_all_can_use_it_in_every_theme_and_window(colors: tuple[str, str], screen: Screen, asked: Locator) -> None:
    screen.page.evaluate(COLORS, colors)
    for letter in "ac":
        choice(asked, letter).click()
    for switch in screen.page.get_by_role("button", name="all questions").all():
        switch.click()
    for width in (WIDE[0], 480):
        screen.resize(width, 900)
        assert screen.findings(".ddp-quiz") == []
        assert screen.page.evaluate(CUT_OFF) == []


def test_in_jupyterlab_letters_answer_and_an_output_that_is_not_trusted_unfolds(
    server: JupyterServer, screen: Screen
) -> None:
    """In JupyterLab a and b insert a cell, and d twice deletes one."""
    name, make = server.write("quiz.ipynb", QUIZ, "", ""), nbformat.v4
    notebook: Any = server.read(name)
    notebook.cells[0].outputs = [make.new_output("display_data", {"text/html": ASKED})]  # type: ignore[no-untyped-call]
    nbformat.write(notebook, server.notebooks / name)  # type: ignore[no-untyped-call]
    screen.open(server, name, cells=3)
    press, shown = screen.page.keyboard.press, screen.output(0)
    shown.locator("summary", has_text="a) [0, 1, 2]").focus()
    press("Space")
    expect(shown.get_by_text("a) is not right. Threads would produce this list")).to_be_visible()
    screen.run_cell(0)
    expect(shown.get_by_text("Correct: 0 of 5")).to_be_visible()
    press("Escape")
    for _ in range(10):
        if not choice(shown, "a").evaluate("button => button === document.activeElement"):
            press("Tab")
    for letter in "abdd":
        press(letter)
        expect(verdict(shown)).to_contain_text(f"{letter}) is not right.")
    press("c")
    expect(shown.get_by_text("Correct: 1 of 5, 0 of them on the first try.")).to_be_visible()
    expect(screen.page.locator(".jp-CodeCell")).to_have_count(3)
    assert screen.findings(".ddp-quiz") == []
    screen.shut_down()
