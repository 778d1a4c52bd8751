"""The course is packed, installed and begun where there is no network: real packages, the real doctor, a real lesson.

All but torch, torchvision and what only these need (CUDA, triton: 3 GB), for which the folder is made with
`--without torch`: install.py is started with a Python that has them, links to those of the environment that runs the
tests, and lends them to the lessons by a .pth file. The other packages are that environment's, too, made into wheels
again; pip chooses and installs them. Fetching them, and torch itself, is what tests/offline/test_everything.py tries.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nights import nightly
from real_wheels import python_with_torch, write_index
from small_wheels import NO_NETWORK, needs_a_namespace, pack

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
PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pytest -q --nbval notebooks/00_start_four_ranks.ipynb
"""


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_a_namespace()
    here = tmp_path_factory.mktemp("a stick")
    packed = pack(write_index(here / "index"), here / "given here", "--without", "torch")
    assert packed.returncode == 0, packed.stderr
    assert "\nwith a Python that has torch>=" in packed.stdout
    return here / "given here"


def test_real_packages_are_installed_and_the_first_lesson_runs(given: Path, tmp_path: Path) -> None:
    (home := tmp_path / "home of anna").mkdir()
    python = python_with_torch(tmp_path / "has torch")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "XDG_"))}
    command = [*NO_NETWORK, "bash", "-c", IN_A_NAMESPACE, "-", str(python), LOOK, str(home)]
    ended = subprocess.run(command, cwd=given, env=plain, text=True, stdout=-1, stderr=subprocess.STDOUT)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("no route to anywhere\n")
    assert "4 ranks connected over loopback, and their sum is 6" in ended.stdout
    assert '"problems": "none"' in ended.stdout
    assert " passed" in ended.stdout
    site = next((home / "the lessons, here").glob(".venv/lib/python3*/site-packages"))
    installed = {path.name.partition("-")[0].lower().replace("_", "-") for path in site.glob("*.dist-info")}
    assert {"jupyterlab", "matplotlib", "ipywidgets", "nbval", "numpy", "pip"} <= installed
    assert not {"torch", "torchvision", "triton"} & installed


def test_a_python_without_torch_or_with_another_is_refused(given: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    python = tmp_path / "bare" / "bin" / "python"
    command = [str(python), "install.py", "--to", str(tmp_path / "lessons")]
    without = subprocess.run(command, cwd=given, capture_output=True, text=True)
    assert without.returncode == 1
    assert f"you should have them already. In {python}\n  torch is not installed.\n" in without.stderr
    (site,) = (tmp_path / "bare").glob("lib/python3*/site-packages")
    for name, version in (("torch", "1.13.1"), ("torchvision", "0.29.0+cpu")):
        (info := site / f"{name}-{version}.dist-info").mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    old = subprocess.run(command, cwd=given, capture_output=True, text=True)
    assert "  torch is 1.13.1, and the lessons need torch>=" in old.stderr
    assert "torchvision is" not in old.stderr
    assert old.returncode == 1
    assert not (tmp_path / "lessons").exists()
