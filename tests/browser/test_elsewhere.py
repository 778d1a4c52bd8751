"""Outside of JupyterLab: Notebook 7 has the widgets, too, and a terminal has the picture's text."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pexpect
from jupyter_server import JupyterServer
from playwright.sync_api import expect
from screen import Screen
from test_lessons_in_a_browser import ALL, count_published

COUNT = """
from ddp_lessons import launch
from ddp_lessons.show import Explorer
from ddp_lessons.show.controls.explorer_controls import Slider
from ddp_lessons.show.page.picture import write_picture

def draw(ranks):
    return write_picture(f"{len(launch(lambda rank, world_size: rank, ranks))} ranks came back")

explorer = Explorer(draw, title="Count", controls={"ranks": Slider("ranks", range(1, 5), 2)})
"""


def test_notebook_7_runs_ranks_and_turns_widgets(server: JupyterServer, screen: Screen) -> None:
    server.write("count.ipynb", COUNT + "explorer", "launch(lambda rank, world_size: print('hello'), 2);")
    screen.load(server.address("notebooks/count.ipynb"), cells=2)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert screen.errors() == []
    screen.wait_until_drawn(pictures=1)
    assert screen.widgets_and_images() == (1, 0)
    expect(screen.output(0).get_by_role("img")).to_have_attribute("alt", "2 ranks came back")
    screen.drag(screen.output(0).get_by_role("slider"), by=1000)
    expect(screen.output(0).get_by_role("img")).to_have_attribute("alt", "4 ranks came back")
    screen.output(0).get_by_role("spinbutton").press("ArrowDown")  # this one keeps arrow keys from sliders
    expect(screen.output(0).get_by_role("img")).to_have_attribute("alt", "3 ranks came back")
    expect(screen.output(1)).to_contain_text(re.compile("rank 0.*hello.*rank 1.*hello", re.S))
    server.end_kernels()


def test_notebook_7_runs_the_first_lesson(server: JupyterServer, screen: Screen) -> None:
    shutil.copy(ALL[0], server.notebooks)
    published = server.read(ALL[0].name)
    screen.load(server.address(f"notebooks/{ALL[0].name}"), cells=len(published.cells))
    screen.run_all()
    screen.wait_until_all_ran(seconds=300)
    assert screen.errors() == []
    screen.wait_until_drawn(pictures=count_published(published))
    server.end_kernels()


def test_in_notebook_7_a_letter_answers_a_question_and_inserts_no_cell(server: JupyterServer, screen: Screen) -> None:
    server.write("quiz.ipynb", "from ddp_lessons import quiz\n\nquiz.questions(0)", "")
    screen.load(server.address("notebooks/quiz.ipynb"), cells=2)
    screen.run_cell(0)
    choice = screen.output(0).locator(".ddp-choice").first
    choice.focus()
    for letter in "abc":
        screen.page.keyboard.press(letter)
    expect(screen.output(0)).to_contain_text("c) is right. Each rank appended")
    expect(choice).to_be_focused()
    expect(screen.page.locator(".jp-CodeCell")).to_have_count(2)
    server.end_kernels()


def test_a_terminal_shows_the_picture_as_text(tmp_path: Path) -> None:
    (tmp_path / "count.py").write_text(COUNT, encoding="utf-8")
    options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", f"--ipython-dir={tmp_path}"]
    terminal = pexpect.spawn(sys.executable, options, cwd=str(tmp_path), timeout=60, encoding="utf-8")
    try:
        for line, shown in (
            ("%run count.py", r"In \[2\]: "),
            ("explorer", "2 ranks came back"),
            ("1 / 0", "ZeroDivision"),
        ):
            terminal.sendline(line)
            terminal.expect(shown)
            assert "Widget" not in str(terminal.before)
            assert "Traceback" not in str(terminal.before) or line == "1 / 0"
        terminal.sendline("exit")
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)
