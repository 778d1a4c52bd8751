"""The wheel and the sdist are complete: from the wheel alone, in an empty folder, the lessons are copied and run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from nights import nightly

PROJECT = Path(__file__).parent.parent
COURSE = {"notebooks": "*.*", "scripts": "**/[a-z]*.*", "data": "**/[!.]*.*", "docs": "it_hangs.md"}


def built(kind: str, source: Path, folder: Path) -> Path:
    """By the same calls as pip's and uv's, with this environment's setuptools, because there may be no network."""
    code = f"import sys; from setuptools import build_meta; build_meta.build_{kind}(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=source, check=True, capture_output=True)
    (made,) = folder.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def files_of_git(folder: str) -> set[str]:
    """Those that are there."""
    asked = ["git", "ls-files", "-z", folder]
    listed = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    return {name for name in listed.split("\0") if (PROJECT / name).is_file()}


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the files that git knows, because anything else of this folder is no part of the course."""
    source = tmp_path_factory.mktemp("source")
    for name in files_of_git("."):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, source / name)
    return built("sdist", source, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the sdist, so that the sdist has all that a wheel needs."""
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    return built("wheel", next((folder / "unpacked").iterdir()), folder)


def test_the_wheel_has_the_whole_package_and_the_course_and_is_below_25_megabytes(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for folder, pattern in COURSE.items():
            tracked = {PROJECT / name for name in files_of_git(folder)} & set((PROJECT / folder).glob(pattern))
            assert tracked
            for path in tracked:
                inside = f"ddp_lessons/course/{path.relative_to(PROJECT).as_posix()}"
                assert archive.read(inside) == path.read_bytes()
    assert files_of_git("ddp_lessons") <= names
    assert not [name for name in names if re.search(r"\.pyc$|preprocessed|Untitled|my_lessons|-ubyte$", name)]
    assert wheel.stat().st_size < 25e6


def test_from_the_wheel_alone_the_lessons_are_copied_and_the_first_one_runs(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    variables = {"PYTHONPATH": str(site), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    runs_from_the_wheel(Path(sys.executable), site, tmp_path / "empty", ["00"], variables)


@pytest.mark.time_limit(3600)
@nightly
def test_in_an_environment_of_its_own_the_first_nine_lessons_run(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    subprocess.run(["uv", "venv", "--python", sys.executable, str(environment)], check=True)
    python = environment / "bin" / "python"
    subprocess.run(["uv", "pip", "install", "--python", str(python), f"{wheel}[test]"], check=True)
    site = next(environment.glob("lib/python3*/site-packages"))
    variables = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    runs_from_the_wheel(python, site, tmp_path / "empty", [f"{number:02}" for number in range(9)], variables)


def runs_from_the_wheel(python: Path, site: Path, empty: Path, lessons: list[str], variables: dict[str, str]) -> None:
    """Copies the lessons into an empty folder, and compares the outputs of some of them with the stored ones."""
    empty.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    where = "import ddp_lessons; print(ddp_lessons.__file__)"
    asked = subprocess.run(
        [python, "-c", where], cwd=empty, env=environment, capture_output=True, text=True, check=True
    )
    assert asked.stdout.startswith(str(site))
    command: list[str | Path] = [python, "-m", "ddp_lessons", "start", "--no-open"]
    copied = subprocess.run(command, cwd=empty, env=environment, capture_output=True, text=True, check=True)
    assert copied.stdout == "my_lessons/00_start_four_ranks.ipynb\n"
    stored = [path for path in (site / "ddp_lessons" / "course" / "notebooks").iterdir() if path.name[:2] in lessons]
    for path in stored:
        assert (empty / "my_lessons" / path.name).is_file()
        shutil.copy(path, empty)
    nbval = ["-m", "pytest", "-q", "--rootdir", ".", "-p", "no:cacheprovider", "--nbval"]
    copies = sorted(map(str, empty.glob("0*")))
    ran = subprocess.run(
        [str(python), *nbval, *copies], cwd=empty, env=environment, text=True, stdout=-1, stderr=subprocess.STDOUT
    )
    assert ran.returncode == 0, ran.stdout
