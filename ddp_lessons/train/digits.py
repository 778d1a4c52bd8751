"""Handwritten digits in memory: MNIST where it can be had, else digits made on the spot.

The images are normalised once and kept in a file. Every process maps that file instead of reading it, so that the ranks
of a machine share one copy in memory. When digits travel to a rank, only the file's name does.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ddp_lessons.train import made_digits, mnist, storage
from ddp_lessons.train.fetching import NotFetched, fetch
from ddp_lessons.train.mnist import NotMnist as NotMnist
from ddp_lessons.train.progress import Progress

Kind = Literal["MNIST", "digits made on the spot"]

MEAN, STD = 0.1307, 0.3081  # of MNIST's pixels, as every example has them
SIDE = 28
MADE = {True: 60_000, False: 10_000}
NO_DOWNLOAD = "no-download"  # the note that a download failed, and why
SECONDS_WITHOUT_DOWNLOAD = 600.0

_PIXELS = SIDE * SIDE
_BYTES_OF_ONE = 4 * _PIXELS + 8  # pixels in float32, the label in int64
_AT_ONCE = 1000


class Digits(Dataset[tuple[Tensor, int]]):
    """Images [n, 1, 28, 28], normalised, float32, and labels [n], int64. What you write to them, only you see."""

    def __init__(self, images: Tensor, labels: Tensor, name: str, file: Path | None = None) -> None:
        self.images = images
        self.labels = labels
        self.name = name
        self._file = file

    @property
    def is_real(self) -> bool:
        return self.name == "MNIST"

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])

    def first(self, samples: int) -> Digits:
        """The first so many, with the same memory."""
        samples = _checked(samples)
        if samples > len(self):
            raise ValueError(f"samples={samples:,}, but there are only {len(self):,} digits")
        return Digits(self.images[:samples], self.labels[:samples], self.name, self._file)

    def __repr__(self) -> str:
        return f"Digits({len(self):,} images of {SIDE} x {SIDE})"  # not which: a lesson that shows it stays the same

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is None:
            return Digits, (self.images, self.labels, self.name)
        return _map, (self._file, len(self), self.name)


def digits(
    train: bool = True, samples: int | None = None, folder: str | os.PathLike[str] | None = None, download: bool = True
) -> Digits:
    """Return the 60,000 digits for training, or the 10,000 for testing, or the first `samples` of them.

    They are MNIST's: from `folder` or from the folder that the variable DDP_LESSONS_MNIST names (where torchvision has
    stored them), else from the cache, else from the network. Without a network they are made on the spot, and their
    `name` says so; with DDP_LESSONS_MNIST=made they always are. What a process has got once, it keeps to.

    Raises:
        NotMnist: the folder that was asked for does not hold MNIST, or not all of it, or something else.
        OSError: there is no room for them; the message says what to do.
    """
    if samples is not None:
        samples = _checked(samples)
        if samples > MADE[train]:
            raise ValueError(f"samples={samples:,}, but there are only {MADE[train]:,} digits")
    whole = _map(*_file_of(train, folder, download))
    return whole if samples is None else whole.first(samples)


def _checked(samples: int) -> int:
    if isinstance(samples, bool):
        raise TypeError("samples must be a whole number, and it is a bool")
    try:
        number = operator.index(samples)
    except TypeError:
        raise TypeError(f"samples must be a whole number, and it is a {type(samples).__name__}") from None
    if number < 1:
        raise ValueError(f"samples must be at least 1, and it is {number}")
    return number


def _file_of(train: bool, folder: str | os.PathLike[str] | None, download: bool) -> tuple[Path, None, str]:
    asked = os.environ.get("DDP_LESSONS_MNIST") if folder is None else os.fspath(folder)
    if folder is None and asked == "made":
        return made_file(train), None, "digits made on the spot"
    if asked:
        with named_by_the_variable() if folder is None else contextlib.nullcontext():
            return mnist_file_from(Path(asked).expanduser().absolute(), train), None, "MNIST"
    # With training digits of one kind and test digits of another one would measure nothing: it is chosen once.
    kind = _choose(tuple(storage.places()), download)
    file = mnist_file(train) if kind == "MNIST" else made_file(train)
    if file is None:
        raise NotMnist("MNIST was in the cache and no longer is: restart the kernel, or run python -m ddp_lessons data")
    return file, None, kind


@contextlib.contextmanager
def named_by_the_variable() -> Iterator[None]:
    """What is wrong with the folder, and who has asked for it: it may have been set long ago."""
    try:
        yield
    except NotMnist as error:
        raise NotMnist(
            f"{error}\nThe variable DDP_LESSONS_MNIST names this folder: correct the variable, or unset it, and the "
            "lessons look for MNIST by themselves."
        ) from None


@functools.cache
def _choose(places: tuple[Path, ...], download: bool) -> Kind:
    """The places only tell one choice from another: with another cache, one has to choose again."""
    if has_mnist():
        return "MNIST"
    if not download:
        return "digits made on the spot"
    with storage.one_at_a_time():  # of four ranks one fetches, and then it is there
        if has_mnist():
            return "MNIST"
        if storage.recall(NO_DOWNLOAD, SECONDS_WITHOUT_DOWNLOAD) is not None:
            return "digits made on the spot"
        try:
            fetch_mnist()
        except (NotFetched, OSError) as error:
            storage.remember(NO_DOWNLOAD, str(error))
            return "digits made on the spot"
    return "MNIST"


def fetch_mnist() -> None:
    """Fetch MNIST into the cache, unless it is there."""
    if not has_mnist():
        storage.in_a_place(lambda place: fetch(place / "MNIST" / "raw", mnist.MNIST), bytes=300_000_000)
    storage.forget(NO_DOWNLOAD)


def has_mnist() -> bool:
    """Is MNIST in the cache, whole?"""
    return _raw_in_cache() is not None or all(storage.find(_name_of_mnist(train)) for train in (True, False))


def mnist_file(train: bool) -> Path | None:
    """The file of normalised digits in the cache, written now if it is not there yet; None without MNIST."""
    found = storage.find(_name_of_mnist(train))
    if found is None:
        raw = _raw_in_cache()
        found = None if raw is None else _keep_mnist(raw, train)
    return found


def mnist_file_from(folder: Path, train: bool) -> Path:
    """The file of normalised digits, from MNIST's files in a folder, which must be what they should be."""
    raw = mnist.raw_folder(folder, mnist.MNIST)
    mnist.verify(raw, mnist.MNIST)
    return storage.find(_name_of_mnist(train)) or _keep_mnist(raw, train)


def made_file(train: bool) -> Path:
    """The file of digits made on the spot, made now if it is not there yet."""
    name = f"made-{made_digits.RECIPE}-{'train' if train else 'test'}.digits"
    chunks = MADE[train] // made_digits.CHUNK

    def make() -> tuple[Tensor, Tensor]:
        made = []
        with Progress("Making digits on the spot, chunks") as progress:
            for chunk in range(chunks):
                made.append(made_digits.make_digits(chunk, train))
                progress.at(chunk + 1, chunks)
        images, labels = zip(*made, strict=True)
        return torch.cat(images), torch.cat(labels)

    return storage.find(name) or _keep(name, make)


def _raw_in_cache() -> Path | None:
    for place in storage.places():
        raw = place / "MNIST" / "raw"
        if not any(mnist.fault_of(raw / file.name, file) for file in mnist.MNIST.files):
            return raw
    return None


def _name_of_mnist(train: bool) -> str:
    images, labels = mnist.MNIST.files[:2] if train else mnist.MNIST.files[2:]
    return f"mnist-{'train' if train else 'test'}-{images.sha256[:8]}{labels.sha256[:8]}.digits"


def _keep_mnist(raw: Path, train: bool) -> Path:
    return _keep(_name_of_mnist(train), lambda: mnist.read(raw, mnist.MNIST, train))


def _keep(name: str, get: Callable[[], tuple[Tensor, Tensor]]) -> Path:
    with storage.one_at_a_time():
        found = storage.find(name)  # another process may have been faster
        if found is not None:
            return found
        with _one_thread():
            images, labels = get()
            return storage.keep(name, lambda: _normalised(images, labels), len(labels) * _BYTES_OF_ONE)


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Thousands of small steps: several threads gain little, and wait long for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _normalised(images: Tensor, labels: Tensor) -> Iterator[bytes]:
    """All images, then all labels, as they will lie in memory."""
    for some in images.split(_AT_ONCE):
        yield some.to(torch.float32).div(255).sub(MEAN).div(STD).numpy().tobytes()
    yield labels.to(torch.int64).numpy().tobytes()


def _map(file: Path, samples: int | None, name: str) -> Digits:
    """Lay the file into this process's memory, where it costs nothing that another process has already paid."""
    if not file.is_file():
        raise FileNotFoundError(f"the file with the digits is no longer there: {file}\nCall digits() again.")
    size = file.stat().st_size
    total, rest = divmod(size, _BYTES_OF_ONE)
    if rest or total < (samples or 1):
        raise ValueError(f"the file with the digits has been changed: {file}\nCall digits() again.")
    # Not shared: a page that this process writes to becomes its own, and the file stays as it is.
    memory = torch.from_file(os.fspath(file), shared=False, size=size, dtype=torch.uint8)
    images = memory[: 4 * _PIXELS * total].view(torch.float32).view(total, 1, SIDE, SIDE)
    labels = memory[4 * _PIXELS * total :].view(torch.int64)
    return Digits(images[:samples], labels[:samples], name, file)
