"""What a message says about plain torch is true: torch shows it here, with a short timeout."""

from __future__ import annotations

import mmap
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons import WorkerFailed, WorkersStuck, launch

BEGIN = "  torchrun would show: "
MILLISECONDS = 1500
Call = Callable[[int], object]


def all_reduce(rank: int) -> None:
    dist.all_reduce(torch.ones(1))


def receive_first(rank: int) -> None:
    dist.recv(torch.ones(1), 1 - rank)


def send_first(rank: int) -> None:
    dist.send(torch.ones(1), 1 - rank)


def two_orders(rank: int) -> None:
    dist.all_reduce(torch.ones(1)) if rank == 0 else dist.broadcast(torch.ones(1), 0)


def new_group(rank: int, timeout: timedelta | None = None) -> None:
    if rank == 0:
        dist.new_group(timeout=timeout)


def leave(rank: int) -> None:
    if rank == 0:
        all_reduce(rank)


def last_line(call: Call) -> str:
    """Of what launch says."""
    with pytest.raises(WorkersStuck) as stuck:
        launch(lambda rank, world_size: call(rank), 2, quiet=True)
    return str(stuck.value).splitlines()[-1]


def torchs_words(call: Call, seconds_alive: float) -> str:
    """Of torch itself, on both ranks; rank 1 stays for a while before it exits, as a process of torchrun might."""

    def run(rank: int, world_size: int) -> str:
        short = timedelta(milliseconds=MILLISECONDS)
        dist.init_process_group("gloo", timeout=short)
        if rank == 1 and call in (new_group, leave, receive_from_one_that_left):
            time.sleep(seconds_alive)
            dist.destroy_process_group()
            return ""
        try:
            new_group(rank, short) if call is new_group else call(rank)
        except RuntimeError as error:
            return str(error)
        return "nothing"

    return "\n".join(launch(run, 2, join=False, record=False, quiet=True))  # the first timeout closes connections


@nightly
@pytest.mark.parametrize("call", by_day([receive_first, send_first, two_orders, new_group], 1))
def test_a_hang_ends_in_plain_torch_with_the_words_of_its_message(call: Call) -> None:
    line = last_line(call)
    assert line.startswith(f"{BEGIN}after 30 minutes ")
    (words,) = re.findall(r'minutes "([^"]+)"', line)
    assert words.replace("1800000", str(MILLISECONDS)) in torchs_words(call, seconds_alive=4)


def test_a_rank_that_returned_closes_the_connection() -> None:
    line = last_line(leave)
    assert line.startswith(f'{BEGIN}"Connection closed by peer" when a rank exits')
    assert "Connection closed by peer" in torchs_words(leave, seconds_alive=0.2)


def receive_from_one_that_left(rank: int) -> None:
    if rank == 0:
        dist.recv(torch.ones(1), 1)


@nightly
def test_a_recv_that_waits_notices_an_exit_and_a_later_one_times_out() -> None:
    line = last_line(receive_from_one_that_left)
    assert line.startswith(f'{BEGIN}"Connection closed by peer" when a rank exits, or a timeout after 30 minutes')
    assert "Connection closed by peer" in torchs_words(receive_from_one_that_left, seconds_alive=0.5)


def test_ranks_that_wait_for_each_other_do_not_notice_the_exit_of_a_third() -> None:
    def two_of_three(rank: int, world_size: int) -> None:
        if rank < 2:
            send_first(rank)

    with pytest.raises(WorkersStuck) as stuck:
        launch(two_of_three, 3, quiet=True)
    assert "    rank 2   has returned" in str(stuck.value)
    assert str(stuck.value).splitlines()[-1].startswith(f'{BEGIN}after 30 minutes "Timed out waiting')


def test_nccls_words_are_those_of_its_watchdog() -> None:
    libraries = list((Path(torch.__file__).parent / "lib").glob("libtorch_cuda.*"))
    if not libraries:
        pytest.skip("this torch is built without NCCL")
    (words,) = re.findall(r'\(NCCL: "([^"]+)"\)', last_line(leave))
    with open(libraries[0], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        assert content.find(words.encode()) >= 0


def test_wrong_results_are_no_error_in_plain_torch() -> None:
    def run(rank: int, world_size: int) -> float:
        total = torch.ones(1)
        dist.all_reduce(total, dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
        return total.item()

    with pytest.raises(WorkerFailed) as failed:
        launch(run, 2, quiet=True)
    lines = str(failed.value).splitlines()
    assert lines[0] == "mismatched collectives, the results cannot be trusted"
    assert lines[-1] == f"{BEGIN}no error."
    assert len(launch(run, 2, record=False, quiet=True)) == 2


def test_a_size_mismatch_shows_torchs_own_words_and_none_of_ours_beside_them() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.recv(torch.ones(2), 0) if rank else dist.send(torch.ones(4), 1)

    with pytest.raises(WorkerFailed) as failed:
        launch(run, 2, quiet=True)
    message = str(failed.value)
    assert "op.preamble.length <= op.nbytes" in message
    assert "Shape mismatch between send and recv: rank 0 sends [4] float32" in message
    assert BEGIN not in message


def test_a_slow_rank_is_no_hang_and_has_no_such_line() -> None:
    with pytest.raises(WorkersStuck) as stuck:
        launch(lambda rank, world_size: time.sleep(100), 2, timeout_seconds=0.3, quiet=True)
    assert "torchrun" not in str(stuck.value)
