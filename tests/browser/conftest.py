"""For the tests in a browser: a server, a Chromium, and a page that has nothing to complain of."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from jupyter_server import JupyterServer
from playwright.sync_api import Error, expect, sync_playwright
from screen import WIDE, Screen

SCREENSHOTS = Path(__file__).parent.parent.parent / ".screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome")
NO_CHROMIUM = (
    f"These tests look at the lessons in Chromium, and there is none here (no command {', '.join(NAMES)}). "
    "On Debian: apt install chromium"
)
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    with JupyterServer(tmp_path_factory.mktemp("jupyter")) as server:
        yield server


@pytest.fixture(scope="session")
def screen() -> Iterator[Screen]:
    """In the system's own Chromium: another one would have to be fetched."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.exit(NO_CHROMIUM, returncode=1)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has to do without
    quiet = ["--disable-background-networking", "--disable-component-update", "--no-first-run"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=[*sandbox, *quiet])
        yield Screen(browser.new_page())
        browser.close()


@pytest.fixture(autouse=True)
def nothing_to_complain_of(screen: Screen) -> Iterator[None]:
    """Neither an error in the console nor a call outside."""
    screen.resize(*WIDE)
    yield
    assert screen.heard() == []


@pytest.fixture
def dark(notebook: Screen) -> Iterator[None]:
    """The notebook that a module opened, in the other theme."""
    notebook.choose("Settings", "Theme", "JupyterLab Dark")
    expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-light", "false")
    yield
    notebook.choose("Settings", "Theme", "JupyterLab Light")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Each test leaves a screenshot for a person to look at, before anything is put back."""
    report = yield
    screen = item.funcargs.get("screen")
    if isinstance(screen, Screen) and (report.when == "call" or report.failed):
        SCREENSHOTS.mkdir(exist_ok=True)
        name = re.sub(r"^test_|.*\[|\]$", "", item.name)  # of what is tried in turn: which one it was
        with contextlib.suppress(Error):  # a browser that died has failed the test already
            screen.page.screenshot(path=SCREENSHOTS / f"{name}.png")
    return report
