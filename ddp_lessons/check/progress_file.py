"""The learner's own file: which exercises have passed, and after how many tries.

It stays on this machine, in the user's data folder or where the variable DDP_LESSONS_PROGRESS says ("off": nowhere).
A file that cannot be read or written is left alone: the tries count until the kernel ends, and are written once that is
possible again. No check ever fails because of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import FileLock
from platformdirs import user_data_path

from ddp_lessons.own_files import write_whole

_COURSE, _FORMAT = "ddp-lessons", 1
_VARIABLE, _FILE = "DDP_LESSONS_PROGRESS", "progress.json"
_LONGEST_WAIT_SECONDS = 2.0
_LONGEST_NAME = 80
_MOST_BYTES = 1 << 20  # a whole course takes 2 KB
_MOST_TRIES = 1_000_000


class NotProgress(Exception):
    """A file to leave alone. The message says why, and begins with a verb."""


@dataclass(frozen=True)
class Entry:
    """The record of one exercise. `tries` counts up to the first pass; `passed` is its time, or ""."""

    tries: int = 0
    passed: str = ""

    def then(self, later: Entry) -> Entry:
        return self if self.passed else Entry(self.tries + later.tries, later.passed)


@dataclass(frozen=True)
class Kept:
    """The content of a file."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    name: str = ""  # only in a file that was shared


_not_yet_written: dict[str, Entry] = {}


def place() -> Path | None:
    """The file, whether it exists or not; None if nothing is recorded."""
    chosen = os.environ.get(_VARIABLE)
    if chosen == "off":
        return None
    path = Path(os.path.expanduser(chosen)) if chosen else user_data_path("ddp_lessons") / _FILE
    return (path / _FILE if os.path.isdir(path) else path).resolve()  # if it is a link, replace the file itself


def keep(exercise: str, passed: bool) -> Entry:
    """Count a try, save it if possible, and return all that is known of this exercise."""
    now = datetime.now().astimezone().isoformat(timespec="seconds") if passed else ""
    entry = _not_yet_written[exercise] = _not_yet_written.get(exercise, Entry()).then(Entry(1, now))
    path = place()
    if path is None:
        return entry
    with contextlib.suppress(Exception):  # whatever happens to the file, the learner gets the report
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path.with_name(f"{path.name}.lock"))  # several notebooks may count at once
        with lock.acquire(timeout=_LONGEST_WAIT_SECONDS, poll_interval=0.02):
            before = read(path)
            entries = _with_what_is_not_yet_written(before.entries)
            write_whole(path, as_text(Kept(entries, before.name)), mode=0o600)
        _not_yet_written.clear()
        return entries[exercise]
    return entry


def recall() -> tuple[dict[str, Entry], list[str]]:
    """The recorded entries by exercise, and notes about the file."""
    path, kept, notes = place(), Kept(), list[str]()
    if path is not None:
        reason = "cannot be written" if _not_yet_written else ""
        try:
            kept = read(path)
        except NotProgress as error:
            reason = str(error)
        if reason:
            notes.append(
                f"Your progress cannot be stored, because {path} {reason}. It is kept only until this kernel ends. "
                f"To store it, set {_VARIABLE} to the path of another file."
            )
    return _with_what_is_not_yet_written(kept.entries), notes


def read(path: Path) -> Kept:
    """The content of the file; empty if it does not exist. Anyone may have written it.

    Raises:
        NotProgress: it belongs to another program or version, is damaged, or cannot be read.
    """
    try:
        with open(path, "rb") as file:
            data = json.loads(file.read(_MOST_BYTES))  # cut off, a larger file is no JSON
        if (data["course"], data["format"]) != (_COURSE, _FORMAT):
            raise ValueError("written by another program or version")
        entries = {exercise: _entry(said) for exercise, said in data["exercises"].items()}
        return Kept(entries, clean_name(data.get("name", "")))
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        raise NotProgress(f"cannot be read ({error.strerror})") from error
    except Exception as error:  # it may contain anything
        raise NotProgress("is damaged or not a progress file of this version of the course") from error


def _entry(said: Any) -> Entry:
    tries, passed = said["tries"], said.get("passed", "")
    if type(tries) is not int or not 0 < tries <= _MOST_TRIES:
        raise ValueError("not a number of tries")
    if passed != "":
        datetime.fromisoformat(passed)  # or it raises
    return Entry(tries, passed)


def as_text(kept: Kept) -> str:
    name = {"name": kept.name} if kept.name else {}
    exercises = {exercise: asdict(entry) for exercise, entry in kept.entries.items()}
    return json.dumps({"course": _COURSE, "format": _FORMAT, **name, "exercises": exercises}, indent=1) + "\n"


def clean_name(name: str) -> str:
    """A name that fits into a table: one line, no control characters, not long."""
    letters = "".join(letter if letter.isprintable() else " " for letter in unicodedata.normalize("NFC", name))
    return " ".join(letters.split())[:_LONGEST_NAME]


def _with_what_is_not_yet_written(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    later = {name: entries.get(name, Entry()).then(entry) for name, entry in _not_yet_written.items()}
    return {**entries, **later}
