"""What a local launch names, a launch on nodes names too, with the node; and it leaves nothing there."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import psutil
import pytest
import torch.distributed as dist
from catalog.failures_on_nodes import Case, Pair, cases, outcome, pairs, processes_on
from catalog.programs.collectives import different_reduce_ops
from catalog.programs.failing import all_raise_alike
from catalog.sshd import SSHD
from nights import by_day, nightly
from places import here, leave_out, reconnect
from processes import eventually, when_a_launch_waits

from ddp_lessons import WorkerFailed, Workers, launch
from ddp_lessons.machines import Machines, SlurmOnMachines
from ddp_lessons.run.diagnosis.failure_messages import not_to_be_trusted, worker_failed
from ddp_lessons.run.diagnosis.wording import Reason
from ddp_lessons.run.nodes.node_commands import NodeLost
from ddp_lessons.run.nodes.node_group import connected
from ddp_lessons.run.nodes.node_link import NodeLink

cloudpickle.register_pickle_by_value(sys.modules[__name__])

Function = Callable[[int, int], object]


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        launch(where, 4, on=machines)
        yield machines


def where(rank: int, world_size: int) -> str:
    return socket.gethostname()


def raise_alone(rank: int, world_size: int) -> None:
    raise ValueError("without a call that needs the network")


def kill_what_forked_it(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 2:
        os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def kill_the_agent(rank: int, world_size: int) -> None:
    dist.barrier()
    if rank == 2:
        psutil.Process().parents()[1].kill()
    time.sleep(600)


def works(machines: Machines) -> bool:
    return list(launch(where, 4, on=machines)) == ["machine0"] * 2 + ["machine1"] * 2


@pytest.mark.parametrize("case", by_day(cases(), 2), ids=lambda case: case.name)
def test_it_is_named_as_here_with_the_node_and_nothing_is_left(machines: Machines, case: Case) -> None:
    check_message_and_rest(Pair(case, outcome(case), outcome(case, machines, lambda: processes_on(machines))))


def check_message_and_rest(pair: Pair) -> None:
    assert pair.is_same, f"{pair.here.message}\n\n{pair.there.message}"
    assert pair.names_node is not False, pair.there.message
    assert pair.there.is_alive
    assert pair.there.left == 0


@nightly
@pytest.mark.parametrize("kind", ["hosts", "slurm"])
def test_so_it_is_over_ssh_and_in_a_slurm(kind: str) -> None:
    """The table makes all of them there, too."""
    here(SlurmOnMachines(2) if kind == "slurm" else Machines(2))
    if kind == "hosts" and not SSHD.exists():
        leave_out("openssh-server is missing", can_be_installed=True)
    names = ["one_returned", "different_shapes", "raises", "is_killed", "leaves_a_child", "is_interrupted"]
    found = list(pairs(kind, names))
    for pair in found:
        check_message_and_rest(pair)
    assert sorted(pair.case.name for pair in found) == sorted(names)


def test_of_several_ranks_the_nodes_are_named(machines: Machines) -> None:
    with pytest.raises(WorkerFailed) as caught:
        launch(all_raise_alike, 4, on=machines)
    headline = str(caught.value).splitlines()[0]
    assert headline == "all 4 ranks on machine0 and machine1 raised ValueError: all alike"
    with pytest.raises(WorkerFailed) as caught:
        launch(different_reduce_ops, 4, on=machines)
    nodes, step, _ = str(caught.value).splitlines()[2:]
    assert nodes == "  Nodes: ranks 0 and 1 on machine0, ranks 2 and 3 on machine1."
    assert step == "  Next: pass the same op on every rank."


@pytest.mark.parametrize("function", [all_raise_alike, different_reduce_ops])
def test_without_its_nodes_a_message_is_that_of_a_launch_here(machines: Machines, function: Function) -> None:
    failures = []
    for on in (None, machines):
        with pytest.raises(WorkerFailed) as caught:
            launch(function, 4, on=on)
        failures.append(str(caught.value.without_nodes()))
    assert failures[0] == failures[1]


def test_of_many_nodes_only_their_number_is_named() -> None:
    with pytest.raises(WorkerFailed) as caught:
        launch(all_raise_alike, 9)
    results = caught.value.results
    account = replace(caught.value._account, nodes=tuple(f"node{number}" for number in range(9)))
    failed = worker_failed(account, results)
    assert str(failed).startswith("all 9 ranks on 9 nodes raised ValueError: all alike\n")
    assert str(failed.without_nodes()) == str(caught.value)
    wrong = not_to_be_trusted(account, results, Reason(["Rank 3 did it."], "do not", rank=3, name="op mismatch"))
    assert str(wrong).splitlines()[2] == "  Nodes: rank 3 on node3."


def test_a_process_that_would_be_left_is_seen(machines: Machines) -> None:
    before = processes_on(machines)
    machines.run(1, ["sh", "-c", "sleep 600 >/dev/null 2>&1 &"])
    (left,) = processes_on(machines) - before
    assert psutil.Process(left).cmdline() == ["sleep", "600"]
    os.kill(left, signal.SIGKILL)


@nightly
def test_ranks_that_end_with_what_forked_them_are_named_and_the_node_forks_others(machines: Machines) -> None:
    with pytest.raises(WorkerFailed) as caught:
        launch(kill_what_forked_it, 4, on=machines)
    headline = str(caught.value).splitlines()[0]
    assert headline == "ranks 2 and 3 of 4 on machine1 exited together with the process that they were forked from"
    assert works(machines)


def test_a_torch_that_a_node_cannot_import_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.12: cannot open it')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    ask = NodeLink.ask

    def ask_and_wait(link: NodeLink, what: str, *arguments: object) -> object:
        """The ranks may be gone before their launch goes on."""
        answer = ask(link, what, *arguments)
        time.sleep(what == "bear")
        return answer

    monkeypatch.setattr(NodeLink, "ask", ask_and_wait)
    with here(Machines(1)) as one:
        for _ in range(2):  # the second launch finds what the first one has left there
            with pytest.raises(WorkerFailed) as caught:
                launch(where, 2, on=one)
            lines = str(caught.value).splitlines()  # one more if a busy machine notices the second rank's end later
            assert lines[1] == "  Last output: ImportError: libcudart.so.12: cannot open it"
            assert lines[-1] == "  Next: run `python -m torch.utils.collect_env` on machine0: it imports torch, too."


@nightly
def test_an_interrupt_while_torch_is_imported_there_does_not_cost_the_node() -> None:
    with here(Machines(1)) as one:
        (link,) = connected(one).links
        when_a_launch_waits(lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt, match="rank 1 on machine0 "):
            launch(where, 2, on=one)
        assert not link.is_ready_within(0)
        assert list(launch(where, 2, on=one)) == ["machine0"] * 2


@nightly
def test_an_agent_that_is_killed_is_named_and_the_next_launch_starts_another(machines: Machines) -> None:
    before = processes_on(machines)
    with pytest.raises(WorkerFailed) as caught:
        launch(kill_the_agent, 4, on=machines)
    headline, last, *_ = str(caught.value).splitlines()
    assert headline == "ranks 2 and 3 of 4 on machine1 were lost together with the connection to machine1"
    assert last == "  Last output: lost the connection to machine1: its agent has ended"
    assert eventually(lambda: not processes_on(machines) - before)
    assert works(machines)


@nightly
def test_a_link_that_is_cut_before_the_ranks_meet_is_named_within_seconds(machines: Machines) -> None:
    assert works(machines)
    machines.cut(1)
    with pytest.raises(NodeLost) as caught:
        launch(where, 4, on=machines, timeout_seconds=3)
    reconnect(machines, 1)
    assert str(caught.value).splitlines() == [
        "machine1 does not reach machine0 any more (10.77.0.1), so their ranks can't meet. No function was called.",
        "  Next: check that machine0 and machine1 are up, and that each can connect to the other on any port; then "
        "launch again.",
    ]
    assert works(machines)


@nightly
def test_ranks_that_stay_end_if_they_cannot_meet_again(machines: Machines) -> None:
    with Workers(4, on=machines, standing=True, quiet=True) as workers:
        workers.run(where)
        machines.cut(1)
        with pytest.raises(WorkerFailed, match="All ranks were"):
            workers.run(raise_alone)
        with pytest.raises(NodeLost, match="machine1 does not reach machine0 any more"):
            workers.run(where)
        reconnect(machines, 1)
        with pytest.raises(RuntimeError, match="closed: machine1 does not reach machine0 any more"):
            workers.run(where)
    assert works(machines)


def test_a_node_that_is_switched_off_while_ranks_start_is_named_at_once() -> None:
    with here(Machines(2)) as two:
        links = connected(two).links
        moments: list[float] = []

        def power_off() -> None:
            moments.append(time.monotonic())
            two.power_off(1)

        when_a_launch_waits(power_off)
        with pytest.raises(WorkerFailed) as caught:
            launch(where, 4, on=two)
        assert not links[0].is_ready_within(0)
        headline = str(caught.value).splitlines()[0]
        assert headline == "ranks 2 and 3 of 4 on machine1 were lost together with the connection to machine1"
