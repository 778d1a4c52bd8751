"""`make offline` asks pip, fetches what is not there, and says what it did; pip is real, its index a folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from nights import nightly
from small_wheels import PYTHON, TORCH, TORCHVISION, pack, write_index

from ddp_lessons.train.mnist import SUMS
from offline.systems import PYTHONS, SYSTEMS

LINUX = f"linux {PYTHON}"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_index(tmp_path_factory.mktemp("index") / "of wheels")


def names(folder: Path, chosen: str) -> set[str]:
    sets = json.loads((folder / "contents.json").read_text(encoding="utf-8"))["sets"]
    return {wheel.partition("-")[0] for wheel in sets[chosen]}


@nightly
def test_each_system_and_python_gets_what_it_asks_for_and_nothing_else(index: Path, tmp_path: Path) -> None:
    options = ["--for", "linux", "--python", PYTHON]
    linux = pack(index, tmp_path / "given", *options, "--tar", "yes")
    assert linux.returncode == 0, linux.stderr
    assert "to download: " in linux.stdout
    assert "Linux x86_64" in linux.stdout
    assert (tmp_path / "given.tar").is_file()
    assert {"torch", "pip", "only_on_linux"} <= names(tmp_path / "given", LINUX)
    assert not {"only_on_macos", "backport"} & names(tmp_path / "given", LINUX)
    macos = pack(index, tmp_path / "given", "--for", "macos", "--python", "3.10")
    assert macos.returncode == 0, macos.stderr
    assert {"only_on_macos", "backport"} <= names(tmp_path / "given", "macos 3.10")
    assert not list((tmp_path / "given").glob("wheels/*manylinux*"))


@nightly
def test_the_sums_are_those_that_sha256sum_makes(index: Path, tmp_path: Path) -> None:
    assert pack(index, tmp_path / "given", "--for", "linux").returncode == 0
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=tmp_path / "given", check=True)
    listed = {line.split("  ")[1] for line in (tmp_path / "given" / "SHA256SUMS").read_text().splitlines()}
    there = {
        path.relative_to(tmp_path / "given").as_posix() for path in (tmp_path / "given").rglob("*") if path.is_file()
    }
    assert there - listed == {"SHA256SUMS"}


@nightly
def test_started_again_it_fetches_only_what_is_missing_or_damaged(index: Path, tmp_path: Path) -> None:
    options = ["--for", "linux"]
    assert pack(index, tmp_path / "given", *options).returncode == 0
    (torch,) = (tmp_path / "given" / "wheels").glob("torch-*")
    torch.write_bytes(b"half of it")
    again = pack(index, tmp_path / "given", *options)
    assert again.returncode == 0, again.stderr
    assert f"\n  {torch.name}, " in again.stdout
    assert "matplotlib" not in again.stdout.partition("to download")[2]
    third = pack(index, tmp_path / "given", *options)
    assert "to download: nothing" in third.stdout
    assert f"\n  {torch.name}, " not in third.stdout


@nightly
def test_what_cannot_be_packed_is_said_in_a_sentence(index: Path, tmp_path: Path) -> None:
    assert "No system amiga is known here. There are: linux," in pack(index, tmp_path / "a", "--for", "amiga").stderr
    assert "No Python 2.7 is known here. There are: 3.10," in pack(index, tmp_path / "a", "--python", "2.7").stderr
    both = pack(index, tmp_path / "a", "--torch", "cpu", "--without", "torch")
    assert "WITHOUT=torch packs none. Use only one of them." in both.stderr
    refused = pack(index, tmp_path / "a", "--for", "linux-arm")
    assert "pip failed for Linux aarch64" in refused.stderr
    assert "No matching distribution found for torch" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.returncode == 1


@nightly
def test_small_torch_comes_from_where_uv_says_and_is_refused_where_that_is_silent(index: Path, tmp_path: Path) -> None:
    """uv is a script that answers as uv does; whether the server has what is needed, only the server can say."""
    uv = tmp_path / "tools" / "uv"
    uv.parent.mkdir()
    uv.write_text("#!/bin/sh\necho 'failed to lookup address' >&2\nexit 2\n")
    uv.chmod(0o755)
    path = {"PATH": f"{uv.parent}:/usr/bin:/bin"}
    silent = pack(index, tmp_path / "given", "--for", "linux", "--torch", "cpu", **path)
    assert "comes from the PyTorch project's own server, which cannot be reached" in silent.stderr
    assert "Without TORCH=cpu you get the one of your package index." in silent.stderr
    uv.write_text(f"#!/bin/sh\necho 'torch=={TORCH}+cpu'\necho '    # from https://nowhere.invalid/cpu'\n")
    plain = pack(index, tmp_path / "given", "--for", "linux", "--torch", "cpu", **path)
    assert f"that index has no torch=={TORCH} and no torchvision=={TORCHVISION}" in plain.stderr, plain.stderr


@nightly
def test_mnist_goes_along_packed(index: Path, tmp_path: Path) -> None:
    assert pack(index, tmp_path / "given", "--for", "linux").returncode == 0
    raw = tmp_path / "given" / "project" / "data" / "MNIST" / "raw"
    found = {path.stem: hashlib.md5(gzip.decompress(path.read_bytes())).hexdigest() for path in raw.iterdir()}
    assert found == SUMS


def test_it_packs_for_the_pythons_that_the_project_supports() -> None:
    supported = (Path(__file__).parent.parent.parent / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"supported: Python {PYTHONS[0]} to {PYTHONS[-1]};" in supported
    assert list(SYSTEMS) == ["linux", "linux-arm", "macos"]
