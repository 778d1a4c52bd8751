"""`ddp-lessons start`: a real JupyterLab answers with the course's settings; where there is none, it is offered."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from nights import by_day, nightly

from ddp_lessons.workshop import start


@nightly
def test_it_opens_the_first_lesson_in_a_jupyterlab_that_keeps_widgets_and_asks_for_no_news(tmp_path: Path) -> None:
    options = ["--no-browser", "--ServerApp.port=0", "--ServerApp.port_retries=0"]
    options += ["--IdentityProvider.token=for-a-test"]
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"), "JUPYTER_CONFIG_DIR": str(tmp_path)}
    server = subprocess.Popen(
        [sys.executable, "-m", "ddp_lessons", "start", "my copy", "--jupyter", *options],
        cwd=tmp_path,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert server.stdout is not None
        found = (re.search(r"(http://127\.0\.0\.1:\d+)/lab/tree/(\S+)\?token=", line) for line in server.stdout)
        address, first = next(match.groups() for match in found if match)
        assert first == "00_start_four_ranks.ipynb"
        assert default(address, "@jupyter-widgets/jupyterlab-manager:plugin", "saveState") is True
        assert default(address, "@jupyterlab/apputils-extension:notification", "fetchNews") == "false"
        assert asked(f"{address}/api/contents/{first}")["writable"]
    finally:
        server.terminate()
        server.wait(60)


def default(address: str, plugin: str, setting: str) -> object:
    """What JupyterLab uses where the learner has chosen nothing."""
    return asked(f"{address}/lab/api/settings/{plugin}")["schema"]["properties"][setting]["default"]


def asked(address: str) -> Any:
    """The server prints its address some moments before it answers."""
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"{address}?content=0&token=for-a-test", timeout=60) as answer:
                return json.load(answer)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise TimeoutError(address)


def without_jupyterlab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None, has_pip: bool = True
) -> list[list[str]]:
    """As in an environment without JupyterLab; `answer` is typed, None is no terminal. Returns what was run."""
    ran: list[list[str]] = []

    def run(command: list[str]) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "ddp_lessons.workshop.start.importlib.util.find_spec", lambda name: (name == "pip" and has_pip) or None
    )
    monkeypatch.setattr("ddp_lessons.workshop.start.subprocess.run", run)
    monkeypatch.setattr("ddp_lessons.workshop.start.os.execve", lambda *arguments: ran.append(arguments[1]))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: answer is not None, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    start.start_lessons(Path("mine"))
    assert (tmp_path / "mine" / "00_start_four_ranks.ipynb").exists()
    return ran


@pytest.mark.parametrize("has_pip", [True, False])
def test_a_missing_jupyterlab_is_installed_after_asking_also_without_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_pip: bool
) -> None:
    uv = "/somewhere/uv"
    monkeypatch.setenv("UV", uv)
    monkeypatch.setattr("shutil.which", lambda name: None)
    install, opened = without_jupyterlab(tmp_path, monkeypatch, answer="", has_pip=has_pip)
    beginning = (
        [sys.executable, "-m", "pip", "install"] if has_pip else [uv, "pip", "install", "--python", sys.executable]
    )
    assert install == [*beginning, start.JUPYTERLAB]
    assert opened[1:3] == ["-m", "jupyterlab"]
    assert "--LabApp.default_url=/lab/tree/00_start_four_ranks.ipynb" in opened


@pytest.mark.parametrize("answer", ["n", None])
def test_nothing_is_installed_without_a_yes_and_the_command_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str | None
) -> None:
    assert without_jupyterlab(tmp_path, monkeypatch, answer) == []
    said = capsys.readouterr()
    assert f"JupyterLab is not installed in {sys.prefix}" in said.err
    assert "jupyterlab>=4.2,<5" in said.err
    assert "The lessons are in mine" in said.out


def test_the_terminal_of_jupyterlab_finds_this_torchrun_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/of/the/learner")
    environment = start.environment_of_jupyter()
    assert environment["PATH"] == f"{Path(sys.executable).parent}{os.pathsep}/usr/bin"
    assert environment["JUPYTER_CONFIG_PATH"] == f"{start.SETTINGS}{os.pathsep}/of/the/learner"


COMMANDS = ["", "start", "doctor", "pair", "progress", "explain", "same-as-one", "script", "room", "export"]


@pytest.mark.parametrize("command", by_day(COMMANDS, 2))
def test_the_help_of_every_command_fits_into_80_columns(command: str) -> None:
    words = [sys.executable, "-m", "ddp_lessons", *filter(None, [command]), "--help"]
    environment = {**os.environ, "COLUMNS": "80"}
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout
    assert max(map(len, told.splitlines())) <= 80
    if not command:
        assert all(f"\n    {name}" in told for name in COMMANDS[1:])
