"""The package index for a build of torch (cpu, cu130, ...), which uv knows and pip does not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from offline.systems import NotPacked
from offline.wheels import PAIR, pins

_FROM = "# from "


def index_of(kind: str) -> str:
    """The index with this build of torch, which uv names in its answer."""
    own = Path(sys.executable).parent / "uv"
    uv = shutil.which("uv") or shutil.which(own)
    if uv is None:
        raise NotPacked(f"Only uv knows where torch of the kind {kind} is. Type: {sys.executable} -m pip install uv")
    words = [uv, "pip", "compile", "--quiet", "--no-header", "--no-deps", "--emit-index-annotation"]
    words += ["--torch-backend", kind, "--python", sys.executable, "-"]
    ended = subprocess.run(words, input=pins()[PAIR[0]], capture_output=True, text=True)
    places = [line.partition(_FROM)[2].strip() for line in ended.stdout.splitlines() if _FROM in line]
    if ended.returncode or not places:
        raise NotPacked(
            f"torch of the kind {kind} comes from the PyTorch project's own server, which cannot be reached:\n"
            f"{ended.stderr.strip()[-600:]}\nWithout TORCH={kind} you get the one of your package index."
        )
    return places[0]
