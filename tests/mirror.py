"""A small set of files like MNIST's, and a server on this machine that stands in for its mirrors."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal

import pytest
import torch
from torch import Tensor

from ddp_lessons.train import digits, mnist, storage
from ddp_lessons.train.mnist import Collection, RawFile

Manner = Literal["good", "silent", "silent when it is to send", "cuts off the first", "a login page"]
NAMES = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]


def small_set(train: int = 60, test: int = 20) -> dict[str, bytes]:
    """Raw files by their names. Their first labels are 0, 1, 2, ..., and the same again."""
    generator = torch.Generator().manual_seed(5)
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        pixels = torch.randint(256, (count, 28, 28), generator=generator, dtype=torch.uint8)
        head = b"".join(number.to_bytes(4, "big") for number in (0x803, count, 28, 28))
        files[f"{part}-images-idx3-ubyte"] = head + _bytes(pixels)
        head = b"".join(number.to_bytes(4, "big") for number in (0x801, count))
        files[f"{part}-labels-idx1-ubyte"] = head + _bytes((torch.arange(count) % 10).to(torch.uint8))
    return files


def _bytes(tensor: Tensor) -> bytes:
    return bytes(tensor.flatten().tolist())


def packed(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(content, mtime=0) for name, content in files.items()}


def collection_of(files: dict[str, bytes], *mirrors: str) -> Collection:
    """What the package has to know of such files, with times that a test can wait for."""
    sent = packed(files)
    about = [
        RawFile(
            name,
            len(files[name]),
            hashlib.sha256(files[name]).hexdigest(),
            len(sent[f"{name}.gz"]),
            hashlib.md5(sent[f"{name}.gz"]).hexdigest(),
        )
        for name in NAMES
    ]
    return Collection((about[0], about[1], about[2], about[3]), mirrors, answer_seconds=0.5, silence_seconds=2.0)


def write_folder(files: dict[str, bytes], root: Path) -> Path:
    """As torchvision stores them; returns the root."""
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, content in files.items():
        (raw / name).write_bytes(content)
    return root


@contextlib.contextmanager
def mirror(files: dict[str, bytes], manner: Manner = "good") -> Iterator[tuple[str, Counter[str]]]:
    """The address of a server, and how often which file was asked for."""
    asked: Counter[str] = Counter()
    enough = threading.Event()
    sent = packed(files)

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if manner == "silent":
                enough.wait()
            else:
                self._head()

        def do_GET(self) -> None:
            name = self.path.strip("/")
            if (
                self.headers.get("Method") == "HEAD"
            ):  # torchvision looks so whether it is sent elsewhere, and reads nothing
                self._head()
                return
            asked[name] += 1
            if manner.startswith("silent"):
                enough.wait()
                return
            content = self._head()
            is_cut = manner == "cuts off the first" and asked[name] == 1
            self.wfile.write(content[: len(content) // 2] if is_cut else content)

        def _head(self) -> bytes:
            content = b"<html>Please log in</html>" if manner == "a login page" else sent[self.path.strip("/")]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            return content

        def log_message(self, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Who hangs up is no fault of the server."""

    server = Quiet(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", asked
    finally:
        enough.set()
        server.shutdown()
        server.server_close()


def keep_to_few_digits_and_no_mirror(
    cache: Path, temporary: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache of its own, few digits, and no mirror: no test reaches out."""
    monkeypatch.setenv("DDP_LESSONS_CACHE", os.fspath(cache))
    monkeypatch.delenv("DDP_LESSONS_MNIST", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(storage, "_temporary_folder", lambda: temporary)
    monkeypatch.setattr(mnist, "MNIST", collection_of(files))
    monkeypatch.setattr(digits, "MADE", {True: 1000, False: 500})
    digits._choose.cache_clear()
