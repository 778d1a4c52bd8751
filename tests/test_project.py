"""What the project's files promise: two lists that say the same, and a set-up that anybody's machine survives.

The set-up runs for real, in a folder with a space and an accent, but without network: `uv` is a script that copies tiny
packages called torch, torchvision and jupyterlab into the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from nights import nightly

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it
    import tomli as tomllib
from packaging.requirements import Requirement

from ddp_lessons.train.mnist import SUMS
from ddp_lessons.workshop.start import JUPYTERLAB

PROJECT = Path(__file__).parent.parent


def pins(file: str) -> list[Requirement]:
    lines = (PROJECT / file).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def test_conda_brings_python_and_pip_the_same_packages_as_everywhere() -> None:
    environment = yaml.safe_load((PROJECT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["dependencies"] == ["python>=3.10,<3.14", "pip", {"pip": ["-r requirements.txt", "-e ."]}]
    assert environment["channels"] == ["conda-forge", "nodefaults"]


@pytest.mark.parametrize("python", ["3.10", "3.13"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_every_package_has_one_exact_version_that_the_package_s_ranges_allow(python: str, system: str) -> None:
    here = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": system}
    found = [one for one in pins("requirements.txt") if one.marker is None or one.marker.evaluate(here)]
    pinned = {one.name: one.specifier for one in found}
    assert len(pinned) == len(found)
    assert all(len(one) == 1 and str(one).startswith("==") for one in pinned.values())
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for name in ("lab", "test") for line in project["optional-dependencies"][name]]
    for package in map(Requirement, [*project["dependencies"], *extras]):
        if package.marker is None or package.marker.evaluate(here):
            assert str(pinned[package.name])[2:] in package.specifier
    assert JUPYTERLAB in project["optional-dependencies"]["lab"]


def test_contributors_have_the_versions_of_learners() -> None:
    assert set(map(str, pins("requirements.txt"))) <= set(map(str, pins("tools/requirements-dev.txt")))


def test_the_package_limits_nothing_from_above() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package in map(Requirement, project["dependencies"]):
        assert [one.operator for one in package.specifier] == [">="]


def test_the_data_that_is_shipped_names_its_source_license_and_checksums() -> None:
    text = (PROJECT / "data" / "README.md").read_text(encoding="utf-8")
    assert "Source: Yann LeCun" in text
    assert "creativecommons.org/licenses/by-sa/3.0" in text
    assert all(f"| {name} |" in text and f"| {digest} |" in text for name, digest in SUMS.items())


UV = """#!/bin/sh
# stands for uv: notes how it was called, and leaves alone what looks installed
echo "$@" >> "{calls}"
cd .venv/lib/python3*/site-packages
if [ -e "{cut_off}" ]; then rm "{cut_off}"; cp -R "{packages}"/torch-* .; kill -9 0; fi
for package in "{packages}"/*.dist-info; do
  name=$(basename "$package")
  [ -e "$name" ] || cp -R "$package" "{packages}/${{name%%-*}}" .
done
"""
PACKAGES = {
    "torch-2.15.0": "def ones(*shape): pass",
    "torchvision-0.29.2": "class ops:\n    nms = print",
    "jupyterlab-4.0.0": "",
}


@dataclass
class Copy:
    """A fresh copy of the project, beside the packages that its `uv` installs."""

    folder: Path

    @property
    def calls(self) -> list[str]:
        log = self.folder.parent / "calls"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def publish(self, name_and_version: str, code: str) -> None:
        packages = self.folder.parent / "packages"
        name = name_and_version.partition("-")[0]
        (packages / name).mkdir(parents=True, exist_ok=True)
        (packages / name / "__init__.py").write_text(code)
        (packages / name / "__main__.py").write_text("import sys; print(*sys.argv[1:])")
        about = packages / f"{name_and_version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {name}\nVersion: {name_and_version.partition('-')[2]}\n")
        (about / "RECORD").write_text(f"{name}/__init__.py,,{len(code)}\n{about.name}/RECORD,,\n")

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        tools = self.folder.parent / "tools"
        environment = {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.folder.parent), "CI": "1"}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"}  # which must not keep the set-up from compiling
        return subprocess.run(
            ["make", *arguments],
            cwd=self.folder,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that being killed stays among us
        )


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    if shutil.which("make") is None:
        pytest.skip("without make there is nothing to try")
    here = tmp_path / "a leçon"
    copy = Copy(here / "project")
    shutil.copytree(PROJECT / "ddp_lessons", copy.folder / "ddp_lessons", ignore=shutil.ignore_patterns("__pycache__"))
    (copy.folder / "tools").mkdir()
    for name in ("Makefile", "requirements.txt", "pyproject.toml", "tools/environment.sh"):
        shutil.copy(PROJECT / name, copy.folder / name)
    (copy.folder / "notebooks").mkdir()
    for lesson in ("01_second.ipynb", "00_first.ipynb"):
        (copy.folder / "notebooks" / lesson).write_text('{"cells": []}')
    for package, code in PACKAGES.items():
        copy.publish(package, code)
    (here / "tools").mkdir()
    (here / "tools" / "python3").symlink_to(Path(sys.executable).resolve())
    uv = here / "tools" / "uv"
    uv.write_text(UV.format(calls=here / "calls", cut_off=here / "cut off", packages=here / "packages"))
    uv.chmod(0o755)
    return copy


def test_one_command_sets_up_and_opens_the_first_lesson(copy: Copy) -> None:
    first = copy.make("lab", "JUPYTER_ARGS=--port 9999")
    opened = "--LabApp.default_url=/lab/tree/00_first.ipynb"
    assert first.stdout.splitlines()[-1].partition("my_lessons ")[2].startswith(f"{opened} --port 9999 --no-browser")
    assert list((copy.folder / "ddp_lessons" / "__pycache__").glob("__init__.*.pyc"))
    calls = copy.calls
    second = copy.make("lab")
    assert opened in second.stdout
    assert copy.calls == calls


@nightly
@pytest.mark.parametrize("has_python", [True, False])
def test_a_set_up_that_was_killed_recovers_and_installs_half_a_package_again(copy: Copy, has_python: bool) -> None:
    (copy.folder.parent / "cut off").touch()
    assert copy.make("setup").returncode == -9
    if not has_python:
        (copy.folder / ".venv" / "bin" / "python").unlink()
    again = copy.make("setup")
    assert again.returncode == 0, again.stdout
    assert list(copy.folder.glob(".venv/lib/python3*/site-packages/torch/__init__.py"))


@nightly
def test_a_broken_pair_opens_nothing_until_it_is_repaired(copy: Copy) -> None:
    copy.publish("torchvision-0.28.0", "raise RuntimeError('operator torchvision::nms does not exist')")
    shutil.rmtree(copy.folder.parent / "packages" / "torchvision-0.29.2.dist-info")
    refused = copy.make("lab")
    assert "torchvision 0.28.0 does not work with torch 2.15.0" in refused.stdout
    assert "00_first.ipynb" not in refused.stdout
    assert refused.returncode != 0


@nightly
def test_the_pair_is_looked_at_again_when_something_was_installed(copy: Copy) -> None:
    assert copy.make("setup").returncode == 0
    (site,) = (copy.folder / ".venv" / "lib").glob("python3*/site-packages")
    (site / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    os.utime(site, (time.time() + 1,) * 2)  # the clock of a file system may tick slower than this test runs
    assert "torchvision 0.29.2 does not work with torch 2.15.0" in copy.make("lab").stdout


@nightly
def test_the_kind_of_torch_is_chosen_by_uv(copy: Copy) -> None:
    assert copy.make("setup", "TORCH=cpu").returncode == 0
    assert "--torch-backend cpu" in copy.calls[0]
    assert copy.make("setup").returncode == 0
    assert "--torch-backend" not in copy.calls[-1]


@nightly
def test_a_moved_project_says_what_to_type(copy: Copy) -> None:
    assert copy.make("setup").returncode == 0
    moved = Copy(copy.folder.rename(copy.folder.with_name("moved")))
    refused = moved.make("lab")
    assert "Run make clean" in refused.stdout
    assert refused.returncode != 0


def test_windows_is_told_to_use_its_linux() -> None:
    code = "import sys; sys.platform = 'win32'; import ddp_lessons"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT, check=False).stderr
    assert said.splitlines()[-1] == (
        "ImportError: ddp_lessons needs Linux or macOS. Next: install WSL (wsl --install), and work there"
    )


def test_a_too_old_python_gets_a_sentence(copy: Copy) -> None:
    old = copy.folder.parent / "tools" / "old python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    refused = copy.make("lab", f"PYTHON={old}")
    assert "The lessons need Python 3.10 or newer" in refused.stdout
    assert refused.returncode != 0
    assert not (copy.folder / ".venv").exists()
