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

SHOW = "from ddp_lessons import launch, show\n\nshow.collective('broadcast', 2)"


def test_notebook_7_runs_ranks_and_moves_figures(server: JupyterServer, screen: Screen) -> None:
    server.write("count.ipynb", SHOW, "launch(lambda rank, world_size: print('hello'), 2);")
    screen.load(server.address("notebooks/count.ipynb"), cells=2)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert screen.errors() == []
    figure = screen.output(0)
    figure.get_by_role("slider").press("End")
    expect(figure).to_contain_text("After.")
    figure.get_by_role("button", name="Back").click()
    expect(figure).to_contain_text("Before.")
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
    (tmp_path / "shown.py").write_text(SHOW.replace("show.collective", "figure = show.collective"), encoding="utf-8")
    options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", f"--ipython-dir={tmp_path}"]
    terminal = pexpect.spawn(sys.executable, options, cwd=str(tmp_path), timeout=60, encoding="utf-8")
    try:
        for line, shown in (
            ("%run shown.py", r"In \[2\]: "),
            ("figure", r"rank 1 \| \[10 11\] \| \[0 1\]"),
            ("1 / 0", "ZeroDivision"),
        ):
            terminal.sendline(line)
            terminal.expect(shown)
            assert "<" not in str(terminal.before)
            assert "Traceback" not in str(terminal.before) or line == "1 / 0"
        terminal.sendline("exit")
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)
