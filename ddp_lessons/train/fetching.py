"""Fetch MNIST from torchvision's mirrors, with torchvision's own loader, within short times.

The loader waits without an end for a server that says nothing, and prints into the lesson. So it works in a process of
its own, which is watched: when no byte comes for a while, that process is ended. Files that arrived whole are not
fetched again, and one that broke off is.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import queue
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from ddp_lessons.train.mnist import Collection, RawFile, fault_of
from ddp_lessons.train.progress import Progress

_AGENT = "pytorch/vision"  # torchvision's own name for itself
_ROUNDS = 3
_LOADING_SECONDS = 120.0  # until torchvision is imported, on a slow machine
_LONGEST_SECONDS = 600.0
_START = "import sys; sys.path[:] = {path!r}; from ddp_lessons.train import fetching; fetching.serve()"


class NotFetched(Exception):
    """MNIST could not be fetched; the message says why in a sentence."""


def fetch(raw: Path, collection: Collection) -> None:
    """Bring MNIST's files to the folder `raw`, and verify them."""
    missing = [file for file in collection.files if fault_of(raw / file.name, file)]
    if not missing:
        return
    mirrors = _mirrors_that_answer(collection)
    if not mirrors:
        raise NotFetched("no mirror of MNIST answered")
    raw.mkdir(parents=True, exist_ok=True)
    for file in missing:
        (raw / file.name).unlink(missing_ok=True)
    said = _fetch_in_a_process(raw, mirrors, collection, missing)
    faults = [f"{file.name} {fault}" for file in collection.files if (fault := fault_of(raw / file.name, file))]
    if faults:
        for file in missing:
            if fault_of(raw / file.name, file):
                (raw / file.name).unlink(missing_ok=True)
        raise NotFetched(f"the download failed: {said or faults[0]}")


def _mirrors_that_answer(collection: Collection) -> list[str]:
    """Ask all at once, each in a thread that nobody waits for: to look up a name has no time limit."""
    answers: queue.Queue[tuple[str, bool]] = queue.Queue()

    def ask(mirror: str) -> None:
        url = f"{mirror}{collection.files[-1].name}.gz"
        asked = urllib.request.Request(url, method="HEAD", headers={"User-Agent": _AGENT})
        try:
            with urllib.request.urlopen(asked, timeout=collection.answer_seconds) as answer:
                answers.put((mirror, answer.status == 200))
        except (OSError, ValueError, http.client.HTTPException):
            answers.put((mirror, False))

    for mirror in collection.mirrors:
        threading.Thread(target=ask, args=(mirror,), daemon=True).start()
    end = time.monotonic() + collection.answer_seconds + 0.5
    good: set[str] = set()
    with contextlib.suppress(queue.Empty):
        for _ in collection.mirrors:
            mirror, is_there = answers.get(timeout=max(0.0, end - time.monotonic()))
            good |= {mirror} if is_there else set()
    return [mirror for mirror in collection.mirrors if mirror in good]


def _fetch_in_a_process(raw: Path, mirrors: Sequence[str], collection: Collection, files: Sequence[RawFile]) -> str:
    """Return what the loader said when it failed, or nothing."""
    order = {
        "folder": os.fspath(raw),
        "mirrors": list(mirrors),
        "files": [(f"{file.name}.gz", file.packed_md5) for file in files],
        "seconds": collection.silence_seconds / 2,
    }
    loader = subprocess.Popen(
        [sys.executable, "-c", _START.format(path=[os.path.abspath(entry) for entry in sys.path])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert loader.stdin is not None
    assert loader.stdout is not None
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(loader.stdout, lines), daemon=True).start()
    try:
        with contextlib.suppress(BrokenPipeError):
            loader.stdin.write(json.dumps(order) + "\n")
            loader.stdin.flush()  # it stays open: when this process ends, the loader sees the end of it
        return _watch(lines, raw, collection, files)
    finally:
        loader.kill()
        loader.wait()
        with contextlib.suppress(OSError):
            loader.stdin.close()


def _watch(lines: queue.Queue[str], raw: Path, collection: Collection, files: Sequence[RawFile]) -> str:
    total = sum(file.packed_size for file in files)
    patience, arrived = _LOADING_SECONDS, 0
    start = last = time.monotonic()
    with Progress("Fetching MNIST, megabytes", unit_size=1e6) as progress:
        while time.monotonic() - last < patience and time.monotonic() - start < _LONGEST_SECONDS:
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=0.1)
                if line != "ready\n":
                    return line.strip()
                patience, last = collection.silence_seconds, time.monotonic()
            now = sum(_arrived(raw, file) for file in files)
            if now > arrived:
                last = time.monotonic()
            arrived = max(now, arrived)
            progress.at(arrived, total)
    return "the mirror fell silent"


def _arrived(raw: Path, file: RawFile) -> int:
    if (raw / file.name).exists():
        return file.packed_size
    with contextlib.suppress(OSError):
        return (raw / f"{file.name}.gz").stat().st_size
    return 0


def _read(stream: object, lines: queue.Queue[str]) -> None:
    for line in stream:  # type: ignore[attr-defined]
        lines.put(line)
    lines.put("")  # it has ended


def serve() -> None:
    """In the loader's process: take the order from stdin, and say in a line how it went."""
    import socket

    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    socket.setdefaulttimeout(order["seconds"])  # the loader sets none
    from torchvision.datasets.utils import download_and_extract_archive

    print("ready", flush=True)
    for name, md5 in order["files"]:
        failure = ""
        for mirror in order["mirrors"] * _ROUNDS:
            try:
                url = f"{mirror}{name}"
                download_and_extract_archive(url, order["folder"], filename=name, md5=md5, remove_finished=True)
                break
            except Exception as error:  # whatever a network can do: the next mirror may do better
                failure = f"{url}: {str(error) or type(error).__name__}".replace("\n", " ")
        else:
            print(failure, flush=True)
            return
    print(flush=True)


def _end_with_the_other() -> None:
    sys.stdin.read()
    os._exit(1)
