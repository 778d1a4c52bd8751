"""Files that are made once and then found again: whole, or not at all.

They lie in one folder, the cache: that of the variable DDP_LESSONS_CACHE, or this user's own. Where that cannot be
written to, a folder for temporary files takes its place. Nothing is trusted for its name: every file has its sum beside
it, and a file that has changed since its sum was last taken is read again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

T = TypeVar("T")

LONGEST_WAIT_SECONDS = 600.0
_LEFT_BEHIND_SECONDS = 3600.0


class NoPlace(OSError):
    """Nowhere could a file be written; the message says where it was tried and why not."""


def places() -> list[Path]:
    """Where files are looked for, and written to if one can: the cache first."""
    try:
        return list(dict.fromkeys([_cache(), _temporary_folder()]))
    except FileNotFoundError:  # no folder for temporary files anywhere
        return [_cache()]


def _cache() -> Path:
    chosen = os.environ.get("DDP_LESSONS_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if sys.platform == "win32":
        above = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        above = "~/Library/Caches"
    else:
        above = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(above).expanduser().absolute() / "ddp_lessons"
    except RuntimeError:  # a user without a home
        return _temporary_folder()


@functools.cache
def _temporary_folder() -> Path:
    """One that belongs to this user: in a folder for all, somebody else may have taken the name."""
    who = str(os.getuid()) if hasattr(os, "getuid") else "cache"
    folder = Path(tempfile.gettempdir()) / f"ddp_lessons-{who}"
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
        if not hasattr(os, "getuid") or (about.st_uid == os.getuid() and not about.st_mode & 0o022):
            return folder
    return Path(tempfile.gettempdir()) / f"ddp_lessons-{who}-{uuid.uuid4().hex}"


def in_a_place(do: Callable[[Path], T], bytes: int = 0) -> T:
    """Call `do(place)` with the first place where that works."""
    failures = []
    for place in places():
        try:
            place.mkdir(parents=True, exist_ok=True)
            return do(place)
        except OSError as error:
            failures.append(f"  {place}: {error.strerror or error}")
    raise NoPlace(
        "\n".join(["the digits could not be stored:", *failures])
        + f"\nSet the variable DDP_LESSONS_CACHE to a folder of yours where {bytes / 1e6:,.0f} MB are free."
    )


def find(name: str) -> Path | None:
    """The file that was kept under this name, if it is there and what it was."""
    for place in places():
        path = place / name
        with contextlib.suppress(OSError):
            if _sum_beside(path).read_text(encoding="ascii") == sum_of(path):
                return path
    return None


def keep(name: str, pieces: Callable[[], Iterable[bytes]], bytes: int = 0) -> Path:
    """Write the pieces, one after the other, to a file that appears under this name only when it is whole."""

    def write_there(place: Path) -> Path:
        path = place / name
        digest = hashlib.sha256()
        with _appearing(path) as file:
            for piece in pieces():
                file.write(piece)
                digest.update(piece)
        _write_text(_sum_beside(path), digest.hexdigest())
        _remember_sum(path, digest.hexdigest())
        return path

    return in_a_place(write_there, bytes)


def sum_of(path: Path) -> str:
    """The file's sha256. Taken once, and again when the file's size or one of its times has changed."""
    stamp = _stamp(path)
    for place in places():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            noted = json.loads(_note_of(path, place).read_text(encoding="utf-8"))
            if noted["stamp"] == stamp:
                return str(noted["sha256"])
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    if _stamp(path) == stamp:
        _remember_sum(path, digest.hexdigest())
    return digest.hexdigest()


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait until no other process is in here.

    Who cannot wait, since this file system knows no locks, or has waited for very long, goes on: at worst a thing is
    then made twice, never half.
    """
    from filelock import FileLock, Timeout

    def take(place: Path) -> FileLock:
        lock = FileLock(place / "lock", timeout=LONGEST_WAIT_SECONDS)
        lock.acquire(poll_interval=0.05)
        _clear_away(place)
        return lock

    lock = None
    with contextlib.suppress(NoPlace, Timeout, NotImplementedError):
        lock = in_a_place(take)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def remember(name: str, words: str) -> None:
    """Note something for other processes, if one can."""
    with contextlib.suppress(NoPlace):
        in_a_place(lambda place: _write_text(place / name, words))


def recall(name: str, seconds: float) -> str | None:
    """What was noted, if that is not longer ago."""
    for place in places():
        with contextlib.suppress(OSError):
            if 0 <= time.time() - (place / name).stat().st_mtime < seconds:
                return (place / name).read_text(encoding="utf-8")
    return None


def forget(name: str) -> None:
    for place in places():
        with contextlib.suppress(OSError):
            (place / name).unlink(missing_ok=True)


@contextlib.contextmanager
def _appearing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name when all is written and on the disk."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_text(path: Path, text: str) -> None:
    with _appearing(path) as file:
        file.write(text.encode())


def _remember_sum(path: Path, sum: str) -> None:
    def note(place: Path) -> None:
        path_of_note = _note_of(path, place)
        path_of_note.parent.mkdir(exist_ok=True)
        _write_text(path_of_note, json.dumps({"path": os.fspath(path), "stamp": _stamp(path), "sha256": sum}))

    with contextlib.suppress(NoPlace):
        in_a_place(note)


def _note_of(path: Path, place: Path) -> Path:
    name = hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:16]
    return place / "sums" / f"{name}.json"


def _sum_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def _stamp(path: Path) -> list[int]:
    about = path.stat()
    return [about.st_size, about.st_mtime_ns, about.st_ctime_ns]


def _clear_away(place: Path) -> None:
    """What processes left behind that were killed while they wrote."""
    for part in place.rglob("*.part"):
        with contextlib.suppress(OSError):
            if time.time() - part.stat().st_mtime > _LEFT_BEHIND_SECONDS:
                part.unlink()
