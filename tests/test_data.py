"""`python -m ddp_lessons data` says in plain words which digits are there, and fails when those asked for are not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mirror import collection_of, keep_to_few_digits_and_no_mirror, mirror, small_set, write_folder

from ddp_lessons.__main__ import main
from ddp_lessons.train import digits, mnist
from ddp_lessons.workshop.remedies import python_as_typed

FILES = small_set()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    keep_to_few_digits_and_no_mirror(tmp_path / "cache", tmp_path / "temporary", FILES, monkeypatch)
    return tmp_path / "cache"


def test_it_fetches_mnist_and_says_where_it_lies(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with mirror(FILES) as (address, asked):
        monkeypatch.setattr(mnist, "MNIST", collection_of(FILES, address))
        assert main(["data"]) == 0
        said = capsys.readouterr()
        assert "MNIST: the sums are right." in said.out
        assert os.fspath(cache) in said.out
        assert said.out.endswith("The lessons use: MNIST.\n")
        assert main(["data"]) == 0
        assert capsys.readouterr().out == said.out
    assert set(asked.values()) == {1}
    assert digits.digits().is_real


def test_without_a_network_it_makes_digits_and_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 1
    said = capsys.readouterr()
    assert "The lessons use: digits made on the spot. If there is a network when a lesson needs them" in said.out
    assert said.err.startswith("MNIST is not here: no mirror of MNIST answered.\n")
    assert f"type: {python_as_typed()} -m ddp_lessons data --folder FOLDER" in said.err


def test_it_tries_again_although_the_last_download_failed_a_moment_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not digits.digits().is_real
    with mirror(FILES) as (address, _):
        monkeypatch.setattr(mnist, "MNIST", collection_of(FILES, address))
        assert main(["data"]) == 0
    digits._choose.cache_clear()  # as in another process
    assert digits.digits().is_real


def test_from_a_folder_it_is_there_for_the_lessons_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_folder(FILES, tmp_path / "given")
    assert main(["data", "--folder", os.fspath(folder)]) == 0
    assert "all four files have the right sums" in capsys.readouterr().out
    assert digits.digits().is_real


def test_a_damaged_file_is_named_and_nothing_is_kept(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = {**FILES, "t10k-labels-idx1-ubyte": FILES["t10k-labels-idx1-ubyte"][:-1]}
    assert main(["data", "--folder", os.fspath(write_folder(damaged, tmp_path / "given"))]) == 1
    said = capsys.readouterr()
    assert "t10k-labels-idx1-ubyte has 27 bytes and should have 28" in said.err
    assert "Traceback" not in said.err
    assert not list(cache.glob("*.digits"))


def test_made_digits_alone_need_no_mirror(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "--made"]) == 0
    said = capsys.readouterr()
    assert "Digits made on the spot: 5 MB in" in said.out
    assert said.err == ""


def test_the_variable_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DDP_LESSONS_MNIST", "made")
    assert main(["data"]) == 0
    assert "digits made on the spot, as the variable DDP_LESSONS_MNIST says" in capsys.readouterr().out
    monkeypatch.setenv("DDP_LESSONS_MNIST", os.fspath(tmp_path / "nowhere"))
    assert main(["data"]) == 1
    said = capsys.readouterr().err
    assert "there is no folder" in said
    assert "The variable DDP_LESSONS_MNIST names this folder: correct the variable, or unset it" in said
    with pytest.raises(mnist.NotMnist, match="The variable DDP_LESSONS_MNIST names this folder"):
        digits.digits()
    with pytest.raises(mnist.NotMnist) as raised:
        digits.digits(folder=tmp_path / "nowhere")
    assert "DDP_LESSONS_MNIST" not in str(raised.value)


def test_from_a_terminal_a_folder_without_mnist_is_an_exit_status(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ddp_lessons", "data", "--folder", os.fspath(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"no file of MNIST is in {tmp_path}")
