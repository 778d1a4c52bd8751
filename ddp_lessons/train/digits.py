"""Preprocessed MNIST: all images as one tensor, with one copy in memory for all ranks on a node.

`torchvision.datasets.MNIST` converts and normalizes an image whenever you index it. Here, it is done once, and the
result is stored in a file, which every process maps into its memory instead of reading it. To send digits to a rank,
only the file's name is sent.
"""

from __future__ import annotations

import operator
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ddp_lessons.train.mnist import VARIABLE, in_a_place, made_once, mnist_folder, mnist_sum

MEAN, STD = 0.1307, 0.3081  # of MNIST's pixels, as every example has them
SIDE = 28
COUNT = {True: 60_000, False: 10_000}  # to train on, to test with


class Digits(Dataset[tuple[Tensor, int]]):
    """Normalized images [n, 1, 28, 28], float32, and labels [n], int64. Only your own process sees changes to them."""

    def __init__(self, images: Tensor, labels: Tensor, file: Path | None = None) -> None:
        self.images = images
        self.labels = labels
        self._file = file

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.images[index], int(self.labels[index])

    def first(self, samples: int) -> Digits:
        """Return the first `samples` of the digits, without copying them."""
        samples = _whole_number(samples)
        if samples > len(self):
            raise ValueError(f"samples={samples:,}, but there are only {len(self):,} digits")
        return Digits(self.images[:samples], self.labels[:samples], self._file)

    def __repr__(self) -> str:
        return f"Digits({len(self):,} images of {SIDE} x {SIDE})"

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is None:
            return Digits, (self.images, self.labels)
        return _first_of_file, (self._file, len(self))


def digits(train: bool = True, samples: int | None = None, folder: str | os.PathLike[str] | None = None) -> Digits:
    """Return MNIST's 60,000 digits for training, or the 10,000 for testing, or the first `samples` of them.

    They come from `mnist_folder(folder)`, which may raise an exception.
    """
    if samples is not None and _whole_number(samples) > COUNT[train]:
        raise ValueError(f"samples={samples:,}, but there are only {COUNT[train]:,} digits")
    if folder is not None or os.environ.get(VARIABLE):
        mnist_folder(folder)  # the folder must be MNIST, even if the images are preprocessed already
    whole = _preprocessed(train, folder)
    return whole if samples is None else whole.first(samples)


def _preprocessed(train: bool, folder: str | os.PathLike[str] | None) -> Digits:
    def write(file: Path) -> None:
        images, labels = _preprocess(train, folder)
        try:
            torch.save((images, labels), file)
        except RuntimeError as error:  # torch's word for a full disk
            raise OSError(str(error)) from None

    name = f"{'train' if train else 'test'}-{mnist_sum()}-{MEAN}-{STD}.pt"
    try:
        file = in_a_place(lambda place: _readable(made_once(place / "preprocessed" / name, write)))
    except OSError:
        return Digits(*_preprocess(train, folder))  # they can't be stored, so each process has its own copy
    return _of_file(file)


def _readable(file: Path) -> Path:
    with file.open("rb"):
        return file


def _preprocess(train: bool, folder: str | os.PathLike[str] | None) -> tuple[Tensor, Tensor]:
    """Compute what `ToTensor` and `Normalize` return, for all images at once."""
    from torchvision.datasets import MNIST

    mnist = MNIST(mnist_folder(folder), train=train)
    return mnist.data.unsqueeze(1).float().div_(255).sub_(MEAN).div_(STD), mnist.targets


def _of_file(file: Path) -> Digits:
    """Map the file into this process's memory, which other processes with the same file share."""
    try:
        # A page that this process writes to becomes its own copy; the file stays unchanged.
        images, labels = torch.load(file, mmap=True, weights_only=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"the file of preprocessed digits is missing: {file}\nCall digits() again.") from None
    except (OSError, MemoryError):
        raise
    except Exception as error:  # any error that a damaged file causes in torch
        raise ValueError(
            f"the file of preprocessed digits is damaged: {file}\nRemove it, and call digits() again."
        ) from error
    return Digits(images, labels, file)


def _first_of_file(file: Path, samples: int) -> Digits:
    return _of_file(file).first(samples)


def _whole_number(samples: int) -> int:
    if isinstance(samples, bool):
        raise TypeError("samples must be an integer, not a bool")
    try:
        number = operator.index(samples)
    except TypeError:
        raise TypeError(f"samples must be an integer, not a {type(samples).__name__}") from None
    if number < 1:
        raise ValueError(f"samples must be at least 1, not {number}")
    return number
