"""install.py does what it says on machines where something is not well; the wheels are small, and there is no network.

What this leaves out, tests/offline/test_everything.py has: the real wheels, the doctor, and a lesson.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from nights import nightly
from small_wheels import NO_NETWORK, PYTHON, TORCH, TORCHVISION, install, needs_a_namespace, pack, write_index

pytestmark = nightly


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_a_namespace()
    here = tmp_path_factory.mktemp("a stick")
    packed = pack(write_index(here / "index"), here / "given here", "--for", "linux")
    assert packed.returncode == 0, packed.stderr
    return here / "given here"


@pytest.fixture
def copy(given: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(given, tmp_path / "a copy, à moi"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home of anna").mkdir()
    return tmp_path / "home of anna"


def test_it_installs_all_wheels_and_says_how_to_begin_and_the_folder_stays_as_it_was(given: Path, home: Path) -> None:
    before = sorted(given.rglob("*"))
    first = install(given, home)
    lessons = home / "ddp-lessons"
    assert f'python3 "{lessons / "lessons.py"}"' in first.stdout, first.stdout
    assert f"torch {TORCH} and torchvision {TORCHVISION} match" in first.stdout
    assert "PROBLEM  gloo" in first.stdout  # of an empty torch
    assert first.returncode == 1
    assert sorted(given.rglob("*")) == before
    installed = {path.name.partition("-")[0] for path in lessons.glob(".venv/lib/python3*/site-packages/*.dist-info")}
    assert {"torch", "torchvision", "jupyterlab", "pip", "only_on_linux"} <= installed
    assert "only_on_macos" not in installed
    opened = os.popen(f"cd / && {sys.executable} '{lessons}/lessons.py' --port 9").read()
    assert opened.endswith(
        "--LabApp.default_url=/lab/tree/00_start_four_ranks.ipynb --port 9 --allow-root\n"
        if os.geteuid() == 0
        else " --port 9\n"
    ), opened


def test_settings_of_pip_on_this_machine_change_nothing(given: Path, home: Path) -> None:
    settings = home / ".config" / "pip"
    settings.mkdir(parents=True)
    (settings / "constraints.txt").write_text("torch<2\n")
    (settings / "pip.conf").write_text(f"[install]\nconstraint = '{settings / 'constraints.txt'}'\n")
    done = install(given, home)
    assert f"torch {TORCH} and torchvision {TORCHVISION} match" in done.stdout, done.stdout


def test_started_twice_it_goes_on_and_leaves_a_lesson_that_was_worked_in(given: Path, home: Path) -> None:
    install(given, home)
    lesson = home / "ddp-lessons" / "notebooks" / "02_send_and_receive.ipynb"
    lesson.write_text("mine")
    half = next((home / "ddp-lessons").glob(".venv/lib/python3*/site-packages/ipywidgets/__init__.py"))
    half.write_text("half of a file")
    (home / "ddp-lessons" / ".venv" / ".installed").unlink()  # as when it is cut off while installing
    again = install(given, home)
    assert "Unchanged, because you have worked in them: 02_send_and_receive.ipynb" in again.stdout
    assert lesson.read_text() == "mine"
    assert half.read_text() == ""
    third = install(given, home)
    assert "Installing into" not in third.stdout


def test_a_copy_that_was_cut_off_is_refused_and_the_file_named(copy: Path, home: Path) -> None:
    (wheel,) = copy.glob("wheels/matplotlib*")
    wheel.write_bytes(wheel.read_bytes()[:-10])
    (copy / "project" / "ddp_lessons" / "workshop/doctor.py").unlink()
    refused = install(copy, home)
    assert f"wheels/{wheel.name} is damaged or incomplete" in refused.stdout
    assert "project/ddp_lessons/workshop/doctor.py is missing" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert refused.returncode == 1
    assert not (home / "ddp-lessons").exists()


@pytest.mark.parametrize("name", ["SHA256SUMS", "contents.json"])
def test_a_copy_without_its_lists_is_refused(copy: Path, home: Path, name: str) -> None:
    (copy / name).write_text("")
    refused = install(copy, home)
    assert "copy the whole folder again" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert refused.returncode == 1


MACHINES = {
    "this is Python 3.9": "import sys; sys.version_info = (3, 9, 1)",
    "this machine is macOS x86_64": "import platform as p; p.system, p.machine = lambda: 'Darwin', lambda: 'x86_64'",
    "need a linux with glibc": "import platform; platform.libc_ver = lambda: ('', '')",
    "glibc 2.28 or newer, but this machine has 2.17": "import platform; platform.libc_ver = lambda: ('glibc', '2.17')",
    "the usual 64-bit Python": "import struct; struct.calcsize = lambda kind: 4",
    "has 0.0 GB of free space": "import shutil\nclass Usage: free = 0\nshutil.disk_usage = lambda folder: Usage",
}


@pytest.mark.parametrize("words", MACHINES)
def test_another_machine_than_it_was_made_for_gets_a_sentence(given: Path, home: Path, words: str) -> None:
    refused = install(given, home, before=MACHINES[words])
    assert words.lower() in refused.stdout.lower(), refused.stdout
    assert "Traceback" not in refused.stdout
    assert refused.returncode == 1
    if "Python 3.9" in words:
        assert f"wheels for Python {PYTHON}" in refused.stdout


def test_a_folder_of_somebody_else_is_left_alone(given: Path, home: Path) -> None:
    (home / "ddp-lessons").mkdir()
    (home / "ddp-lessons" / "mine.txt").write_text("mine")
    refused = install(given, home)
    assert "was not made by this installer" in refused.stdout
    assert f'--to "{home / "ddp-lessons-offline"}"' in refused.stdout
    assert [path.name for path in (home / "ddp-lessons").iterdir()] == ["mine.txt"]


def test_a_disk_that_gets_full_is_said_in_a_sentence(given: Path, home: Path) -> None:
    refuse = "def refuse(*_): raise OSError(errno.ENOSPC, 'No space left on device')"
    full = f"import shutil, errno\n{refuse}\nshutil.copyfile = refuse"
    refused = install(given, home, before=full)
    assert "The disk is full. Free some space and start again" in refused.stdout
    assert "Traceback" not in refused.stdout


PAGE = 4096  # of a tmpfs: a file takes whole ones

# Three starts on a disk that grows: too small for the lessons, too small for the packages, large enough.
ON_A_SMALL_DISK = """
mount -t tmpfs -o "size=$1" none "$HOME"
for room in "$1" "$2" 1g; do
  mount -o "remount,size=$room" "$HOME"
  echo "--- $room"
  [ "$room" = 1g ] && "$3" install.py || "$3" -c "$4"
  for lesson in "$HOME"/ddp-lessons/notebooks/*.ipynb; do
    cmp -s "$lesson" "project/notebooks/${lesson##*/}" && echo "same: $lesson" || echo "other: $lesson"
  done
done
"""
# a large disk had room when it was looked at, and then something else took it
NOT_LOOKED_AT = """
import runpy, installer.steps
installer.steps._look_for_room = lambda target, needed: None
runpy.run_path("install.py", run_name="__main__")
"""


def test_on_a_disk_that_is_really_full_it_says_so_and_goes_on_when_there_is_room(given: Path, home: Path) -> None:
    lessons = sorted((given / "project" / "notebooks").glob("*.ipynb"))
    needed = sum(-(-path.stat().st_size // PAGE) * PAGE for path in (given / "project").rglob("*") if path.is_file())
    sizes = [str(needed - sum(path.stat().st_size for path in lessons) // 2), str(needed + 5_000_000)]
    command = [*NO_NETWORK, "--mount", "bash", "-c", ON_A_SMALL_DISK, "-", *sizes, sys.executable, NOT_LOOKED_AT]
    plain = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    said = subprocess.run(command, cwd=given, env=plain, text=True, stdout=-1, stderr=subprocess.STDOUT).stdout
    _, lessons_do_not_fit, packages_do_not_fit, all_fits = said.split("--- ")
    full = "The disk is full. Free some space and start again; finished steps stay."
    assert full in lessons_do_not_fit, said
    assert full in packages_do_not_fit, said
    assert "Traceback" not in lessons_do_not_fit, said
    assert len(re.findall(r"same: .*\.ipynb", lessons_do_not_fit)) in range(1, len(lessons))
    assert "other: " not in said, said  # no half of a lesson is left
    assert "Unchanged, because" not in said
    assert "ok       Python: " in all_fits, said
    assert len(re.findall(r"same: .*\.ipynb", all_fits)) == len(lessons)


def test_asked_only_to_look_it_installs_nothing(given: Path, home: Path) -> None:
    looked = install(given, home, "--check")
    assert f"It is complete and fits this machine: Linux x86_64, Python {PYTHON}." in looked.stdout
    assert looked.returncode == 0
    assert not (home / "ddp-lessons").exists()
