"""Digits are MNIST's bit for bit, or are made on the spot and say so; nothing half or foreign is ever trained on."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from mirror import NAMES, Manner, collection_of, keep_to_few_digits_and_no_mirror, mirror, small_set, write_folder

from ddp_lessons import launch
from ddp_lessons.train import digits as module, mnist, progress, storage
from ddp_lessons.train.digits import Digits, NotMnist, digits

FILES = small_set()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, few digits, and no mirror: no test reaches out."""
    keep_to_few_digits_and_no_mirror(tmp_path / "cache", tmp_path / "temporary", FILES, monkeypatch)
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(FILES, tmp_path / "given")


@pytest.mark.parametrize("train", [True, False])
def test_they_are_what_torchvision_reads_and_normalises(train: bool, folder: Path) -> None:
    from torchvision import transforms
    from torchvision.datasets import MNIST

    steps = [transforms.ToTensor(), transforms.Normalize((0.1307,), (0.3081,))]
    reference = MNIST(folder, train=train, transform=transforms.Compose(steps))
    ours = digits(train, folder=folder)
    assert (ours.name, ours.is_real, len(ours)) == ("MNIST", True, len(reference))
    for index, (image, label) in enumerate(reference):
        assert torch.equal(ours[index][0], image)
        assert ours[index][1] == label == int(ours.labels[index])


def test_a_dataloader_takes_them(folder: Path) -> None:
    data = digits(folder=folder)
    images, labels = next(iter(torch.utils.data.DataLoader(data, batch_size=7)))
    assert torch.equal(images, data.images[:7])
    assert labels.tolist() == data.labels[:7].tolist()


@pytest.mark.parametrize("inside", [".", "MNIST", "MNIST/raw"])
def test_the_root_and_the_folders_in_it_are_accepted(inside: str, folder: Path) -> None:
    assert len(digits(folder=folder / inside)) == 60


def test_a_variable_names_the_folder_and_the_argument_comes_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDP_LESSONS_MNIST", os.fspath(folder))
    assert digits().name == "MNIST"
    with pytest.raises(NotMnist, match="no folder"):
        digits(folder=tmp_path / "elsewhere")
    monkeypatch.setenv("DDP_LESSONS_MNIST", "made")
    assert digits().name == "digits made on the spot"
    assert digits(folder=folder).name == "MNIST"


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_byte_a_cut_and_a_missing_file_are_named_even_if_mnist_is_in_the_cache(
    name: str, folder: Path
) -> None:
    assert digits(folder=folder).is_real
    file, good = folder / "MNIST" / "raw" / name, FILES[name]
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(NotMnist, match=f"{name} has the right size, but other content"):
        digits(folder=folder)
    file.write_bytes(good[:-5])
    with pytest.raises(NotMnist, match=f"{name} has {len(good) - 5:,} bytes and should have {len(good):,}"):
        digits(folder=folder)
    file.unlink()
    with pytest.raises(NotMnist, match=f"{name} is missing"):
        digits(folder=folder)
    file.write_bytes(good)
    assert digits(folder=folder).is_real


def test_another_set_in_the_same_layout_is_refused(tmp_path: Path) -> None:
    foreign = {name: content[:16] + content[:15:-1] for name, content in FILES.items()}
    with pytest.raises(NotMnist, match="another data set") as refused:
        digits(folder=write_folder(foreign, tmp_path / "fashion"))
    assert all(name in str(refused.value) for name in NAMES)


def test_packed_files_only_are_told_apart_from_none(tmp_path: Path) -> None:
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    (tmp_path / "MNIST" / "raw" / f"{NAMES[0]}.gz").write_bytes(b"")
    with pytest.raises(NotMnist, match="gunzip"):
        digits(folder=tmp_path)


def test_files_are_summed_once_and_again_only_when_they_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits(folder=folder)
    opened: list[str] = []
    real_open = open

    def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(os.path.basename(os.fspath(file)))
        return real_open(file, *args, **kwargs)

    monkeypatch.setattr("builtins.open", watched)
    digits(folder=folder)
    assert not set(NAMES) & set(opened)
    os.utime(folder / "MNIST" / "raw" / NAMES[0], (1, 1))
    digits(folder=folder)
    assert set(NAMES) & set(opened) == {NAMES[0]}


@pytest.mark.parametrize("samples", [1, 10, 60])
def test_fewer_samples_are_the_first_ones(samples: int, folder: Path) -> None:
    fewer, whole = digits(samples=samples, folder=folder), digits(folder=folder)
    assert len(fewer) == samples
    assert torch.equal(fewer.images, whole.images[:samples])
    assert torch.equal(fewer.labels, whole.first(samples).labels)


@pytest.mark.parametrize("samples", [0, -3, 61, 60_001])
def test_a_number_of_samples_that_cannot_be_is_a_value_error(samples: int, folder: Path) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{samples:,}")):
        digits(samples=samples, folder=folder)


@pytest.mark.parametrize("samples", [2.0, "3", True, [1]])
def test_samples_that_are_no_whole_number_are_a_type_error(samples: Any, folder: Path) -> None:
    with pytest.raises(TypeError, match="samples must be a whole number"):
        digits(samples=samples, folder=folder)


def test_without_a_network_they_are_made_at_once_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with mirror(FILES, "silent") as (address, _):
        monkeypatch.setattr(mnist, "MNIST", collection_of(FILES, address))
        start = time.monotonic()
        data, test = digits(), digits(train=False)
    assert time.monotonic() - start < 8
    assert (data.name, data.is_real, len(data), len(test)) == ("digits made on the spot", False, 1000, 500)


def test_that_no_mirror_answered_is_remembered_for_a_while(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not digits().is_real
    module._choose.cache_clear()  # as in another process
    with mirror(FILES) as (address, asked):
        monkeypatch.setattr(mnist, "MNIST", collection_of(FILES, address))
        assert not digits().is_real
        assert not asked
        module._choose.cache_clear()
        long_ago = time.time() - module.SECONDS_WITHOUT_DOWNLOAD - 1
        os.utime(cache / module.NO_DOWNLOAD, (long_ago, long_ago))
        assert digits().is_real


def test_a_process_keeps_to_the_kind_that_it_has_got(folder: Path) -> None:
    assert not digits().is_real
    digits(folder=folder)  # now MNIST is in the cache
    assert not digits(train=False).is_real


@pytest.mark.parametrize(("manner", "times"), [("good", 1), ("cuts off the first", 2)])
def test_a_download_is_mnist_also_where_it_was_cut_off(
    manner: Manner, times: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with mirror(FILES, manner) as (address, asked):
        monkeypatch.setattr(mnist, "MNIST", collection_of(FILES, address))
        data, test = digits(), digits(train=False)
    assert (data.name, len(data), len(test)) == ("MNIST", 60, 20)
    assert data.labels[:3].tolist() == [0, 1, 2]
    assert set(asked.values()) == {times}
    assert capfd.readouterr() == ("", "")  # what a cell prints is the same, wherever its digits come from


@pytest.mark.parametrize("manner", ["a login page", "silent when it is to send"])
def test_a_mirror_that_sends_something_else_or_nothing_ends_in_made_digits(
    manner: Manner, cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with mirror(FILES, manner) as (address, _):
        monkeypatch.setattr(mnist, "MNIST", collection_of(FILES, address))
        assert not digits().is_real
    assert not list(cache.rglob("*-ubyte"))
    assert capfd.readouterr() == ("", "")


A_NOTEBOOK = """
import sys
from pathlib import Path
from mirror import collection_of, small_set
from ddp_lessons.train import digits, mnist
mnist.MNIST = collection_of(small_set(), sys.argv[1])
print(digits.digits().name, len(digits.digits(train=False)))
"""


def test_two_notebooks_at_once_download_once(cache: Path) -> None:
    paths = [os.fspath(Path(__file__).parents[1]), os.fspath(Path(__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with mirror(FILES) as (address, asked):
        command = [sys.executable, "-c", A_NOTEBOOK, address]
        both = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [process.communicate(timeout=120)[0] for process in both] == ["MNIST 20\n"] * 2
    assert set(asked.values()) == {1}


def test_an_own_cache_that_was_damaged_is_written_again(folder: Path, cache: Path) -> None:
    whole = digits(folder=folder)
    (file,) = cache.glob("mnist-train-*.digits")
    content = file.read_bytes()
    for damaged in (content[:-8], content[:1000] + b"?" + content[1001:]):
        file.unlink()  # not over it: the file is mapped
        file.write_bytes(damaged)
        again = digits(folder=folder)
        assert torch.equal(again.images, whole.images)
        assert file.read_bytes() == content


def test_a_write_that_was_cut_off_leaves_nothing_that_is_found(cache: Path) -> None:
    def broken() -> Any:
        yield b"a piece"
        raise OSError(28, "No space left on device")

    with pytest.raises(storage.NoPlace, match=r"(?s)No space left on device.*DDP_LESSONS_CACHE.*2 MB"):
        storage.keep("digits", broken, 2_000_000)
    assert storage.find("digits") is None
    assert not [path for path in cache.rglob("*") if path.name != "lock" and path.is_file()]


def test_where_the_disk_takes_no_more_the_error_says_what_to_do(cache: Path, folder: Path) -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(storage.NoPlace, match="Set the variable DDP_LESSONS_CACHE"):
            digits(folder=folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(cache.glob("*.part"))
    assert digits(folder=folder).is_real


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("DDP_LESSONS_CACHE", os.fspath(tmp_path / "a file" / "cache"))
    assert digits(folder=folder).is_real
    assert list((tmp_path / "temporary").glob("mnist-train-*.digits"))


def test_what_a_killed_process_left_behind_is_cleared_away(cache: Path, folder: Path) -> None:
    cache.mkdir()
    old, new = cache / "old.part", cache / "new.part"
    old.write_text("")
    new.write_text("")
    os.utime(old, (1, 1))
    digits(folder=folder)
    assert (old.exists(), new.exists()) == (False, True)


def test_four_ranks_at_once_make_the_same_digits() -> None:
    def sums(rank: int, world_size: int) -> float:
        from ddp_lessons.train import digits

        digits.MADE[True] = 1000
        return float(digits.digits(download=False).images.double().sum())

    (answer,) = set(launch(sums, 4))
    assert answer == float(digits(download=False).images.double().sum())


def test_digits_travel_as_a_name_and_stay_what_they_are(folder: Path) -> None:
    for data in (digits(folder=folder), digits(folder=folder, samples=7)):
        message = pickle.dumps(data)
        assert len(message) < 1000
        for other in (pickle.loads(message), copy.deepcopy(data)):
            assert (other.name, len(other)) == (data.name, len(data))
            assert torch.equal(other.images, data.images)
            assert torch.equal(other.labels, data.labels)


def test_digits_of_ones_own_travel_by_value() -> None:
    data = pickle.loads(pickle.dumps(Digits(torch.ones(3, 1, 28, 28), torch.arange(3), "three of mine").first(2)))
    assert (data.name, data.is_real, data.labels.tolist()) == ("three of mine", False, [0, 1])


def test_what_a_rank_writes_into_them_nobody_else_sees(folder: Path) -> None:
    def spoil(rank: int, world_size: int, data: Digits) -> float:
        data.images.fill_(rank)
        dist.barrier()
        return float(data.images.sum())

    data = digits(folder=folder)
    before = data.images.clone()
    assert list(launch(spoil, 2, data)) == [0.0, 60 * 28 * 28]
    assert torch.equal(data.images, before)
    assert torch.equal(digits(folder=folder).images, before)


def test_a_file_that_is_gone_or_shorter_when_digits_arrive_is_named(folder: Path, cache: Path) -> None:
    message = pickle.dumps(digits(folder=folder))
    (file,) = cache.glob("mnist-train-*.digits")
    content = file.read_bytes()
    file.unlink()
    with pytest.raises(FileNotFoundError, match=rf"(?s){re.escape(os.fspath(file))}.*Call digits\(\) again"):
        pickle.loads(message)
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="has been changed"):
        pickle.loads(message)


def test_names_of_temporary_folders_are_not_taken_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    taken = storage._temporary_folder.__wrapped__()
    assert storage._temporary_folder.__wrapped__() == taken
    taken.chmod(0o777)
    assert storage._temporary_folder.__wrapped__() != taken


def test_who_waits_for_the_lock_goes_on_when_it_is_free(folder: Path) -> None:
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.append(digits(folder=folder).name))
    with storage.one_at_a_time():
        waiting.start()
        waiting.join(0.5)
        assert not got
    waiting.join(20)
    assert got == ["MNIST"]


def test_to_import_them_is_light() -> None:
    heavy = {"torchvision", "PIL", "matplotlib", "filelock"}
    code = f"import sys, ddp_lessons.train.digits; print({heavy!r} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_mirrors_and_sums_are_torchvisions_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import MNIST

    monkeypatch.undo()
    assert list(mnist.MNIST.mirrors) == MNIST.mirrors
    assert [(f"{file.name}.gz", file.packed_md5) for file in mnist.MNIST.files] == MNIST.resources


def test_a_notebook_shows_progress_as_a_picture_and_never_as_text(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    published: list[tuple[set[str], bool]] = []

    class Publisher:
        def publish(self, data: dict[str, str], metadata: object, transient: object, update: bool) -> None:
            published.append((set(data), update))

    shell = SimpleNamespace(kernel=None, display_pub=Publisher())
    monkeypatch.setitem(sys.modules, "IPython", cast(ModuleType, SimpleNamespace(get_ipython=lambda: shell)))
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0)
    with progress.Progress("Making") as shown:
        shown.at(1, 2)
    assert published == [({"image/png"}, False), ({"image/png"}, True)]
    assert capfd.readouterr() == ("", "")
