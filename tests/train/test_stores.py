"""The stores in which ranks leave notes, as the lessons tell of them: four kinds of the same board."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import FileStore, HashStore, PrefixStore, TCPStore

from ddp_lessons import launch

SECOND = timedelta(seconds=1)
BOARDS: dict[str, Callable[[Path], Any]] = {
    "TCPStore": lambda folder: TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=SECOND),
    "FileStore": lambda folder: FileStore(str(folder / "board"), 1),
    "HashStore": lambda folder: HashStore(),
    "PrefixStore": lambda folder: PrefixStore("one call", HashStore()),
}


@pytest.mark.parametrize("kind", BOARDS)
def test_every_kind_keeps_notes_in_the_same_way(kind: str, tmp_path: Path) -> None:
    board = BOARDS[kind](tmp_path)
    board.set_timeout(timedelta(seconds=0.2))
    board.set("tea", "at four")
    board.wait(["tea"])
    assert (board.get("tea"), board.check(["tea"]), board.check(["tea", "coffee"])) == (b"at four", True, False)
    assert [board.add("guests", 1), board.add("guests", 2)] == [1, 3]
    assert board.compare_set("tea", "at four", "at five") == b"at five"
    assert board.compare_set("tea", "at four", "never") == b"at five"
    assert (board.delete_key("tea"), board.check(["tea"])) == (True, False)
    with pytest.raises(RuntimeError):  # the time is up; a FileStore says so with the bare class
        board.get("coffee")


def test_under_a_prefix_notes_of_one_name_do_not_meet() -> None:
    board = HashStore()
    first, second = (PrefixStore(name, board) for name in ("first", "second"))
    first.set("tea", "at four")
    second.set("tea", "at five")
    assert (first.get("tea"), second.get("tea")) == (b"at four", b"at five")


def test_a_server_waits_for_its_clients_unless_told_otherwise() -> None:
    with pytest.raises(dist.DistStoreError, match="clients"):
        TCPStore("127.0.0.1", 0, world_size=2, is_master=True, timeout=SECOND)


def test_a_port_has_one_server() -> None:
    board = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with pytest.raises(dist.DistNetworkError, match="EADDRINUSE"):
        TCPStore("127.0.0.1", board.port, is_master=True, wait_for_workers=False)


def test_ranks_read_what_another_process_wrote(tmp_path: Path) -> None:
    board = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    board.set("tea", "at four")

    def read(rank: int, world_size: int) -> tuple[bytes, int]:
        file = FileStore(str(tmp_path / "board"), world_size)
        return TCPStore("127.0.0.1", board_port, is_master=False).get("tea"), file.add("tickets", 1)

    board_port = board.port
    notes, tickets = zip(*launch(read, 3), strict=True)
    assert notes == (b"at four",) * 3
    assert sorted(tickets) == [1, 2, 3]
