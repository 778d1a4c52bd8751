"""What a message says about plain torch is true: torch shows it here, with a short timeout."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly

from ddp_lessons import WorkerFailed, WorkersStuck, launch

BEGIN = "  torchrun would show: "
MILLISECONDS = 1500
Call = Callable[[int], object]


def receive_first(rank: int) -> None:
    dist.recv(torch.ones(1), 1 - rank)


def two_orders(rank: int) -> None:
    dist.all_reduce(torch.ones(1)) if rank == 0 else dist.broadcast(torch.ones(1), 0)


def leave(rank: int) -> None:
    if rank == 0:
        dist.all_reduce(torch.ones(1))


def last_line(call: Call) -> str:
    """Of what launch says."""
    with pytest.raises(WorkersStuck) as stuck:
        launch(lambda rank, world_size: call(rank), 2, quiet=True)
    return str(stuck.value).splitlines()[-1]


def torchs_words(call: Call) -> str:
    """Of torch itself, on both ranks; rank 1 stays for a while before it exits, as a process of torchrun might."""

    def run(rank: int, world_size: int) -> str:
        short = timedelta(milliseconds=MILLISECONDS)
        dist.init_process_group("gloo", timeout=short)
        if rank == 1 and call is leave:
            time.sleep(0.2)
            dist.destroy_process_group()
            return ""
        try:
            call(rank)
        except RuntimeError as error:
            return str(error)
        return "nothing"

    return "\n".join(launch(run, 2, join=False, record=False, quiet=True))  # the first timeout closes connections


@nightly
@pytest.mark.parametrize("call", by_day([receive_first, two_orders], 1))
def test_a_hang_ends_in_plain_torch_with_the_words_of_its_message(call: Call) -> None:
    line = last_line(call)
    assert line.startswith(BEGIN)
    (words,) = re.findall(r'"([^"]+)", after 30 minutes', line)
    assert words.replace("1800000", str(MILLISECONDS)) in torchs_words(call)


def test_a_rank_that_returned_closes_the_connection() -> None:
    line = last_line(leave)
    assert line.startswith(f'{BEGIN}"Connection closed by peer" when a rank exits')
    assert "Connection closed by peer" in torchs_words(leave)


def test_wrong_results_are_no_error_in_plain_torch() -> None:
    def run(rank: int, world_size: int) -> None:
        dist.all_reduce(torch.ones(1), dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)

    with pytest.raises(WorkerFailed) as failed:
        launch(run, 2, quiet=True)
    assert str(failed.value).splitlines()[-1] == f"{BEGIN}no error."
    assert len(launch(run, 2, record=False, quiet=True)) == 2
