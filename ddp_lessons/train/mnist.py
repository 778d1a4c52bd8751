"""MNIST's folder, for `torchvision.datasets.MNIST(mnist_folder())`.

The course contains the four files compressed, in `data/`. They are unpacked once: in a clone, next to the compressed
files or, if that folder is read-only, in the user's cache; an installed package uses the cache first. Other data sets
have files with the same names and sizes, so each file is compared with MNIST's checksum before it is used.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import shlex
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from ddp_lessons.own_files import DATA as DATA, INSTALLED

RAW = Path("MNIST", "raw")  # as torchvision expects it
VARIABLE = "DDP_LESSONS_MNIST"
_LONGEST_WAIT_SECONDS = 120.0  # for a process that writes the file, or was stopped while writing
SUMS = {  # md5 of the unpacked files
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}


_RESTORE = "restore it with git checkout -- data, or install ddp-lessons again"


class NotMnist(Exception):
    """MNIST is missing or incomplete, or the folder contains another data set; the message says what to do."""


def mnist_folder(folder: str | os.PathLike[str] | None = None) -> str:
    """Return the folder to pass to `torchvision.datasets.MNIST`: `folder`, or the one that comes with the course.

    If the variable DDP_LESSONS_MNIST names a folder, it is used instead of the course's.

    Raises:
        NotMnist: the folder doesn't contain MNIST, or the course came without it.
        OSError: there is no place to unpack MNIST; the message says what to do.
    """
    if folder is not None:
        return os.fspath(_checked(Path(folder).expanduser().absolute()))
    if named := os.environ.get(VARIABLE):
        try:
            return os.fspath(_checked(Path(named).expanduser().absolute()))
        except NotMnist as error:
            remedy = (
                f"The variable {VARIABLE} names this folder. Correct it, or unset it to use the files of the course."
            )
            raise NotMnist(f"{error}\n{remedy}") from None
    return os.fspath(in_a_place(_unpacked))


def mnist_sum() -> str:
    """Return a checksum of all four files, for the names of files made from them."""
    return hashlib.md5(" ".join(SUMS.values()).encode(), usedforsecurity=False).hexdigest()[:8]


def in_a_place(make: Callable[[Path], Path]) -> Path:
    """Call `make(place)` with the first folder of the course's data and this user's cache that can be written to."""
    failures = []
    for place in _places():
        try:
            return make(place)
        except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
            failures.append(f"  {place}: {getattr(error, 'strerror', None) or error}")
    remedy = f"Free space there, or set the variable {VARIABLE} to a folder with MNIST/raw and its four files."
    raise OSError("\n".join(["MNIST cannot be unpacked into any of these folders:", *failures, remedy]))


def made_once(file: Path, write: Callable[[Path], None], is_good: Callable[[Path], bool] = Path.is_file) -> Path:
    """Let one of the processes write the file, which gets its name when it is complete."""
    from filelock import FileLock

    if not is_good(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock", timeout=_LONGEST_WAIT_SECONDS):
            if not is_good(file):
                part = file.with_name(f"{file.name}.part")  # overwrites what a killed process left
                try:
                    write(part)
                    os.replace(part, file)
                finally:
                    part.unlink(missing_ok=True)
    return file


def _places() -> Iterator[Path]:
    from platformdirs import user_cache_path

    cache = user_cache_path("ddp_lessons")
    places = [DATA, *([cache] if cache.is_absolute() else [])]  # otherwise this user has no home
    # what an installed package has unpacked next to its own files would stay behind when it is uninstalled
    yield from reversed(places) if INSTALLED in DATA.parents else places


def _unpacked(place: Path) -> Path:
    for name in SUMS:
        if not (place / RAW / name).is_file() and not (DATA / RAW / f"{name}.gz").is_file():
            code = f"from torchvision.datasets import MNIST; MNIST({str(DATA)!r}, download=True)"
            fetch = f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"
            raise NotMnist(
                f"MNIST is missing in this copy of the course: there is no {DATA / RAW / name}.gz\nDownload it "
                f"once, with a network connection: {fetch}\nOr set the variable {VARIABLE} to a folder that has it "
                f"in MNIST/raw."
            )
        made_once(place / RAW / name, functools.partial(_unpack, name), functools.partial(_is_good, name))
    return place


def _is_good(name: str, file: Path) -> bool:
    return not _fault_of(file, name)


def _unpack(name: str, file: Path) -> None:
    packed = DATA / RAW / f"{name}.gz"
    try:
        content = gzip.decompress(packed.read_bytes())
    except (EOFError, OSError, zlib.error) as error:
        raise NotMnist(f"{packed} is damaged ({error}): {_RESTORE}") from None
    file.write_bytes(content)
    if fault := _fault_of(file, name):
        raise NotMnist(f"{packed} {fault}: {_RESTORE}")


def _checked(folder: Path) -> Path:
    """Return the folder for torchvision: this one, or the one above if this is MNIST/ or its raw/ folder."""
    root = folder
    for inside in (RAW, RAW.parent):
        if folder.parts[-len(inside.parts) :] == inside.parts:
            root = folder.parents[len(inside.parts) - 1]
    if not any((root / RAW / name).is_file() for name in SUMS):
        first = next(iter(SUMS))
        found = "there is no MNIST file in" if folder.is_dir() else "there is no folder"
        raise NotMnist(f"{found} {folder}: it must have {RAW / first} and three more, as torchvision stores them")
    faults = [f"  {name} {fault}" for name in SUMS if (fault := _fault_of(root / RAW / name, name))]
    if faults:
        raise NotMnist("\n".join([f"these files in {root / RAW} are not MNIST's:", *faults]))
    return root


def _fault_of(file: Path, name: str) -> str:
    """What is wrong with a file, or an empty string."""
    try:
        about = file.stat()
        if _sum_of(file, about.st_size, about.st_mtime_ns) != SUMS[name]:
            return "is damaged, or belongs to another data set (such as FashionMNIST)"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return ""


@functools.cache
def _sum_of(file: Path, size: int, changed: int) -> str:
    """A file is read only once, unless its size or time changes."""
    return hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()
