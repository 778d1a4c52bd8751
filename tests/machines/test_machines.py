"""Simulated nodes reach each other over their links only, and nothing of them is left."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from nights import by_day, nightly
from places import here, reconnect
from processes import Program, eventually

from ddp_lessons.machines import Machines, NotHere, namespaces

LISTEN = "import socket; s = socket.create_server(('', 5000)); print('up', flush=True); print(s.accept()[0].recv(9))"
CALL = "import os, socket; socket.create_connection(('machine0', 5000), 1).send(os.uname().nodename.encode())"
SLEEP = "import time; print('up', flush=True); time.sleep(1000)"
MAKER = """
import sys
from ddp_lessons import launch
from ddp_lessons.machines import Machines
with Machines(2) as machines:
    launch(print, 2, on=machines, quiet=True)
    machines.start("sleep 1000")
    print("made", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def three() -> Iterator[Machines]:
    with here(Machines(3)) as machines:
        yield machines


def python(source: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", source]


def test_each_has_a_name_and_an_address_and_they_reach_each_other_only(three: Machines) -> None:
    assert [three.run(number, "hostname").stdout for number in range(3)] == [f"{name}\n" for name in three.names]
    for number, address in enumerate(three.addresses):
        assert f" {address}/24 " in three.run(number, "ip -o -4 address show dev eth0").stdout
    server = three.start(python(LISTEN), [0])
    server.wait_for("up")
    outside = CALL.replace("machine0", three.addresses[0])
    subprocess.run(python(outside), capture_output=True, check=False)  # whoever answers this, it is not machine 0
    assert three.run(2, python(CALL)).returncode == 0
    attempt = server.finish(10)
    assert (attempt.statuses, attempt.lines()) == ((0,), ["up", "b'machine2'"])


@nightly
def test_each_rank_of_a_launch_is_on_its_machine(three: Machines) -> None:
    attempt = three.launch(lambda rank, world_size: print(os.uname().nodename, rank, world_size))
    assert [attempt.lines(machine)[-1] for machine in range(3)] == [f"machine{rank} {rank} 3" for rank in range(3)]


def test_what_is_stopped_keeps_its_output_and_leaves_no_process(three: Machines) -> None:
    with pytest.raises(TimeoutError, match="something else"):
        three.start("echo something else", [1]).wait_for("tea", 5)
    attempt = three.everywhere("sh -c 'hostname; sleep 60 & exec sleep 60'", timeout_seconds=1)
    assert (attempt.statuses, sorted(attempt.lines())) == ((None, None, None), [*three.names])
    for machine in range(3):
        assert three.run(machine, "pgrep -x sh").stdout
        assert eventually(lambda: not three.run(machine, "pgrep -x sleep").stdout)  # noqa: B023  called at once


@pytest.mark.no_second_try
@pytest.mark.parametrize("end", by_day([Program.finish, Program.kill], 1))
def test_nothing_is_left_when_their_maker_ends_or_is_killed(end: Callable[[Program], object], tmp_path: Path) -> None:
    here(Machines(2))
    before = socket.if_nameindex()
    with Program(MAKER, environment={"TMPDIR": str(tmp_path)}) as maker:
        maker.wait_until_said("made")
        assert eventually(lambda: [process.name() for process in maker.marked()].count("sleep") == 2)
        assert socket.if_nameindex() == before
        end(maker)
        assert eventually(lambda: not maker.marked()), maker.marked()
    assert eventually(lambda: not os.listdir(tmp_path))
    assert socket.if_nameindex() == before


def test_a_machine_that_was_cut_off_or_switched_off_reaches_the_others_again_in_the_same_log() -> None:
    with here(Machines(2)) as machines:
        job = machines.start(lambda machine: python(SLEEP if machine else LISTEN))
        job.wait_for("up", times=2)
        machines.cut(1)
        assert machines.run(1, python(CALL)).stderr.endswith(("timed out\n", "No route to host\n"))
        reconnect(machines, 1)
        gone = psutil.Process(machines._anchors[1].pid)
        machines.power_off(1)
        assert not gone.is_running()
        machines.power_on(1)
        machines.start(python(CALL), [1], job=job)
        attempt = job.finish(20)
    assert attempt.ended_well, attempt
    assert (attempt.lines(0), attempt.lines(1)) == (["up", "b'machine1'"], ["up"])
    happened = ["the network link is down", "the machine is switched off", "the machine is on again"]
    assert [told[::2] for told in attempt.happened] == [(1, words) for words in happened]


def test_wrong_numbers_and_missing_commands_are_named(three: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="there is no machine 5: machines are numbered from 0 to 2"):
        three.cut(5)
    with pytest.raises(ValueError, match="from 1 to 16, not 17"):
        Machines(17)
    monkeypatch.setattr(namespaces, "_why_not", namespaces._why_not.__wrapped__)  # forget that this machine can
    monkeypatch.setattr(namespaces, "_NEEDED", {"ip-of-nobody": "iproute2"})
    with pytest.raises(NotHere, match="no ip-of-nobody; on Debian and Ubuntu, run `apt-get install iproute2`"):
        Machines(2).__enter__()
