"""A room for three learners, used as three browsers would: over HTTP, with a kernel that each starts there."""

from __future__ import annotations

import argparse
import fcntl
import http.cookiejar
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import termios
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import websocket
from nights import nightly
from processes import eventually, kept_port, listening

from ddp_lessons.workshop import handouts
from ddp_lessons.workshop.commands import add_room
from ddp_lessons.workshop.room import names_in_links

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"^learner \d\d   (http://127\.0\.0\.1:\d+)/\?token=([2-9a-hjkmnp-z]{12})$", re.M)
FIRST = "00_start_four_ranks.ipynb"
LAUNCH = "from ddp_lessons import launch; list(launch(lambda rank, world_size: rank * 10, {ranks}))"


@dataclass
class Room:
    process: subprocess.Popen[str]
    folder: Path
    said: str

    @property
    def links(self) -> list[tuple[str, str]]:
        return LINK.findall(self.said)

    def end(self) -> str:
        """Ctrl+C; returns what it said, once nothing of it is left."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=60)[0]
        assert self.process.returncode == 0
        assert eventually(lambda: not any(map(psutil.Process.is_running, family)))
        return said


BEGUN: list[subprocess.Popen[str]] = []


def command(*options: str) -> dict[str, Any]:
    return {
        "args": [sys.executable, "-m", "ddp_lessons", "room", *options],
        "cwd": ROOT,
        "env": {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "JUPYTER_TOKEN": "of the instructor"},
        "text": True,
    }


def begin(folder: Path, *options: str, learners: int = 3) -> Room:
    asked_for = command("--learners", str(learners), "--folder", str(folder), *options)
    process = subprocess.Popen(**asked_for, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    BEGUN.append(process)
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if "Press Ctrl+C to stop all servers" in line:
            return Room(process, folder, said)
    raise AssertionError(f"the room did not begin: {said}")


@pytest.fixture(scope="module", autouse=True)
def no_room_is_left() -> Iterator[None]:
    """Whatever a test that fails leaves behind; those that pass leave nothing."""
    yield
    for process in BEGUN:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = begin(tmp_path_factory.mktemp("room") / "work", "--port", str(kept_port(3)), "--ranks", "3")
    yield room
    assert "All servers have stopped." in room.end()


def asked(place: str, token: str, path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{place}{path}", data, {"Authorization": f"token {token}"}, method=method)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def result_of(place: str, token: str, code: str) -> str:
    """Start a kernel on that server, run a cell, and read what it shows or raises, as JupyterLab does."""
    kernel = asked(place, token, "/api/kernels", {"name": "python3"})["id"]
    address = f"{place.replace('http', 'ws')}/api/kernels/{kernel}/channels"
    channels = websocket.create_connection(address, header=[f"Authorization: token {token}"], timeout=120)
    header = {
        "msg_id": uuid.uuid4().hex,
        "msg_type": "execute_request",
        "session": "s",
        "username": "",
        "version": "5.3",
    }
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    channels.send(
        json.dumps({"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content})
    )
    shown = ""
    while True:
        message = json.loads(channels.recv())
        if message["parent_header"].get("msg_id") != header["msg_id"]:
            continue
        if message["msg_type"] == "execute_result":
            shown = message["content"]["data"]["text/plain"]
        if message["msg_type"] == "error":
            shown = "\n".join(message["content"]["traceback"])
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            channels.close()
            asked(place, token, f"/api/kernels/{kernel}", method="DELETE")
            return shown


@nightly
def test_each_learner_gets_a_link_a_folder_and_the_notebooks(room: Room) -> None:
    assert len({token for _, token in room.links}) == len({place for place, _ in room.links}) == 3
    assert (room.folder / "links.txt").read_text().splitlines() == [
        line for line in room.said.splitlines() if line.startswith("learner ")
    ]
    assert (room.folder / "links.txt").stat().st_mode & 0o077 == 0
    for number, (place, token) in enumerate(room.links, 1):
        there = {entry["name"] for entry in asked(place, token, "/api/contents")["content"]}
        assert {path.name for path in (ROOT / "notebooks").glob("*.ipynb")} <= there
        assert (room.folder / f"learner-{number:02}" / FIRST).is_file()


@nightly
def test_jupyterlab_saves_widgets_and_asks_for_no_news(room: Room) -> None:
    (place, token), *_ = room.links
    for plugin, setting, wanted in (
        ("@jupyter-widgets/jupyterlab-manager:plugin", "saveState", True),
        ("@jupyterlab/apputils-extension:notification", "fetchNews", "false"),
        ("@jupyterlab/apputils-extension:notification", "checkForUpdates", False),
    ):
        settings = asked(place, token, f"/lab/api/settings/{plugin}")["schema"]["properties"]
        assert settings[setting]["default"] == wanted


def test_an_address_and_a_token_typed_by_hand_lead_to_the_first_lesson(room: Room) -> None:
    """As JupyterLab's own page asks for them; a link needs no page."""
    (place, token), *_ = room.links
    strips = (room.folder / "strips.html").read_text()
    assert f"open <code>{place.removeprefix('http://')}</code> and enter the token <code>{token}</code>" in strips
    assert (room.folder / "strips.html").stat().st_mode & 0o077 == 0
    for by_link in (True, False):
        cookies = http.cookiejar.CookieJar()
        handlers = (urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(cookies))
        browser = urllib.request.build_opener(*handlers)
        with browser.open(f"{place}/?token={token}" if by_link else place, timeout=60) as page:
            opened, shown = page.url, page.read().decode()
        if not by_link:
            assert "Password or token" in shown
            (xsrf,) = (cookie.value for cookie in cookies if cookie.name == "_xsrf")
            typed = urllib.parse.urlencode({"password": token, "_xsrf": xsrf}).encode()
            with browser.open(opened, typed, timeout=60) as page:
                opened = page.url
        assert urllib.parse.urlparse(opened).path == f"/lab/tree/{FIRST}"


@pytest.mark.no_second_try
def test_a_link_opens_one_room_and_no_other(room: Room) -> None:
    (place, _), (_, anothers_token), *_ = room.links
    with pytest.raises(urllib.error.HTTPError, match="403"):
        asked(place, anothers_token, "/api/contents")


@nightly
def test_a_kernel_launches_ranks_within_the_limits(room: Room) -> None:
    place, token = room.links[0]
    assert result_of(place, token, LAUNCH.format(ranks=3)) == "[0, 10, 20]"
    refusal = result_of(place, token, LAUNCH.format(ranks=4))
    assert "your instructor allows at most 3 ranks in a launch on this machine; use 3 or fewer" in refusal


WHO_READS = """
import json, os, psutil, stat
from ipykernel.kernelapp import IPKernelApp
app = IPKernelApp.instance()
ports = [c for c in psutil.Process().net_connections("inet") if c.status == "LISTEN"]
sockets = [c.laddr for c in psutil.Process().net_connections("unix") if c.laddr.startswith(os.path.dirname(app.ip))]
rights = {{oct(stat.S_IMODE(os.stat(os.path.dirname(os.path.dirname(path))).st_mode)) for path in sockets}}
shown = [name for name, value in os.environ.items() if {token!r} in value]
app.transport, len(sockets) >= 5, rights, len(ports) <= 1, shown
"""


@pytest.mark.no_second_try
def test_what_belongs_to_one_learner_is_out_of_reach_of_others(room: Room) -> None:
    """Each mode alone would be enough, so each is looked at: one of them may go in a later change."""
    hidden = [folder / ".room" for folder in sorted(room.folder.glob("learner-*"))]
    assert [stat.S_IMODE(path.stat().st_mode) for path in (room.folder, *hidden)] == [0o700] * 4
    assert [stat.S_IMODE((path / "config").stat().st_mode) for path in hidden] == [0o700] * 3
    secrets = [path / name for path in hidden for name in ("token", "config/jupyter_server_config.json")]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o600] * 6

    processes = psutil.Process(room.process.pid).children()
    servers = [process for process in processes if "JUPYTER_RUNTIME_DIR" in process.environ()]
    assert len({server.environ()["JUPYTER_RUNTIME_DIR"] for server in servers}) == len(servers) == 3
    assert {address for server in servers for address, _ in listening(server)} == {"127.0.0.1"}
    assert not any("JUPYTER_TOKEN" in server.environ() for server in servers)


@pytest.mark.no_second_try
def test_what_a_kernel_says_is_for_its_server_only(room: Room) -> None:
    """Over sockets in a private folder; the one port that is left is its own children's, and says nothing. Nor can a
    learner print the token by mistake."""
    place, token = room.links[2]
    assert result_of(place, token, WHO_READS.format(token=token)) == "('ipc', True, {'0o700'}, True, [])"


@nightly
def test_templates_of_all_learners_come_from_one_seed(room: Room) -> None:
    code = "import os; from ddp_lessons import launch; launch(lambda rank, world_size: os.getppid(), 2)[0]"
    templates = [int(result_of(place, token, code)) for place, token in room.links[:2]]
    assert templates[0] != templates[1]
    assert eventually(lambda: not any(map(psutil.pid_exists, templates))), "each goes with its kernel"


@nightly
def test_a_server_that_ends_comes_back_and_a_room_that_begins_anew_keeps_links_and_work(tmp_path: Path) -> None:
    port = str(kept_port())
    room = begin(tmp_path / "work", "--port", port, learners=1)
    (place, token), *_ = room.links
    asked(place, token, "/api/contents/mine.txt", {"type": "file", "format": "text", "content": "work"}, "PUT")
    changed = room.folder / "learner-01" / FIRST
    changed.write_text(changed.read_text().replace('"nbformat": 4', '"nbformat" : 4'))
    asked(place, token, "/api/shutdown", {})  # as File > Shut Down does
    assert room.process.stdout is not None
    assert "learner 1 has ended and is being restarted" in room.process.stdout.readline()
    room.end()
    again = begin(tmp_path / "work", "--port", port, learners=1)
    assert again.links == room.links
    assert asked(place, token, "/api/contents/mine.txt")["content"] == "work"
    assert '"nbformat" : 4' in changed.read_text()
    again.end()


def refusal(*options: str) -> str:
    done = subprocess.run(**command(*options), capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    return str(done.stderr)


def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    assert "DDP_LESSONS_MOST_RANKS is 'four' in the environment" in refusal("--ranks", "four")
    assert "there are no notebooks in" in refusal("--notebooks", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal("--learners", "1", "--port", str(port))
    assert f"port {port} is in use" in said
    assert f"run: kill {os.getpid()})" in said


def in_a_terminal_of_its_own() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs these tests under nohup ignores it


@nightly
@pytest.mark.no_second_try
def test_a_lost_ssh_session_ends_it_with_all_its_servers(tmp_path: Path) -> None:
    """The terminal goes away, as when the network does: the system sends SIGHUP, and printing fails."""
    terminal, its_end = os.openpty()
    process = subprocess.Popen(
        **command("--learners", "1", "--folder", str(tmp_path / "work"), "--port", str(kept_port())),
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
        preexec_fn=in_a_terminal_of_its_own,
    )
    BEGUN.append(process)
    os.close(its_end)
    said = b""
    while b"Press Ctrl+C to stop all servers" not in said:
        said += os.read(terminal, 10_000)
    family = psutil.Process(process.pid).children(recursive=True)
    assert any("jupyterlab" in member.cmdline() for member in family)
    os.close(terminal)
    process.send_signal(signal.SIGHUP)  # and the shell sends its own
    process.wait(60)
    assert eventually(lambda: not any(map(psutil.Process.is_running, family)))


@nightly
def test_what_is_stopped_while_it_starts_leaves_nothing_behind(tmp_path: Path) -> None:
    process = subprocess.Popen(
        **command("--learners", "3", "--folder", str(tmp_path / "work"), "--port", str(kept_port(3))),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    BEGUN.append(process)
    assert eventually(lambda: len(psutil.Process(process.pid).children()) >= 2), "the seed, and the first server"
    process.terminate()
    family = psutil.Process(process.pid).children(recursive=True)
    assert "All servers have stopped." in process.communicate(timeout=60)[0]
    assert eventually(lambda: not any(map(psutil.Process.is_running, family)))


def test_links_name_the_number_of_this_machine_in_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def interfaces(**numbers: str) -> Any:
        return {name: [SimpleNamespace(family=socket.AF_INET, address=number)] for name, number in numbers.items()}

    up = {name: SimpleNamespace(isup=name != "eth9") for name in ("lo", "docker0", "wlan0", "eth9", "eth0")}
    known = interfaces(lo="127.0.0.1", docker0="172.17.0.1", wlan0="192.168.1.20", eth9="10.0.0.9", eth0="169.254.3.4")
    monkeypatch.setattr(psutil, "net_if_stats", lambda: up)
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: known)
    assert handouts.own_numbers() == ["192.168.1.20"]
    parser = argparse.ArgumentParser()
    add_room(parser.add_subparsers())
    for options, name in (
        (["--host", "0.0.0.0"], "192.168.1.20"),
        (["--host", "0.0.0.0", "--name", "board.example"], "board.example"),
        ([], "127.0.0.1"),
    ):
        assert names_in_links(parser.parse_args(["room", *options])) == [name]
    assert handouts.address("fd00::2", 9001) == "http://[fd00::2]:9001"
