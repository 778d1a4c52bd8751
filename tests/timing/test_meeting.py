"""How long ranks on several nodes need to meet at the store of rank 0."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from processes import kept_port
from torch._C._distributed_c10d import TCPStore

from ddp_lessons.run.rank.private_store import wait_until_it_listens

_SECONDS_LATE = 0.05


def seconds_to_meet(before: Callable[[str, int], None]) -> float:
    """Of a rank that comes before the store is open, and does this first."""
    port = kept_port()
    took: list[float] = []

    def come() -> None:
        begin = time.perf_counter()
        before("127.0.0.1", port)
        TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
        took.append(time.perf_counter() - begin)

    early = threading.Thread(target=come)
    early.start()
    time.sleep(_SECONDS_LATE)
    store = TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False)
    early.join()
    del store
    return took[0]


def test_a_rank_that_comes_early_does_not_wait_for_torchs_next_try() -> None:
    torchs, ours = seconds_to_meet(lambda address, port: None), seconds_to_meet(wait_until_it_listens)
    assert _SECONDS_LATE <= ours < torchs / 2, (ours, torchs)
