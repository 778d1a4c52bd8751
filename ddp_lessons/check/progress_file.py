"""The learner's own file: which exercises have passed, and after how many tries.

It is plain JSON and stays on this machine, in the user's data folder or where the variable DDP_LESSONS_PROGRESS says
("off": nowhere). A file that can't be read or written is left alone, and the tries count until the kernel ends. No
check ever fails because of it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from filelock import FileLock
from platformdirs import user_data_path

from ddp_lessons.own_files import write_whole

_VARIABLE = "DDP_LESSONS_PROGRESS"
_LONGEST_WAIT_SECONDS = 2.0
_MOST_BYTES = 1 << 20  # a whole course takes 2 KB
_MOST_TRIES = 1_000_000


class NotProgress(Exception):
    """A file to leave alone. The message says why, and begins with a verb."""


@dataclass(frozen=True)
class Entry:
    """The record of one exercise. `tries` counts up to the first pass; `passed` is its date, or ""."""

    tries: int = 0
    passed: str = ""

    def then(self, later: Entry) -> Entry:
        return self if self.passed else Entry(self.tries + later.tries, later.passed)


_not_yet_written: dict[str, Entry] = {}


def place() -> Path | None:
    """The file, whether it exists or not; None if nothing is recorded."""
    chosen = os.environ.get(_VARIABLE)
    if chosen == "off":
        return None
    path = Path(chosen).expanduser() if chosen else user_data_path("ddp_lessons") / "progress.json"
    return path.resolve()  # if it is a link, replace the file itself


def keep(exercise: str, passed: bool) -> Entry:
    """Count a try, save it if possible, and return all that is known of this exercise."""
    now = Entry(1, date.today().isoformat() if passed else "")
    entry = _not_yet_written[exercise] = _not_yet_written.get(exercise, Entry()).then(now)
    path = place()
    if path is None:
        return entry
    with contextlib.suppress(Exception):  # whatever happens to the file, the learner gets the report
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = FileLock(path.with_name(f"{path.name}.lock"))  # several notebooks may count at once
        with lock.acquire(timeout=_LONGEST_WAIT_SECONDS, poll_interval=0.02):
            entries = _with_what_is_not_yet_written(read(path))
            write_whole(path, as_text(entries), mode=0o600)
        _not_yet_written.clear()
        return entries[exercise]
    return entry


def recall() -> tuple[dict[str, Entry], list[str]]:
    """The recorded entries by exercise, and notes about the file."""
    path, written, notes = place(), dict[str, Entry](), list[str]()
    if path is not None:
        reason = "cannot be written" if _not_yet_written else ""
        try:
            written = read(path)
        except NotProgress as error:
            reason = str(error)
        if reason:
            notes.append(
                f"Your progress cannot be stored, because {path} {reason}. It is kept only until this kernel ends. "
                f"To store it, set {_VARIABLE} to the path of another file."
            )
    return _with_what_is_not_yet_written(written), notes


def read(path: Path) -> dict[str, Entry]:
    """The entries in the file; none if it does not exist. Anyone may have written it.

    Raises:
        NotProgress: it belongs to another program, is damaged, or cannot be read.
    """
    try:
        with open(path, "rb") as file:
            content = json.loads(file.read(_MOST_BYTES))  # cut off, a larger file is no JSON
        return {exercise: _checked(**entry) for exercise, entry in content["exercises"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotProgress(f"cannot be read ({error.strerror})") from error
    except Exception as error:  # it may contain anything
        raise NotProgress("is damaged or not a progress file of the course") from error


def _checked(tries: int, passed: str = "") -> Entry:
    if type(tries) is not int or not 0 < tries <= _MOST_TRIES:
        raise ValueError("not a number of tries")
    return Entry(tries, passed and date.fromisoformat(passed[:10]).isoformat())  # the time of day is nobody's business


def as_text(entries: Mapping[str, Entry]) -> str:
    return json.dumps({"exercises": {exercise: asdict(entry) for exercise, entry in entries.items()}}, indent=1) + "\n"


def _with_what_is_not_yet_written(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    later = {name: entries.get(name, Entry()).then(entry) for name, entry in _not_yet_written.items()}
    return {**entries, **later}
