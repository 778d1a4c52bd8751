"""Machines made of namespaces: they reach each other, only by their cables, and nothing of them is left."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from nights import nightly
from places import here, reconnect
from processes import eventually

from ddp_lessons.machines import Machines, NotHere, namespaces
from ddp_lessons.machines.places import environment_of_jobs

LISTEN = (
    "import socket; s = socket.create_server(('', 5000)); print('listens', flush=True); s.accept()[0].sendall(b'tea')"
)
CALL = "import socket; print(socket.create_connection(('machine0', 5000), 1).recv(3))"


@pytest.fixture(scope="module")
def three() -> Iterator[Machines]:
    with here(Machines(3)) as machines:
        yield machines


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", source]


def interfaces() -> list[str]:
    said = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True, env=namespaces_path())
    return sorted(line.split(":")[1].strip() for line in said.stdout.splitlines())


def namespaces_path() -> dict[str, str]:
    return {"PATH": "/usr/bin:/usr/sbin:/sbin:/bin"}


def test_each_has_a_name_and_an_address_of_its_own(three: Machines) -> None:
    names = [three.run(number, "hostname").stdout.strip() for number in range(3)]
    assert names == ["machine0", "machine1", "machine2"] == [*three.names]
    for number, address in enumerate(three.addresses):
        shown = three.run(number, "ip -o -4 address show dev eth0").stdout
        assert f" {address}/24 " in shown


def test_they_reach_each_other_by_name_and_not_over_this_machine_s_network(three: Machines) -> None:
    server = three.start('python -S -E -c "' + LISTEN + '"', [0])
    server.wait_for("listens")
    assert three.run(2, python(CALL)).stdout == "b'tea'\n"
    assert server.finish(10).statuses == (0,)
    # from outside the address leads nowhere
    outside = CALL.replace("machine0", three.addresses[0])
    assert subprocess.run(python(outside), capture_output=True, check=False).returncode != 0


@nightly
def test_without_its_cable_a_machine_hears_nothing_and_with_it_again(three: Machines) -> None:
    server = three.start('python -S -E -c "' + LISTEN + '"', [0])
    server.wait_for("listens")
    three.cut(0)
    cut_off = three.run(1, python(CALL))
    assert cut_off.returncode != 0
    assert "timed out" in cut_off.stderr or "No route" in cut_off.stderr
    reconnect(three, 0)
    assert three.run(1, python(CALL)).stdout == "b'tea'\n"
    assert server.finish(10).ended_well


def test_who_is_stopped_says_what_it_had_to_say_before(three: Machines) -> None:
    attempt = three.everywhere("sh -c 'echo $HOSTNAME here; hostname; exec sleep 60'", timeout_seconds=1)
    assert attempt.statuses == (None, None, None)
    assert [attempt.lines(number)[-1] for number in range(3)] == ["machine0", "machine1", "machine2"]
    assert not attempt.ended_well
    left = [child for pid in three._pids for child in psutil.Process(pid).children(recursive=True)]
    assert not [child for child in left if child.name() == "sleep"]


def test_to_wait_for_words_that_nobody_says_ends_and_shows_what_was_said(three: Machines) -> None:
    job = three.start("echo something else", [1])
    with pytest.raises(TimeoutError, match="something else"):
        job.wait_for("tea", 5)


@pytest.mark.no_second_try
def test_nothing_is_left_of_machines_and_this_machine_s_network_is_what_it_was() -> None:
    before = interfaces() if not Machines().why_not() else []
    with here(Machines(2)) as machines:
        pids = [*machines._pids, machines._switch_pid]
        assert interfaces() == before
        job = machines.start("sleep 100")
        asleep = [process.pid for pid in machines._pids for process in psutil.Process(pid).children(recursive=True)]
    assert all(not psutil.pid_exists(pid) for pid in [*pids, *asleep])
    assert job.is_over() or eventually(job.is_over)
    assert interfaces() == before


MAKER = """
import sys, time
from ddp_lessons.machines import Machines
with Machines(2) as machines:
    job = machines.start("sleep 1000")
    print(*machines._pids, machines._switch_pid, flush=True)
    time.sleep(1000)
"""


@nightly
@pytest.mark.no_second_try
def test_nothing_is_left_when_the_maker_is_killed() -> None:
    here(Machines(2))
    with subprocess.Popen([sys.executable, "-c", MAKER], stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        pids = [int(word) for word in maker.stdout.readline().split()]
        assert len(pids) == 3
        assert all(map(psutil.pid_exists, pids))
        maker.send_signal(signal.SIGKILL)
    assert eventually(lambda: not any(map(psutil.pid_exists, pids)))


def test_a_machine_that_is_switched_off_is_gone_and_the_others_stay() -> None:
    with here(Machines(2)) as machines:
        gone = machines._pids[1]
        machines.power_off(1)
        assert not psutil.pid_exists(gone)
        assert machines.run(0, "hostname").stdout == "machine0\n"


WAITS_FOR_A_CALL = """
import socket
with socket.create_server(("", 5000)) as server:
    print("is there", flush=True)
    print(server.accept()[0].recv(100).decode(), "called")
"""
SLEEPS = "import time; print('is there', flush=True); time.sleep(1000)"
CALLS = "import os, socket; socket.create_connection(('machine0', 5000), 10).send(os.uname().nodename.encode())"


def test_a_machine_that_is_switched_on_again_reaches_the_others_and_goes_on_in_the_same_log() -> None:
    with here(Machines(2)) as machines:
        job = machines.start(lambda machine: [sys.executable, "-c", WAITS_FOR_A_CALL if machine == 0 else SLEEPS])
        job.wait_for("is there", times=2)
        machines.power_off(1)
        machines.power_on(1)
        with pytest.raises(RuntimeError, match="machine 1 is on"):
            machines.power_on(1)
        machines.start([sys.executable, "-c", CALLS], [1], job=job)
        attempt = job.finish(20)
    assert attempt.ended_well, attempt
    assert (attempt.lines(0), attempt.lines(1)) == (["is there", "machine1 called"], ["is there"])
    assert [(one.machine, one.line) for one in attempt.happened] == [
        (1, "the machine is switched off"),
        (1, "the machine is on again"),
    ]


def test_a_cable_of_a_machine_that_is_gone_is_left_in_peace() -> None:
    with here(Machines(2)) as machines:
        machines.power_off(1)
        machines.cut(1)
    machines.cut(0)


def test_what_happened_to_a_cable_is_kept_with_its_moment() -> None:
    with here(Machines(2)) as machines:
        machines.cut(0)
        job = machines.start("sleep 0.4")
        machines.cut(1)
        attempt = job.finish(10)
    ((machine, seconds, words),) = attempt.happened
    assert (machine, words) == (1, "the network link is down")
    assert 0 < seconds < attempt.seconds


def test_a_wrong_number_and_machines_that_are_not_made_are_named() -> None:
    with pytest.raises(RuntimeError, match="these machines are not made yet"):
        Machines(2).cut(1)
    with here(Machines(2)) as machines:
        for call in (
            machines.cut,
            machines.power_off,
            machines.power_on,
            lambda number: machines.run(number, "true"),
        ):
            with pytest.raises(ValueError, match="there is no machine 5: they are numbered from 0 to 1"):
                call(5)


def test_a_line_leaves_a_program_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks of one torchrun share a pipe: what comes in pieces mixes with the others'."""
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # keeps apart what was written apart
    with ours, its:
        command = [sys.executable, "-S", "-c", "print('rank', 0, 'of', 2, flush=True)"]
        subprocess.run(command, stdout=its.fileno(), check=True, env=environment_of_jobs())
        assert ours.recv(1000) == b"rank 0 of 2\n"


def test_what_is_missing_is_said_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    namespaces._why_not.cache_clear()
    monkeypatch.setattr(namespaces, "_NEEDED", {"ip-of-nobody": "iproute2"})
    try:
        with pytest.raises(NotHere, match="no ip-of-nobody; on Debian and Ubuntu: apt-get install iproute2"):
            Machines(2).__enter__()
    finally:
        namespaces._why_not.cache_clear()


@pytest.mark.parametrize("count", [0, 17])
def test_so_many_machines_there_are_not(count: int) -> None:
    with pytest.raises(ValueError, match=f"1 to 16 machines, not {count}"):
        Machines(count)
