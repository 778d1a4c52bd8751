"""MNIST's four files: what they must be, bit for bit, and where torchvision keeps them.

Other data sets have files of the same names and sizes, and a download may break off or lose a byte. Each file is known
by its sum, and none with another sum is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ddp_lessons.train.storage import sum_of

SIDE = 28
_HEAD_OF_IMAGES, _HEAD_OF_LABELS = 16, 8


class NotMnist(Exception):
    """The files that were asked for are not there, or are not MNIST's; the message names each."""


@dataclass(frozen=True)
class RawFile:
    """A file, and the packed one that the mirrors have."""

    name: str
    size: int
    sha256: str
    packed_size: int
    packed_md5: str


@dataclass(frozen=True)
class Collection:
    """Training images, training labels, test images, test labels; where they are to be had, and how long to wait."""

    files: tuple[RawFile, RawFile, RawFile, RawFile]
    mirrors: tuple[str, ...]
    answer_seconds: float = 3.0  # until a mirror says a first word
    silence_seconds: float = 12.0  # in a download


# The mirrors and the sums of the packed files are torchvision's own.
MNIST = Collection(
    files=(
        RawFile(
            "train-images-idx3-ubyte",
            47_040_016,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            9_912_422,
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        ),
        RawFile(
            "train-labels-idx1-ubyte",
            60_008,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            28_881,
            "d53e105ee54ea40749a09fcbcd1e9432",
        ),
        RawFile(
            "t10k-images-idx3-ubyte",
            7_840_016,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            1_648_877,
            "9fb629c4189551a2d022fa330f9573f3",
        ),
        RawFile(
            "t10k-labels-idx1-ubyte",
            10_008,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            4_542,
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
    ),
    mirrors=("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"),
)


def raw_folder(folder: Path, collection: Collection) -> Path:
    """The folder with the four files: `folder` may be torchvision's root, its MNIST, or that one's raw folder."""
    for raw in (folder / "MNIST" / "raw", folder / "raw", folder):
        if any((raw / file.name).is_file() for file in collection.files):
            return raw
    if not folder.is_dir():
        raise NotMnist(f"there is no folder {folder}")
    packed = next((path for path in folder.rglob("*-ubyte.gz")), None)
    hint = f" Only packed files were found, in {packed.parent}: unpack them, with gunzip." if packed else ""
    raise NotMnist(
        f"no file of MNIST is in {folder}: it must hold MNIST/raw/{collection.files[0].name} and three more, "
        f"as torchvision.datasets.MNIST stores them.{hint}"
    )


def verify(raw: Path, collection: Collection) -> None:
    """Raise NotMnist, which names every file that is not what it must be."""
    found = [f"  {file.name} {fault}" for file in collection.files if (fault := fault_of(raw / file.name, file))]
    if found:
        raise NotMnist("\n".join([f"these files in {raw} are not MNIST's, and nothing is trained on them:", *found]))


def fault_of(path: Path, file: RawFile) -> str:
    """What is wrong with a file, or nothing."""
    try:
        size = path.stat().st_size
        if size != file.size:
            return f"has {size:,} bytes and should have {file.size:,}"
        if sum_of(path) != file.sha256:
            return "has the right size, but other content: it is damaged, or of another data set (as FashionMNIST)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return ""


def read(raw: Path, collection: Collection, train: bool) -> tuple[Tensor, Tensor]:
    """The images [n, 28, 28] and labels [n] of files that were verified, both uint8."""
    images, labels = collection.files[:2] if train else collection.files[2:]
    pixels = torch.frombuffer(bytearray((raw / images.name).read_bytes()), dtype=torch.uint8, offset=_HEAD_OF_IMAGES)
    classes = torch.frombuffer(bytearray((raw / labels.name).read_bytes()), dtype=torch.uint8, offset=_HEAD_OF_LABELS)
    return pixels.view(-1, SIDE, SIDE), classes
