"""`python -m ddp_lessons room`: one machine, a JupyterLab for each learner, and a list of links to hand out.

All servers and the seed are children of this process. However it ends, it ends all of its children.
"""

from __future__ import annotations

import argparse
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
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import psutil

from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.launcher.private_folders import short_private_folder
from ddp_lessons.run.processes.shared_template import SEED
from ddp_lessons.workshop.handouts import address, new_token, own_numbers, strips
from ddp_lessons.workshop.seed import Seed
from ddp_lessons.workshop.start import environment_of_jupyter
from ddp_lessons.workshop.working_copy import copy_lessons

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_TO_ANSWER = 300.0  # thirty servers start on few cores
_SECONDS_TO_END = 15.0
_SECONDS_BETWEEN_LOOKS = 5.0  # also between the starts of a server that ends again and again
_LETTERS_OF_A_SOCKET = len("/500/kernel-01234567-0123-0123-0123-012345678901-ipc-1")
_FIRST = "00_start_four_ranks.ipynb"
_OPEN = """WARNING: these servers listen on the network without encryption. Anyone who has or intercepts a link can run
any program on this machine as you. Use them only on a network that you trust, as a user who owns nothing else."""


@dataclass
class Learner:
    """One learner's place, which stays the same when the room is started again."""

    folder: Path
    port: int
    token: str
    runtime: Path  # for the kernels' sockets, whose paths must be short
    server: subprocess.Popen[bytes] | None = None

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
        with open(self.hidden / "server.log", "ab") as log:
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

    def has_ended(self) -> bool:
        return self.server is not None and self.server.poll() is not None

    def answers(self, host: str) -> bool:
        status, headers = f"{address(host, self.port)}/api/status", {"Authorization": f"token {self.token}"}
        request = urllib.request.Request(status, headers=headers)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def run(chosen: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    os.environ.update(DDP_LESSONS_MOST_RANKS=chosen.ranks, DDP_LESSONS_MOST_MEMORY=chosen.memory)
    try:
        limits()
        _check(chosen)
        runtime = Path(short_private_folder("room-", _LETTERS_OF_A_SOCKET))
    except ValueError as refusal:
        parser.error(str(refusal))
    if chosen.host not in ("127.0.0.1", "localhost", "::1"):
        print(_OPEN, file=sys.stderr)
    for number in _ENDING:  # a `kill`, and the end of an ssh session (unless started with `nohup`), are like Ctrl+C
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _as_ctrl_c)
    with contextlib.suppress(KeyboardInterrupt), contextlib.ExitStack() as ending:
        ending.callback(shutil.rmtree, runtime, ignore_errors=True)
        ending.callback(_end_all_children)
        _serve(chosen, runtime)
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(
            f"All servers have stopped. The learners' work is in {chosen.folder}; start the room again to continue.",
            flush=True,
        )
    return 0


def _check(chosen: argparse.Namespace) -> None:
    """Raise a ValueError for what cannot be."""
    if not 1 <= chosen.learners <= 500:
        raise ValueError(f"--learners must be between 1 and 500, not {chosen.learners}")
    if not list(chosen.notebooks.glob("*.ipynb")):
        raise ValueError(f"there are no notebooks in {chosen.notebooks}: pass their folder with --notebooks")
    ports = range(chosen.port, chosen.port + chosen.learners)
    if taken := [port for port in ports if _is_taken(chosen.host, port)]:
        raise ValueError(_in_use(taken))


def _is_taken(host: str, port: int) -> bool:
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            return False
    except (OSError, OverflowError):
        return True


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


def _serve(chosen: argparse.Namespace, runtime: Path) -> NoReturn:
    """Start all servers, say where they are, and restart those that end, until interrupted."""
    first, *others = names_in_links(chosen)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chosen.folder.chmod(0o700)
    learners = [_place(chosen, number, runtime) for number in range(1, chosen.learners + 1)]
    links = [f"{address(first, learner.port)}/?token={learner.token}" for learner in learners]
    lines = [f"learner {number:02}   {link}" for number, link in enumerate(links, 1)]
    _write_secret(list_of_links := chosen.folder / "links.txt", "\n".join(lines) + "\n")
    _write_secret(page_of_strips := chosen.folder / "strips.html", strips(links))

    with Seed() if sys.platform == "linux" else contextlib.nullcontext() as seed:
        if seed is not None:
            os.environ[SEED] = seed.variables[SEED]
        for learner in learners:
            learner.start(chosen.host)
        print(f"Starting {chosen.learners} servers; each takes a few seconds.", flush=True)
        _wait_until_they_answer(chosen.host, learners, seed)
        print(*lines, f"\nThe links are in {list_of_links}; print {page_of_strips}.", sep="\n")
        if others:
            print(f"Other addresses of this machine: {', '.join(others)}. Choose one with --name.")
        print("Press Ctrl+C to stop all servers.", flush=True)
        while True:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            if seed is not None and seed.has_ended():
                print("The process that imports torch for all notebooks has ended and is being restarted.", flush=True)
                seed.start()
            for number, learner in enumerate(learners, 1):
                if learner.has_ended():
                    print(f"The server of learner {number} has ended and is being restarted.", flush=True)
                    learner.start(chosen.host)


def names_in_links(chosen: argparse.Namespace) -> list[str]:
    """The addresses under which learners may reach this machine; the first is for the links."""
    if chosen.name or chosen.host not in ("0.0.0.0", "::"):
        return [chosen.name or chosen.host]
    return own_numbers() or [socket.gethostname()]


def _place(chosen: argparse.Namespace, number: int, runtime: Path) -> Learner:
    """A learner's folder, created if it is missing; files in it are the learner's work."""
    folder = (chosen.folder / f"learner-{number:02}").absolute()
    hidden = folder / ".room"
    hidden.mkdir(parents=True, exist_ok=True)
    hidden.chmod(0o700)
    copy_lessons(chosen.notebooks, folder)
    if not (kept := hidden / "token").exists():
        _write_secret(kept, new_token())
    return Learner(folder, chosen.port + number - 1, kept.read_text().strip(), runtime / f"{number:02}")


def _write_secret(path: Path, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def _wait_until_they_answer(host: str, learners: Sequence[Learner], seed: Seed | None) -> None:
    end = time.monotonic() + _SECONDS_TO_ANSWER
    if seed is not None:
        seed.wait_until_ready(_SECONDS_TO_ANSWER)
    for number, learner in enumerate(learners, 1):
        while not learner.answers(host):
            if learner.has_ended() or time.monotonic() > end:
                raise SystemExit(f"The server of learner {number} did not start: see {learner.hidden}/server.log")
            time.sleep(0.2)


def _as_ctrl_c(*_: object) -> NoReturn:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    """A second signal, which a closed terminal's shell may send, would interrupt the teardown."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)


def _end_all_children() -> None:
    """Stop all at once. A server that is asked to stop ends its kernels, and these end their ranks."""
    _ignore_signals()
    this = psutil.Process()
    family = this.children(recursive=True)
    for child in this.children():
        child.terminate()
    _, left = psutil.wait_procs(family, timeout=_SECONDS_TO_END)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
