"""The servers of a room: each learner's folder, link and JupyterLab, and how they start, restart and end."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from ddp_lessons.run.launcher.private_folders import short_private_folder
from ddp_lessons.run.processes.shared_template import SEED
from ddp_lessons.workshop.room.handouts import address, link, new_token, strips
from ddp_lessons.workshop.room.interruptions import undisturbed
from ddp_lessons.workshop.room.seed import Seed
from ddp_lessons.workshop.start import environment_of_jupyter
from ddp_lessons.workshop.working_copy import copy_lessons

_SECONDS_TO_ANSWER = 300.0  # thirty servers start on few cores
_SECONDS_TO_END = 15.0
_SECONDS_BETWEEN_STARTS = 10.0  # for a server that ends again and again
_LETTERS_OF_A_SOCKET = len("/500/kernel-01234567-0123-0123-0123-012345678901-ipc-1")
_FIRST = "00_start_four_ranks.ipynb"


@dataclass
class Learner:
    """One learner's place, which stays the same when the room is started again."""

    folder: Path
    port: int
    token: str
    runtime: Path  # for the kernels' sockets, whose paths must be short
    server: subprocess.Popen[bytes] | None = None
    started: float = 0.0

    @property
    def hidden(self) -> Path:
        return self.folder / ".room"

    def environment(self) -> dict[str, str]:
        """Store per learner what is usually stored per user. Without the token, which kernels would inherit and
        show."""
        place = str(self.hidden)
        inherited = {name: value for name, value in os.environ.items() if name != "JUPYTER_TOKEN"}
        return {
            **environment_of_jupyter(inherited),
            "JUPYTER_CONFIG_DIR": f"{place}/config",
            "JUPYTER_DATA_DIR": f"{place}/data",
            "JUPYTER_RUNTIME_DIR": str(self.runtime),
            "JUPYTERLAB_SETTINGS_DIR": f"{place}/settings",
            "JUPYTERLAB_WORKSPACES_DIR": f"{place}/workspaces",
            "IPYTHONDIR": f"{place}/ipython",
            "DDP_LESSONS_PROGRESS": f"{place}/progress.json",
        }

    def start(self, host: str) -> None:
        self.started = time.monotonic()
        (self.hidden / "config").mkdir(mode=0o700, exist_ok=True)
        settings = {"IdentityProvider": {"token": self.token}}  # in a file, because all users can see arguments
        _write_secret(self.hidden / "config" / "jupyter_server_config.json", json.dumps(settings))
        options = {
            "KernelManager.transport": "ipc",  # with TCP, other users of this machine could read what cells print
            "ServerApp.ip": host,
            "ServerApp.port": self.port,
            "ServerApp.port_retries": 0,
            "ServerApp.allow_root": True,  # for root in a container
            "ServerApp.root_dir": self.folder,
            "LabApp.default_url": f"/lab/tree/{_FIRST}" if (self.folder / _FIRST).exists() else "/lab",
        }
        with open(self.hidden / "server.log", "ab") as log, undisturbed():
            self.server = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", "--no-browser"]
                + [f"--{name}={value}" for name, value in options.items()],
                env=self.environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the room gets Ctrl+C and then stops the servers in order
            )


@dataclass
class Room:
    """Inside the `with` all servers run; after it, none of them and none of their kernels."""

    number: int
    folder: Path
    notebooks: Path
    host: str
    name: str
    first_port: int
    learners: list[Learner] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not 1 <= self.number <= 500:
            raise ValueError(f"--learners is {self.number}, but a room can have 1 to 500")
        if not list(self.notebooks.glob("*.ipynb")):
            raise ValueError(f"there are no notebooks in {self.notebooks}: give their folder with --notebooks")
        taken = [port for port in range(self.first_port, self.first_port + self.number) if _is_taken(self.host, port)]
        if taken:
            raise ValueError(_in_use(taken))
        self._seed = Seed() if sys.platform == "linux" else None
        self._runtime = Path(short_private_folder("room-", _LETTERS_OF_A_SOCKET))

    @property
    def list_of_links(self) -> Path:
        return self.folder / "links.txt"

    @property
    def page_of_strips(self) -> Path:
        return self.folder / "strips.html"

    @property
    def places(self) -> list[tuple[str, str]]:
        return [(address(self.name, learner.port), learner.token) for learner in self.learners]

    @property
    def links(self) -> list[str]:
        return [f"learner {number:02}   {link(*place)}" for number, place in enumerate(self.places, 1)]

    def __enter__(self) -> Room:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self.learners = [self._place(number) for number in range(1, self.number + 1)]
        _write_secret(self.list_of_links, "\n".join(self.links) + "\n")
        _write_secret(self.page_of_strips, strips(self.places))
        try:
            if self._seed is not None:
                with undisturbed():
                    os.environ[SEED] = self._seed.__enter__().variables[SEED]
            for learner in self.learners:
                learner.start(self.host)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *reason: object) -> None:
        """A second interrupt does not leave some of them behind."""
        with undisturbed():
            self._end_servers()
            shutil.rmtree(self._runtime, ignore_errors=True)
            if self._seed is not None and SEED in os.environ:
                del os.environ[SEED]
                self._seed.__exit__()

    def _end_servers(self) -> None:
        """Stop all at once. A server that is asked to stop ends its kernels, and these end their ranks."""
        servers = [learner.server for learner in self.learners if learner.server is not None]
        family = [child for server in servers for child in _descendants(server.pid)]
        for server in servers:
            if server.poll() is None:
                server.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs([*family, *_living(servers)], timeout=_SECONDS_TO_END)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        for server in servers:
            server.wait()

    def wait_until_they_answer(self) -> None:
        end = time.monotonic() + _SECONDS_TO_ANSWER
        if self._seed is not None:
            self._seed.wait_until_ready(_SECONDS_TO_ANSWER)
        for number, learner in enumerate(self.learners, 1):
            while not _answers(self.host, learner):
                ended = learner.server is not None and learner.server.poll() is not None
                if ended or time.monotonic() > end:
                    raise SystemExit(f"The server of learner {number} does not start: see {learner.hidden}/server.log")
                time.sleep(0.2)

    def keep_up(self) -> None:
        """Until interrupted, restart servers that have ended, with the same folder, port and token."""
        while True:
            time.sleep(1)
            if self._seed is not None and self._seed.has_ended():
                print("The process that imports torch for all notebooks has ended and is restarting.", flush=True)
                with undisturbed():
                    self._seed.start()
            for number, learner in enumerate(self.learners, 1):
                has_ended = learner.server is not None and learner.server.poll() is not None
                if has_ended and time.monotonic() > learner.started + _SECONDS_BETWEEN_STARTS:
                    print(f"The server of learner {number} has ended and is restarting.", flush=True)
                    learner.start(self.host)

    def _place(self, number: int) -> Learner:
        """A learner's folder, created if it is missing; files in it are the learner's work."""
        folder = (self.folder / f"learner-{number:02}").absolute()
        hidden = folder / ".room"
        hidden.mkdir(parents=True, exist_ok=True)
        hidden.chmod(0o700)
        copy_lessons(self.notebooks, folder)
        kept = hidden / "token"
        if not kept.exists():
            _write_secret(kept, new_token())
        return Learner(folder, self.first_port + number - 1, kept.read_text().strip(), self._runtime / f"{number:02}")


def _is_taken(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except (OSError, OverflowError):
            return True
    return False


def _in_use(ports: Sequence[int]) -> str:
    """What to do about ports in use: a room that was killed leaves its servers behind."""
    holders = set()
    with contextlib.suppress(psutil.Error):  # macOS shows them only to root
        for used in psutil.net_connections("tcp"):
            if used.status == psutil.CONN_LISTEN and used.pid is not None and used.laddr and used.laddr.port in ports:
                holders.add(used.pid)
    known = "".join(f" {pid}" for pid in sorted(holders))
    kill = f" (if no room is running, run: kill{known})" if known else ""
    return f"port {ports[0]} is in use, maybe by another room: stop that room{kill}, or choose other ports with --port"


def _write_secret(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _answers(host: str, learner: Learner) -> bool:
    here = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    request = urllib.request.Request(
        f"http://{here}:{learner.port}/api/status", headers={"Authorization": f"token {learner.token}"}
    )
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _living(servers: list[subprocess.Popen[bytes]]) -> list[psutil.Process]:
    living = []
    for server in servers:
        with contextlib.suppress(psutil.NoSuchProcess):
            living.append(psutil.Process(server.pid))
    return living
