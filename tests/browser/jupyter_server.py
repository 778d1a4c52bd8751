"""A real `jupyter lab` on a free loopback port, with a token, in a folder of its own; Notebook 7 answers there, too."""

from __future__ import annotations

import json
import secrets
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import nbformat
import psutil
from processes import Program, eventually

from ddp_lessons.workshop.start import environment_of_jupyter

SERVE = """
import ctypes, signal, sys
if sys.platform == "linux":  # a run of the tests that is killed leaves no server behind
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
log = os.open("server.log", os.O_WRONLY | os.O_CREAT)
os.dup2(log, 1), os.dup2(log, 2)
from jupyterlab.labapp import main
main(["--no-browser", "--allow-root", "--port=0", "--ServerApp.ip=127.0.0.1", "notebooks"])
"""


class JupyterServer:
    def __init__(self, folder: Path) -> None:
        self.folder, self.notebooks = folder, folder / "notebooks"
        self.notebooks.mkdir()
        self._token = secrets.token_hex(16)
        own = {f"JUPYTER_{what}_DIR": str(folder / what.lower()) for what in ("RUNTIME", "CONFIG", "DATA")}
        own |= {"JUPYTER_TOKEN": self._token, "DDP_LESSONS_PROGRESS": str(folder / "progress.json")}
        own |= {"IPYTHONDIR": str(folder / "ipython"), "PATH": "/usr/bin:/bin"}
        self._program = Program(SERVE, environment=dict(environment_of_jupyter(own)), folder=folder)
        about = folder / "runtime" / f"jpserver-{self._program.process_id}.json"
        started = eventually(lambda: about.exists() and self._answers(about.read_text(encoding="utf-8")))
        assert started, (folder / "server.log").read_text(encoding="utf-8")

    def _answers(self, about: str) -> bool:
        self.url = json.loads(about)["url"] if about else ""
        return bool(self.url)

    def address(self, place: str) -> str:
        """Of "lab/tree/..." or "notebooks/..."."""
        return f"{self.url}{place}?token={self._token}"

    def write(self, name: str, *cells: str) -> str:
        """A notebook of these cells; its name."""
        make: Any = nbformat.v4
        save: Any = nbformat.write
        code = [make.new_code_cell(cell.strip("\n")) for cell in cells]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        save(make.new_notebook(cells=code, metadata={"kernelspec": kernel}), self.notebooks / name)
        return name

    def read(self, name: str) -> Any:
        """What is stored in a notebook."""
        read: Any = nbformat.read
        return read(self.notebooks / name, as_version=4)

    def end_kernels(self) -> None:
        for session in self._ask("GET", "api/sessions"):
            self._ask("DELETE", f"api/sessions/{session['id']}")

    def _ask(self, method: str, place: str) -> Any:
        request = urllib.request.Request(self.address(place), method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")

    def kernel_above(self, rank: int) -> psutil.Process:
        """The kernel whose rank this process is."""
        above = psutil.Process(rank).parents()
        return next(process for process in above if "ipykernel_launcher" in process.cmdline())

    def __enter__(self) -> JupyterServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self._program.__exit__(kind, error, path)
