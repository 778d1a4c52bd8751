"""The course is packed, installed and begun without a network: real packages, the real doctor, a real lesson."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from indexes import NO_NETWORK, PROJECT, needs_a_namespace, pack, python_with_torch, real_index
from nights import nightly

pytestmark = nightly

# The kernel's own tables: loopback is all there is, and no way leads elsewhere.
LOOK = """
dev, four, six = (open(f"/proc/self/net/{name}").read().splitlines() for name in ("dev", "route", "ipv6_route"))
assert [line.split(":")[0].strip() for line in dev[2:]] == ["lo"], dev
assert not four[1:], four
assert all(line.split()[-1] == "lo" for line in six), six
print("no route to anywhere")
"""
IN_A_NAMESPACE = """
set -eu
python="$1"; look="$2"; export HOME="$3"
ip link set lo up
"$python" -c "$look"
"$python" install.py --to "$HOME/the lessons, here"
cd "$HOME/the lessons, here"
.venv/bin/ddp-lessons start --no-open
cp .venv/lib/python3*/site-packages/ddp_lessons/course/notebooks/00_*.ipynb .
PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pytest -q --nbval 00_start_four_ranks.ipynb
"""


def packages_after_install(given: Path, python: Path, home: Path) -> set[str]:
    """Install, run the doctor and the first lesson, and return the names of the installed packages."""
    home.mkdir()
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "XDG_"))}
    command = [*NO_NETWORK, "bash", "-c", IN_A_NAMESPACE, "-", str(python), LOOK, str(home)]
    ended = subprocess.run(command, cwd=given, env=plain, text=True, stdout=-1, stderr=subprocess.STDOUT)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("no route to anywhere\n")
    assert "4 ranks connected over loopback, and their sum is 6" in ended.stdout
    assert "PROBLEM" not in ended.stdout
    assert "my_lessons/00_start_four_ranks.ipynb" in ended.stdout
    assert " passed" in ended.stdout
    site = next((home / "the lessons, here").glob(".venv/lib/python3*/site-packages"))
    return {path.name.partition("-")[0].lower().replace("_", "-") for path in site.glob("*.dist-info")}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without torch, of which the wheels have 3 GB."""
    needs_a_namespace()
    here = tmp_path_factory.mktemp("a stick")
    packed = pack(real_index(here / "index"), here / "given here", "--without", "torch")
    assert packed.returncode == 0, packed.stdout
    return here / "given here"


def test_real_packages_are_installed_and_the_first_lesson_runs(given: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in given.rglob("*")}
    found = packages_after_install(given, python_with_torch(tmp_path / "has torch"), tmp_path / "home of anna")
    assert {"ddp-lessons", "jupyterlab", "matplotlib", "ipywidgets", "nbval", "numpy", "pip"} <= found
    assert not {"torch", "torchvision", "triton"} & found
    assert {path: path.stat().st_mtime_ns for path in given.rglob("*")} == before


def test_a_python_without_torch_or_with_an_old_one_is_refused(given: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (site,) = (tmp_path / "bare").glob("lib/python3*/site-packages")
    command = [str(tmp_path / "bare" / "bin" / "python"), "install.py", "--to", str(tmp_path / "lessons")]
    for version in ("", "1.13.1"):
        if version:
            (info := site / f"torch-{version}.dist-info").mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        refused = subprocess.run(command, cwd=given, capture_output=True, text=True)
        assert refused.returncode == 1
        assert "This folder comes without torch>=" in refused.stderr
        assert not (tmp_path / "lessons").exists()


@pytest.mark.time_limit(3600)
def test_fetched_wheels_are_installed_and_the_first_lesson_runs(tmp_path: Path) -> None:
    """With torch: this fetches 3 GB and installs 7 GB."""
    needs_a_namespace()
    subprocess.run([sys.executable, "-m", "tools.offline"], cwd=PROJECT, check=True)
    given = PROJECT / "dist" / "ddp-lessons-offline"
    assert "torch" in packages_after_install(given, Path(sys.executable), tmp_path / "home of anna, à Paris")
