"""The folder with the real wheels, installed where there is no network: the doctor and the first lesson.

It fetches 3 GB and installs 7 GB: only where everything is tried. `make test` has the same steps with small wheels.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nights import nightly
from small_wheels import NO_NETWORK, needs_a_namespace

PROJECT = Path(__file__).parent.parent.parent

# Loopback is all there is; what was sent anywhere else would be refused, as nothing leads there.
IN_A_NAMESPACE = """
set -e
ip link set lo up
[ -z "$(ip route show table all type unicast | grep -v ' lo ' | grep -v '^fe80')" ]
python="$1"; given="$2"; export HOME="$3"
"$python" "$given/install.py"
cd "$HOME/ddp-lessons"
PATH="$PWD/.venv/bin:$PATH" .venv/bin/python -m pytest -q --nbval notebooks/00_start_four_ranks.ipynb
"""


@pytest.mark.time_limit(3600)
@nightly
def test_the_folder_installs_and_the_first_lesson_runs_where_there_is_no_network(tmp_path: Path) -> None:
    needs_a_namespace()
    (home := tmp_path / "home of anna, à Paris").mkdir()
    given = PROJECT / "dist" / "ddp-lessons-offline"  # where it stays: the next run fetches only what is new
    subprocess.run([sys.executable, "-m", "offline"], cwd=PROJECT, check=True)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_"))}
    command = [*NO_NETWORK, "bash", "-c", IN_A_NAMESPACE, "-", sys.executable, str(given)]
    ended = subprocess.run([*command, str(home)], env=plain, text=True, stdout=-1, stderr=subprocess.STDOUT)
    print(ended.stdout)
    assert ended.returncode == 0, ended.stdout
    assert "4 ranks connected over loopback, and their sum is 6" in ended.stdout
    assert '"problems": "none"' in ended.stdout
    assert " passed" in ended.stdout
