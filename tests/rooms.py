"""A room of tests, and all that it can touch. What is as it was when all its tests passed need not be tried in full.

A run with DDP_LESSONS_TESTS=all (`make test-all` is one) notes in whole_runs.json on what each room has passed: Python,
torch, and the committed content of all that its tests can reach. None may have failed or been skipped. Commit that
file. While all of this is the same, `make test` tries one in five of the room's tests. test_architecture.py reads the
tests, what they import, and the imports of the package: all has to stay within what stands here.
"""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import torch

PROJECT = Path(__file__).parent.parent
WHOLE_RUNS = Path(__file__).with_name("whole_runs.json")

# a part of the package may import itself and these
MAY_IMPORT = {
    "record": {"record"},
    "run": {"run", "record", "__version__"},
    "train": {"train"},
    "show": {"show", "run", "record", "machines"},
    "check": {"check", "run", "record", "train", "capstone", "clinic"},
    "capstone": {"capstone", "check", "run", "record", "sameness", "show"},
    "clinic": {"clinic", "check"},
    "machines": {"machines", "run", "record"},
    "sameness": {"sameness", "run", "record", "show"},
    "script": {"script"},
    "dumps": {"dumps", "run", "record", "show"},
    "backends": {"backends", "run", "record", "train"},
    "gpu": {"gpu", "backends", "run", "record", "train", "show"},
    "quiz": {"quiz", "show"},
    "workshop": {"workshop", "run", "record", "check", "clinic", "train", "Results", "launch", "__version__"},
}
# any test may go through `python -m ddp_lessons` and `%load_ext ddp_lessons`
FRONT_DOOR = {"record", "run", "dumps", "sameness", "script", "workshop"}
# what a part imports only when it is asked for (a picture, the capstone); a room whose tests ask for it names it itself
ONLY_WHEN_ASKED = {"sameness": {"show"}, "dumps": {"show"}, "check": {"capstone", "clinic"}}
# what else the tests of a room use: parts of the package, and what is beside it. Other tests are always tried
ROOMS: dict[str, tuple[set[str], set[str]]] = {
    "tests/backends": ({"backends"}, {"notebooks/16_choose_a_backend.ipynb"}),
    "tests/capstone": ({"capstone", "sameness", "show"}, {"notebooks"}),
    "tests/check": ({"check"}, {"scripts"}),
    "tests/clinic": ({"clinic"}, {"authoring", "benchmarks"}),
    "tests/dumps": ({"dumps", "show"}, {"benchmarks", "docs"}),
    "tests/machines": ({"machines", "check", "show"}, {"benchmarks", "notebooks/13_many_machines.ipynb", "scripts"}),
    "tests/quiz": ({"quiz"}, {"notebooks"}),
    "tests/room": ({"workshop"}, {"notebooks"}),
    "tests/run": (set(), {"benchmarks"}),
    "tests/sameness": ({"sameness", "show"}, set()),
    "tests/script": ({"script", "train"}, {"notebooks", "scripts"}),
    "tests/scripts": ({"train"}, {"docs", "notebooks", "scripts"}),
    "tests/show": ({"show", "backends", "train"}, set()),
    "tests/timing": (set(), set()),
    "tests/train": ({"train", "backends"}, {"notebooks/16_choose_a_backend.ipynb"}),
}
_ALL_NEED = ["conftest.py", "pyproject.toml", "requirements.txt", "data", ":(glob)ddp_lessons/*.py"]
_ALL_NEED += [":(glob)tests/*.py", ":(exclude,glob)tests/test_*.py"]


def room_of(test: str) -> str:
    """Of a test's name, as pytest knows it; "" if it is in none of these."""
    room = "/".join(test.split("/")[:2])
    return room if room in ROOMS else ""


def parts_of(room: str) -> set[str]:
    """All parts of the package that its tests can reach."""
    reached: set[str] = set()
    following = FRONT_DOOR | ROOMS[room][0]
    while following:
        reached |= following
        nearby = (MAY_IMPORT.get(part, set()) - ONLY_WHEN_ASKED.get(part, set()) for part in following)
        following = set().union(*nearby) - reached
    return reached & MAY_IMPORT.keys()


def is_as_it_passed(room: str) -> bool:
    return bool(_digest(room)) and _known().get(room) == _digest(room)


def note_whole_runs(rooms: Iterable[str]) -> None:
    """All tests of these rooms have passed."""
    known = _known() | {room: digest for room in rooms if (digest := _digest(room))}
    WHOLE_RUNS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _known() -> dict[str, str]:
    return dict(json.loads(WHOLE_RUNS.read_text(encoding="utf-8"))) if WHOLE_RUNS.exists() else {}


@functools.cache
def _digest(room: str) -> str:
    """Of all that its tests run on, Python and torch too; "" if git cannot tell, or something is not committed."""
    places = [room, *(f"ddp_lessons/{part}" for part in parts_of(room)), *ROOMS[room][1], *_ALL_NEED]
    if _git("status", "--porcelain", "--", *places) != "":
        return ""
    content = f"Python {sys.version_info[:2]}, torch {torch.__version__}\n{_git('ls-files', '--stage', '--', *places)}"
    return hashlib.sha256(content.encode()).hexdigest()


def _git(*asked: str) -> str | None:
    """What it says; None without git, or outside of a repository."""
    try:
        return subprocess.run(["git", *asked], cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
