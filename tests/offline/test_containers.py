"""The files for containers, Codespaces and Binder name what is there, and install what the project asks for.

No image is built here: that takes a daemon and a network.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from offline.pip_for import PYTHONS

PROJECT = Path(__file__).parent.parent.parent
DOCKERFILE = (PROJECT / "Dockerfile").read_text(encoding="utf-8")
POST_BUILD = (PROJECT / "binder" / "postBuild").read_text(encoding="utf-8")
DEVCONTAINER = json.loads((PROJECT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))


def instructions() -> list[tuple[str, str]]:
    """Dockerfile's lines, those that go on put together."""
    text = re.sub(r"\\\n", "", "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#")))
    return [(line.split()[0], line.partition(" ")[2]) for line in text.splitlines() if line.strip()]


def test_each_instruction_is_one_of_dockers_and_the_last_user_is_not_root() -> None:
    known = {"FROM", "RUN", "ARG", "ENV", "WORKDIR", "USER", "COPY", "EXPOSE", "CMD"}
    assert {name for name, _ in instructions()} == known
    assert instructions()[0][0] == "FROM"
    assert [value for name, value in instructions() if name == "USER"] == ["${NB_USER}"]
    assert "useradd" in DOCKERFILE.partition("USER ${NB_USER}")[0]


def test_what_is_copied_is_there_and_a_shell_can_read_what_is_run() -> None:
    for _, value in filter(lambda one: one[0] == "COPY", instructions()):
        *sources, _ = [word for word in value.split() if not word.startswith("--")]
        assert all((PROJECT / source).exists() for source in sources)
    for name, value in instructions():
        if name == "RUN":
            assert subprocess.run(["bash", "-n", "-c", value]).returncode == 0
        if name == "CMD":
            assert value.startswith('["ddp-lessons", "start", ')
    assert subprocess.run(["bash", "-n", str(PROJECT / "binder" / "postBuild")]).returncode == 0
    assert (PROJECT / "binder" / "postBuild").stat().st_mode & 0o111


def test_apt_asks_nothing_and_leaves_nothing_behind() -> None:
    (apt,) = [value for name, value in instructions() if name == "RUN" and "apt-get" in value]
    assert "--yes --no-install-recommends" in apt
    assert "apt-get update" in apt
    assert "rm -rf /var/lib/apt/lists/*" in apt


@pytest.mark.parametrize("text", [DOCKERFILE, POST_BUILD], ids=["Dockerfile", "postBuild"])
def test_the_project_s_requirements_are_installed_with_the_small_torch(text: str) -> None:
    assert "-r requirements.txt" in text
    assert re.search(r"--torch-backend (cpu|\"\$\{TORCH\}\")", text)
    assert "python -m ddp_lessons pair" in text
    assert "http" not in text


def test_binder_which_starts_jupyter_itself_gets_its_settings_and_the_copy() -> None:
    (settings,) = re.findall(r"^cp (\S+) ", POST_BUILD, re.MULTILINE)
    assert (PROJECT / settings).is_file()
    assert "ddp-lessons start --no-open" in POST_BUILD


def test_the_python_is_a_supported_one() -> None:
    (base,) = re.findall(r"^FROM python:(\d\.\d+)-slim", DOCKERFILE, re.MULTILINE)
    (binder,) = re.findall(r"^python-(\S+)$", (PROJECT / "binder" / "runtime.txt").read_text(), re.MULTILINE)
    assert base == binder
    assert base in PYTHONS


def test_the_dev_container_is_made_of_the_same_file_and_user() -> None:
    folder = PROJECT / ".devcontainer"
    assert (folder / DEVCONTAINER["build"]["dockerfile"]).resolve() == PROJECT / "Dockerfile"
    assert (folder / DEVCONTAINER["build"]["context"]).resolve() == PROJECT
    assert f"ARG NB_USER={DEVCONTAINER['remoteUser']}" in DOCKERFILE
    assert DEVCONTAINER["postAttachCommand"].startswith("ddp-lessons start --jupyter ")
    assert f"--port {DEVCONTAINER['forwardPorts'][0]} " in DEVCONTAINER["postAttachCommand"]
    assert list(DEVCONTAINER["portsAttributes"]) == [str(port) for port in DEVCONTAINER["forwardPorts"]]
    assert all(re.fullmatch(r"\d+gb", DEVCONTAINER["hostRequirements"][name]) for name in ("memory", "storage"))
    # the words that a dev container knows, of those that it is made of here
    assert set(DEVCONTAINER) == {
        *("name", "build", "hostRequirements", "remoteUser", "runArgs", "postCreateCommand", "postAttachCommand"),
        *("forwardPorts", "portsAttributes", "customizations"),
    }
