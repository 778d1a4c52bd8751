"""`make offline` packs what each machine needs, and install.py says what is not well; the wheels are empty packages."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from indexes import TORCH, TORCHVISION, install, needs_a_namespace, pack, small_index
from nights import nightly

from tools.offline.__main__ import PROJECT, this_python
from tools.offline.pip_for import PYTHONS, SYSTEMS

pytestmark = nightly

HERE = f"linux-{this_python()}"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_index(tmp_path_factory.mktemp("index") / "of wheels")


@pytest.fixture(scope="module")
def given(index: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_a_namespace()
    folder = tmp_path_factory.mktemp("a stick") / "given here"
    packed = pack(index, folder, "--for", "linux")
    assert packed.returncode == 0, packed.stdout
    return folder


@pytest.fixture
def copy(given: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(given, tmp_path / "a copy, à moi"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home of anna").mkdir()
    return tmp_path / "home of anna"


def names(folder: Path, listed: str) -> set[str]:
    return set(re.findall(r"^(\w+)==", (folder / f"{listed}.txt").read_text(encoding="utf-8"), re.M))


def test_each_system_and_python_gets_what_it_needs_and_nothing_else(index: Path, tmp_path: Path) -> None:
    linux = pack(index, tmp_path / "given", "--for", "linux", "--tar", "yes")
    assert linux.returncode == 0, linux.stdout
    assert f"Linux x86_64, Python {this_python()}" in linux.stdout
    assert (tmp_path / "given.tar").is_file()
    assert {"ddp_lessons", "torch", "pip", "only_on_linux"} <= names(tmp_path / "given", HERE)
    assert not {"only_on_macos", "backport"} & names(tmp_path / "given", HERE)
    macos = pack(index, tmp_path / "given", "--for", "macos", "--python", "3.10")
    assert macos.returncode == 0, macos.stdout
    assert {"only_on_macos", "backport"} <= names(tmp_path / "given", "macos-3.10")
    assert not [*(tmp_path / "given").glob("wheels/*manylinux*"), *(tmp_path / "given").glob("linux*")]


def test_packed_again_a_damaged_wheel_is_whole_again(index: Path, copy: Path) -> None:
    (torch,) = copy.glob("wheels/torch-*")
    torch.write_bytes(b"half of it")
    assert pack(index, copy, "--for", "linux").returncode == 0
    subprocess.run([sys.executable, "install.py", "--check"], cwd=copy, check=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--for", "amiga"], "invalid choice: 'amiga' (choose from 'linux', 'linux-arm', 'macos')"),
        (["--python", "2.7"], "invalid choice: '2.7'"),
        (["--torch", "cpu", "--without", "torch"], "not allowed with argument"),
        (["--for", "linux-arm"], "pip failed; see its messages above"),  # torch has no wheel for it here
        (
            ["--for", "linux", "--torch", "cpu"],
            "https://download.pytorch.org/whl/cpu is unreachable, or has no torch",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_packed_is_said(index: Path, tmp_path: Path, options: list[str], said: str) -> None:
    refused = pack(index, tmp_path / "a", *options)
    assert said in refused.stdout.replace("from linux, linux-arm, macos", "from 'linux', 'linux-arm', 'macos'")
    assert "Traceback" not in refused.stdout
    assert refused.returncode != 0


def test_it_packs_for_the_pythons_that_the_project_supports() -> None:
    supported = (PROJECT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"supported: Python {PYTHONS[0]} to {PYTHONS[-1]};" in supported
    assert list(SYSTEMS) == ["linux", "linux-arm", "macos"]


def test_it_installs_and_says_how_to_begin_and_started_again_it_installs_only_what_is_new(
    copy: Path, home: Path
) -> None:
    (home / ".config" / "pip").mkdir(parents=True)  # settings of pip on this machine change nothing
    (home / ".config" / "pip" / "pip.conf").write_text(
        "[install]\nonly-binary = none\nindex-url = https://nowhere.invalid\n"
    )
    first = install(copy, home)
    lessons = home / "ddp-lessons"
    assert f'cd "{lessons}" && .venv/bin/ddp-lessons start' in first.stdout, first.stdout
    assert f"torch {TORCH} and torchvision {TORCHVISION} match" in first.stdout
    assert "PROBLEM  gloo" in first.stdout  # of an empty torch
    assert first.returncode == 1
    assert (lessons / ".venv" / "bin" / "ddp-lessons").is_file()
    assert "Installing into" not in install(copy, home).stdout
    (lessons / ".venv" / ".installed").unlink()  # as when it is cut off while installing
    (mine := lessons / "my_lessons").mkdir()
    assert "Installing into" in install(copy, home).stdout
    assert mine.is_dir()


def test_a_damaged_copy_is_refused_and_the_files_are_named(copy: Path, home: Path) -> None:
    (damaged,) = copy.glob("wheels/matplotlib*")
    damaged.write_bytes(damaged.read_bytes()[:-10])
    (missing,) = copy.glob("wheels/jupyterlab*")
    missing.unlink()
    for options in ([], ["--check"]):
        refused = install(copy, home, *options)
        assert "incomplete or damaged" in refused.stdout
        assert damaged.name in refused.stdout
        assert missing.name in refused.stdout
        assert refused.returncode == 1
    assert not (home / "ddp-lessons").exists()


def test_a_wheel_that_somebody_added_is_not_installed(copy: Path, home: Path) -> None:
    (torch,) = copy.glob("wheels/torch-*")
    torch.with_name(f"torch-{TORCH}-9-py3-none-any.whl").write_bytes(b"with a build number, pip would prefer it")
    assert f"torch {TORCH} and torchvision" in install(copy, home).stdout


MACHINES = {
    "with Python 3.9.1, but this folder has wheels for linux-3": "import sys, platform\n"
    "sys.version_info, platform.python_version = (3, 9, 1), lambda: '3.9.1'",
    "This is Darwin x86_64 with": "import platform as p; p.system, p.machine = lambda: 'Darwin', lambda: 'x86_64'",
    "has 0.0 GB of free space": "import shutil\nclass Usage: free = 0\nshutil.disk_usage = lambda folder: Usage",
    "No space left on device: ": "import pathlib, errno\n"
    "def refuse(*_): raise OSError(errno.ENOSPC, 'No space left on device', 'x')\npathlib.Path.touch = refuse",
}


@pytest.mark.parametrize("words", MACHINES)
def test_another_machine_than_it_was_made_for_gets_a_sentence(given: Path, home: Path, words: str) -> None:
    refused = install(given, home, before=MACHINES[words])
    assert words in refused.stdout, refused.stdout
    assert "Traceback" not in refused.stdout
    assert refused.returncode == 1


def test_a_folder_of_somebody_else_is_left_alone(given: Path, home: Path) -> None:
    (home / "ddp-lessons").mkdir()
    (home / "ddp-lessons" / "mine.txt").write_text("mine")
    refused = install(given, home)
    assert "was not created by this installer" in refused.stdout
    assert f'--to "{home / "ddp-lessons-offline"}"' in refused.stdout
    assert [path.name for path in (home / "ddp-lessons").iterdir()] == ["mine.txt"]


def test_asked_only_to_look_it_installs_nothing(given: Path, home: Path) -> None:
    looked = install(given, home, "--check")
    assert f"The copy is complete for {HERE}." in looked.stdout
    assert looked.returncode == 0
    assert not (home / "ddp-lessons").exists()
