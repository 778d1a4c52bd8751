"""The learner's own file: which exercises have passed, and after how many tries.

It stays on this machine, in the user's data folder or where the variable DDP_LESSONS_PROGRESS says ("off": nowhere).
What cannot be written is kept until the kernel ends, and written once that is possible again. No check ever fails
because of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from platformdirs import user_data_path

from ddp_lessons.record.whole_file import write_whole

COURSE, FORMAT = "ddp-lessons", 1
VARIABLE, OFF = "DDP_LESSONS_PROGRESS", "off"
LONGEST_WAIT_SECONDS = 2.0
LONGEST_NAME = 80
_MOST_BYTES = 1 << 20  # a whole course takes 2 KB
_MOST_TRIES = 1_000_000


class NotProgress(ValueError):
    """This text is something else, or damaged; the message says what."""


class NotOurs(NotProgress):
    """A file to leave alone: it belongs to another program, or to a newer version of this course."""


@dataclass(frozen=True)
class Entry:
    """The record of one exercise. `tries` counts up to the first pass; `passed` is its time, or ""."""

    lesson: int
    tries: int
    passed: str = ""

    def then(self, later: Entry) -> Entry:
        return self if self.passed else Entry(later.lesson, min(self.tries + later.tries, _MOST_TRIES), later.passed)


@dataclass(frozen=True)
class Kept:
    """The content of a file. `data` is all of it, including what only other versions understand."""

    entries: Mapping[str, Entry]
    name: str = ""  # only in a file that was shared
    lost: tuple[str, ...] = ()  # exercises whose entries are invalid
    data: Mapping[str, Any] = field(default_factory=dict)


_not_yet_written: dict[str, Entry] = {}


def place() -> Path | None:
    """The file, whether it exists or not; None if nothing is recorded."""
    chosen = os.environ.get(VARIABLE)
    if chosen == OFF:
        return None
    try:
        path = Path(chosen).expanduser() if chosen else user_data_path("ddp_lessons")
        if not chosen and not path.is_absolute():
            return None  # a user without a home directory
        if path.is_dir() or not chosen:
            path /= "progress.json"
        return path.resolve()  # if it is a link, replace the file itself
    except (RuntimeError, OSError):  # the same, for a path that begins with ~
        return None


def keep(exercise: str, lesson: int, passed: bool) -> Entry:
    """Count a try, save it if possible, and return all that is known of this exercise."""
    now = datetime.now().astimezone().isoformat(timespec="seconds") if passed else ""
    tried = Entry(lesson, 1, now)
    before = _not_yet_written.get(exercise)
    entry = _not_yet_written[exercise] = before.then(tried) if before else tried
    path = place()
    if path is None:
        return entry
    with contextlib.suppress(Exception):  # whatever happens to the file, the learner gets the report
        _refuse_what_is_no_file(path)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _one_at_a_time(path):
            entry = _write_down(path)[exercise]
        _not_yet_written.clear()
    return entry


def recall() -> tuple[dict[str, Entry], list[str]]:
    """The recorded entries by exercise, and notes about the file."""
    path, entries, notes = place(), dict[str, Entry](), list[str]()
    if path is None:
        if os.environ.get(VARIABLE) != OFF:
            notes.append(f"There is no folder for your progress file. Set {VARIABLE} to the path of a file.")
    else:
        try:
            kept = read(path)
            entries.update(kept.entries)
            notes += [f"The entry of {exercise} cannot be read: {path}" for exercise in kept.lost]
        except (OSError, NotProgress) as error:
            notes.append(f"Your progress cannot be read, because {_reason(error)}: {path}")
        notes += [
            f"A damaged file was moved aside: {aside}" for aside in sorted(path.parent.glob(f"{path.name}.broken*"))
        ]
        if _not_yet_written:
            notes.append(
                f"Your latest progress is kept only until this kernel ends, because it cannot be written to {path}. "
                f"Set {VARIABLE} to the path of a file that you can write."
            )
    return _with_what_is_not_yet_written(entries), notes


def read(path: Path) -> Kept:
    """The content of the file; empty if it does not exist.

    Raises:
        NotProgress: it is damaged, or belongs to another program or a newer version.
    """
    _refuse_what_is_no_file(path)
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return Kept({})
    if len(content) > _MOST_BYTES:
        raise NotOurs(f"it is larger than {_MOST_BYTES / 1000000.0:.0f} MB, so it is not a progress file")
    return understand(content) if content.strip() else Kept({})


def _refuse_what_is_no_file(path: Path) -> None:
    """/dev/null may mean "nowhere", and must not be replaced by a file."""
    if path.exists() and not path.is_file():
        raise NotOurs("it is not a regular file")


def understand(content: bytes) -> Kept:
    try:
        data = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise NotProgress("it is damaged") from error
    if not isinstance(data, dict) or data.get("course") != COURSE:
        raise NotOurs("it is not a progress file of this course")
    version = _count(data.get("format"))
    if version is not None and version > FORMAT:
        raise NotOurs(
            f"a newer version of this course wrote it (format {version}, and this version reads up to {FORMAT})"
        )
    if version is None or not isinstance(data.get("exercises"), dict):
        raise NotProgress("it is damaged")
    entries = {exercise: _entry(said) for exercise, said in data["exercises"].items()}
    return Kept(
        {exercise: entry for exercise, entry in entries.items() if entry},
        clean_name(data.get("name", "")),
        tuple(exercise for exercise, entry in entries.items() if not entry),
        data,
    )


def as_text(entries: Mapping[str, Entry], data: Mapping[str, Any]) -> str:
    """`data` with these entries; everything else in it stays."""
    before = {name: said for name, said in data.get("exercises", {}).items() if isinstance(said, dict)}
    exercises = {
        exercise: {
            **before.get(exercise, {}),
            "lesson": entry.lesson,
            "tries": entry.tries,
            **({"passed": entry.passed} if entry.passed else {}),
        }
        for exercise, entry in entries.items()
    }
    return json.dumps({"course": COURSE, "format": FORMAT, **data, "exercises": exercises}, indent=1) + "\n"


def clean_name(name: object) -> str:
    """A name that fits into a table: one line, no control characters, not long."""
    if not isinstance(name, str):
        return ""
    letters = "".join(letter if letter.isprintable() else " " for letter in unicodedata.normalize("NFC", name))
    return " ".join(letters.split())[:LONGEST_NAME]


def _write_down(path: Path) -> dict[str, Entry]:
    try:
        kept, is_whole = read(path), True
    except NotOurs:
        raise
    except NotProgress:
        kept, is_whole = Kept({}), False
    if kept.lost or not is_whole:
        os.replace(path, _free_name_beside(path))
    entries = _with_what_is_not_yet_written(kept.entries)
    write_whole(path, as_text(entries, kept.data), mode=0o600)
    return entries


def _with_what_is_not_yet_written(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    later = {name: entries[name].then(entry) if name in entries else entry for name, entry in _not_yet_written.items()}
    return {**entries, **later}


def _free_name_beside(path: Path) -> Path:
    taken = {other.name for other in path.parent.glob(f"{path.name}.broken*")}
    number = next(number for number in range(1, len(taken) + 2) if f"{path.name}.broken{number}" not in taken)
    return path.with_name(f"{path.name}.broken{number}")


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Several notebooks may count at once. On a file system without locks, one of two counts may be lost."""
    from filelock import FileLock, Timeout

    lock = FileLock(path.with_name(f"{path.name}.lock"), timeout=LONGEST_WAIT_SECONDS)
    try:
        lock.acquire(poll_interval=0.02)
    except Timeout:
        raise
    except (OSError, NotImplementedError):
        pass  # the write will show whether the folder is writable
    try:
        yield
    finally:
        lock.release()


def _entry(said: object) -> Entry | None:
    if not isinstance(said, dict):
        return None
    lesson, tries, passed = _count(said.get("lesson")), _count(said.get("tries")), said.get("passed", "")
    if lesson is None or not tries or not isinstance(passed, str):
        return None
    if passed:
        try:
            datetime.fromisoformat(passed)
        except ValueError:
            return None
    return Entry(lesson, tries, passed)


def _count(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_TRIES:
        return None
    return value


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
