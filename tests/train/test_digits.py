"""Digits are MNIST's bit for bit, from wherever they are unpacked; nothing half or foreign is ever trained on."""

from __future__ import annotations

import copy
import gzip
import hashlib
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from torch import Tensor

from ddp_lessons import launch
from ddp_lessons.own_files import DATA
from ddp_lessons.train import mnist
from ddp_lessons.train.digits import COUNT, Digits, digits
from ddp_lessons.train.mnist import NotMnist, mnist_folder

NAMES = list(mnist.SUMS)


def bytes_of(tensor: Tensor) -> bytes:
    return bytes(tensor.flatten().tolist())


def small_set(train: int = 60, test: int = 20) -> dict[str, bytes]:
    """Files like MNIST's four, by their names. Their first labels are 0, 1, 2, ..., and the same again."""
    generator = torch.Generator().manual_seed(5)
    files = {}
    for part, count in (("train", train), ("t10k", test)):
        pixels = torch.randint(256, (count, 28, 28), generator=generator, dtype=torch.uint8)
        head = b"".join(number.to_bytes(4, "big") for number in (0x803, count, 28, 28))
        files[f"{part}-images-idx3-ubyte"] = head + bytes_of(pixels)
        head = b"".join(number.to_bytes(4, "big") for number in (0x801, count))
        files[f"{part}-labels-idx1-ubyte"] = head + bytes_of((torch.arange(count) % 10).to(torch.uint8))
    return files


FILES = small_set()


def write_folder(files: dict[str, bytes], root: Path) -> Path:
    (root / mnist.RAW).mkdir(parents=True)
    for name, content in files.items():
        (root / mnist.RAW / name).write_bytes(content)
    return root


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The course's folder, with few digits, packed; and a cache of this test's own."""
    monkeypatch.delenv("DDP_LESSONS_MNIST", raising=False)
    sums = {name: hashlib.md5(content).hexdigest() for name, content in FILES.items()}
    packed = {f"{name}.gz": gzip.compress(content) for name, content in FILES.items()}
    folder = write_folder(packed, tmp_path / "course" / "data")
    monkeypatch.setattr(mnist, "SUMS", sums)
    monkeypatch.setattr(mnist, "DATA", folder)
    monkeypatch.setattr(mnist, "_places", lambda: iter([folder, tmp_path / "cache"]))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(FILES, tmp_path / "given")


@pytest.mark.parametrize("train", [True, False])
def test_the_course_brings_mnist_and_torchvision_reads_it(
    train: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The real one, unpacked into a copy."""
    from torchvision.datasets import MNIST

    monkeypatch.undo()
    monkeypatch.delenv("DDP_LESSONS_MNIST", raising=False)
    monkeypatch.setattr(mnist, "DATA", tmp_path)
    (tmp_path / mnist.RAW).mkdir(parents=True)
    for name in NAMES:
        shutil.copyfile(DATA / mnist.RAW / f"{name}.gz", tmp_path / mnist.RAW / f"{name}.gz")
    there = MNIST(mnist_folder(), train=train, download=False)
    assert len(there) == COUNT[train]
    assert there.targets.bincount().min() > 0.08 * len(there)
    assert there.data.float().mean() / 255 == pytest.approx(0.1307, abs=0.002)


def test_it_is_unpacked_once_over_what_a_killed_process_left_or_changed(data: Path) -> None:
    (data / mnist.RAW / f"{NAMES[0]}.part").write_bytes(b"half")
    assert mnist_folder() == os.fspath(data)
    before = {path: path.stat().st_mtime_ns for path in (data / mnist.RAW).iterdir()}
    assert {name: (data / mnist.RAW / name).read_bytes() for name in NAMES} == FILES
    assert mnist_folder() == os.fspath(data)
    assert {path: path.stat().st_mtime_ns for path in (data / mnist.RAW).iterdir()} == before
    assert not list((data / mnist.RAW).glob("*.part"))
    (data / mnist.RAW / NAMES[3]).write_bytes(FILES[NAMES[3]][:-1] + b"?")
    mnist_folder()
    assert (data / mnist.RAW / NAMES[3]).read_bytes() == FILES[NAMES[3]]


def test_ranks_that_come_at_once_all_find_it_whole(data: Path) -> None:
    def unpack(rank: int, world_size: int, sums: dict[str, str]) -> tuple[list[bytes], float]:
        mnist.DATA, mnist.SUMS, mnist._places = data, sums, lambda: iter([data])  # here, nothing has been patched
        raw = Path(mnist_folder()) / mnist.RAW
        return [(raw / name).read_bytes() for name in NAMES], float(digits().images.double().sum())

    found = list(launch(unpack, 4, mnist.SUMS))
    assert found == [([FILES[name] for name in NAMES], float(digits().images.double().sum()))] * 4


def test_a_variable_names_the_folder_and_the_argument_comes_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDP_LESSONS_MNIST", os.fspath(folder / "MNIST" / "raw"))
    assert mnist_folder() == os.fspath(folder)
    with pytest.raises(NotMnist, match="there is no folder") as refused:
        mnist_folder(folder / "typo")  # not taken for the folder above
    assert "DDP_LESSONS_MNIST" not in str(refused.value)
    monkeypatch.setenv("DDP_LESSONS_MNIST", os.fspath(tmp_path / "elsewhere"))
    with pytest.raises(NotMnist, match=r"(?s)there is no folder.*The variable DDP_LESSONS_MNIST names this folder"):
        mnist_folder()
    assert mnist_folder(folder) == os.fspath(folder)


@pytest.mark.parametrize("name", NAMES[::3])
def test_a_changed_byte_a_cut_and_a_missing_file_are_named(name: str, folder: Path) -> None:
    assert len(digits(folder=folder)) == 60
    file, good = folder / mnist.RAW / name, FILES[name]
    for damaged in (good[:-1] + bytes([good[-1] ^ 1]), good[:-5]):
        file.write_bytes(damaged)
        with pytest.raises(NotMnist, match=f"{name} is damaged, or belongs to another data set"):
            digits(folder=folder)
    file.unlink()
    with pytest.raises(NotMnist, match=f"{name} is missing"):
        digits(folder=folder)
    file.write_bytes(good)
    assert len(digits(folder=folder)) == 60


def test_a_copy_that_came_without_mnist_says_how_to_get_it(data: Path) -> None:
    shutil.rmtree(data / "MNIST")
    with pytest.raises(NotMnist, match="MNIST is missing in this copy of the course") as refused:
        mnist_folder()
    line = next(line for line in str(refused.value).splitlines() if line.startswith("Download it once"))
    assert shlex.split(line.partition("connection: ")[2]) == [
        sys.executable,
        "-c",
        f"from torchvision.datasets import MNIST; MNIST('{data}', download=True)",
    ]
    write_folder(FILES, data)  # as that leaves them
    assert mnist_folder() == os.fspath(data)


@pytest.mark.parametrize("damage", [lambda good: good[:-9], lambda good: gzip.compress(b"else")])
def test_a_packed_file_that_is_damaged_is_named_and_leaves_nothing(data: Path, damage: Any) -> None:
    packed = data / mnist.RAW / f"{NAMES[0]}.gz"
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(NotMnist, match=rf"{re.escape(os.fspath(packed))}.* restore it with git checkout -- data"):
        mnist_folder()
    assert not [path for path in data.rglob("*-ubyte*") if path.suffix in ("", ".part") and path.is_file()]


def test_where_the_course_cannot_be_written_to_it_is_unpacked_into_the_users_cache(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = mnist.made_once
    in_the_course = [os.fspath(data)]

    def read_only(file: Path, *how: Any) -> Path:
        if os.fspath(file).startswith(in_the_course[0]):
            raise OSError(30, "Read-only file system")
        return real(file, *how)

    monkeypatch.setattr(mnist, "made_once", read_only)
    assert mnist_folder() == os.fspath(tmp_path / "cache")
    in_the_course[0] = os.fspath(tmp_path)
    with pytest.raises(OSError, match=r"(?s)cannot be unpacked.*Read-only.*Read-only.*DDP_LESSONS_MNIST to a folder"):
        mnist_folder()


@pytest.mark.parametrize("train", [True, False])
def test_they_are_what_torchvision_converts_and_normalizes(train: bool) -> None:
    from torchvision import transforms
    from torchvision.datasets import MNIST

    steps = [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    reference = MNIST(mnist_folder(), train=train, transform=transforms.Compose(steps))
    ours = digits(train)
    assert len(ours) == len(reference) == (60 if train else 20)
    for index, (image, label) in enumerate(reference):
        assert torch.equal(ours[index][0], image)
        assert ours[index][1] == label == int(ours.labels[index])


def test_fewer_samples_are_the_first_ones() -> None:
    fewer, whole = digits(samples=10), digits()
    assert len(fewer) == 10
    assert torch.equal(fewer.images, whole.images[:10])
    assert torch.equal(fewer.labels, whole.first(10).labels)


@pytest.mark.parametrize(
    ("samples", "error", "sentence"),
    [
        (0, ValueError, "samples must be at least 1, not 0"),
        (60_001, ValueError, "samples=60,001, but there are only 60,000 digits"),
        (61, ValueError, "samples=61, but there are only 60 digits"),
        (2.0, TypeError, "samples must be an integer, not a float"),
        (True, TypeError, "samples must be an integer, not a bool"),
    ],
)
def test_a_number_of_samples_that_cannot_be_is_refused(samples: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        digits(samples=samples)


def test_four_ranks_hold_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real ones: 188 MB, of which four ranks that read all of it have one copy."""

    def touch(rank: int, world_size: int, data: Digits) -> tuple[float, float]:
        total = float(data.images.sum())
        dist.barrier()  # all have it now
        lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines[1:]}
        dist.barrier()
        return total, kilobytes["Private_Clean"] / 1e3 + kilobytes["Private_Dirty"] / 1e3

    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("this system does not tell which memory is shared")
    monkeypatch.undo()
    data = digits()
    answers = launch(touch, 4, data)
    assert len({total for total, _ in answers}) == 1
    assert data.images.nbytes > 180e6
    assert max(own for _, own in answers) < 120


def test_digits_travel_as_a_name_and_stay_what_they_are() -> None:
    own = Digits(torch.ones(3, 1, 28, 28), torch.arange(3)).first(2)  # these travel by value
    for data, most_bytes in ((digits(), 1000), (digits(samples=7), 1000), (own, 20_000)):
        message = pickle.dumps(data)
        assert len(message) < most_bytes
        for other in (pickle.loads(message), copy.deepcopy(data)):
            assert len(other) == len(data)
            assert torch.equal(other.images, data.images)
            assert torch.equal(other.labels, data.labels)


def test_what_a_rank_writes_into_them_nobody_else_sees() -> None:
    def spoil(rank: int, world_size: int, data: Digits) -> float:
        data.images.fill_(rank)
        dist.barrier()
        return float(data.images.sum())

    data = digits()
    before = data.images.clone()
    assert list(launch(spoil, 2, data)) == [0.0, 60 * 28 * 28]
    assert torch.equal(data.images, before)
    assert torch.equal(digits().images, before)


def test_where_they_cannot_be_kept_each_process_has_its_own(data: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    for place in (data, tmp_path / "cache"):  # also for root: what is to be made in it has the name of a file
        (place / "preprocessed").write_text("")
    assert len(digits()) == 60
    assert len(pickle.dumps(digits())) > 60 * 28 * 28


@nightly
def test_to_import_them_is_light() -> None:
    heavy = {"torchvision", "PIL", "matplotlib", "filelock", "platformdirs"}
    code = f"import sys, ddp_lessons.train.digits; print({heavy!r} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
