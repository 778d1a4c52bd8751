"""What lies in a folder of dumps is read without running any of it; what cannot be read is named."""

from __future__ import annotations

import functools
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from simulated_dumps import world, write_all

from ddp_lessons.dumps.dump_files import Unreadable, find_dumps, read_dump
from ddp_lessons.dumps.explain_command import explain_dumps
from ddp_lessons.dumps.left_behind import read_left_behind

pytestmark = pytest.mark.no_second_try


class Touches:
    """Unpickled by Python, it creates a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


def dumps_in(folder: Path, size: int = 3) -> Path:
    ranks = world(size)
    for rank in ranks:
        rank.call("all_reduce")
    return write_all(ranks, folder)


def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trap, bait = tmp_path / "bait_0", tmp_path / "created"
    trap.write_bytes(pickle.dumps({"version": "2.10", "pg_config": {}, "entries": [Touches(bait)]}))
    assert explain_dumps(str(tmp_path / "bait_")) == 2
    said = capsys.readouterr().err
    assert not bait.exists()
    assert f"bait_0 was refused, and nothing in it was run: the pickle names {os.mkdir.__module__}.mkdir" in said
    pickle.loads(trap.read_bytes())  # the trap works
    assert bait.is_dir()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Pname\n.",
        b"\x80\x02(ios\nsystem\n.",
        pickle.dumps({"a": {1, 2}, "b": range(3)}),
    ],
    ids=["persistent id", "instance", "range"],
)
def test_nothing_but_data_is_unpickled(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x_0"
    path.write_bytes(data)
    with pytest.raises(Unreadable, match="x_0 was refused, and nothing in it was run: the pickle names"):
        read_dump(path)


def test_a_truncated_dump_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    dumps_in(tmp_path)
    whole = (tmp_path / "nccl_trace_rank_1").read_bytes()
    (tmp_path / "nccl_trace_rank_1").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "nccl_trace_rank_2").write_bytes(b"")
    left = read_left_behind(str(tmp_path))
    assert left.missing == [1, 2]
    assert "nccl_trace_rank_1 is truncated" in left.left_out[0]
    assert "nccl_trace_rank_2 is empty" in left.left_out[1]


def test_wherever_a_dump_ends_it_is_no_crash(tmp_path: Path) -> None:
    whole = (dumps_in(tmp_path, 1) / "nccl_trace_rank_0").read_bytes()
    for end in range(1, len(whole), 7):
        (tmp_path / "nccl_trace_rank_0").write_bytes(whole[:end])
        with pytest.raises(Unreadable):
            read_dump(tmp_path / "nccl_trace_rank_0")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"hello", "is not a dump"),
        (b'{"version": "3.0", "pg_config": {}}', "has format version 3.0"),
        (b'{"version": "2.10", "pg_config": {}, "entries": [{}]}', "is damaged: an entry is missing or invalid"),
        (
            b'{"version": "2.10", "pg_config": {"0": {"ranks": "[0, 999999999999]"}}}',
            "is damaged: an entry is missing or invalid",
        ),
        (b'{"version": "2.10", "pg_config": {"0"', "is truncated"),
        (b"[" * 100_000, "is not a dump"),
        (
            b'{"version": "2.10", "pg_config": {"0": {"ranks": "' + b"[" * 100_000 + b'"}}}',
            "is damaged: an entry is missing or invalid",
        ),
        (
            pickle.dumps({"version": "2.10", "pg_config": {}, "entries": [None]}),
            "is damaged: an entry is missing or invalid",
        ),
    ],
)
def test_foreign_and_damaged_files_are_named(content: bytes, said: str, tmp_path: Path) -> None:
    dumps_in(tmp_path, 2)
    (tmp_path / "nccl_trace_rank_2").write_bytes(content)
    left = read_left_behind(str(tmp_path))
    assert "nccl_trace_rank_2" in left.left_out[0]
    assert said in left.left_out[0]


def test_files_with_other_names_and_pipes_are_left_alone(tmp_path: Path) -> None:
    dumps_in(tmp_path)
    for name in ("README", "other_7", "nccl_trace_rank_1.json"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "nccl_trace_rank_").mkdir()
    os.mkfifo(tmp_path / "nccl_trace_rank_3")  # of TORCH_NCCL_DEBUG_INFO_PIPE_FILE; to read it would wait forever
    by_rank, left_out = find_dumps(str(tmp_path))
    assert sorted(by_rank) == [0, 1, 2]
    assert [sentence.split()[0] for sentence in left_out] == ["README", "nccl_trace_rank_1.json", "other_7"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("filename", functools.reduce(lambda inside, _: [inside] * 2, range(40), list[Any]()), "nested too deeply"),
        ("line", 10**100_000, "a number has too many digits"),
    ],
    ids=["deep", "digits"],
)
def test_a_value_that_grows_when_it_is_printed_is_refused(field: str, value: object, said: str, tmp_path: Path) -> None:
    (rank,) = world(1)
    rank.call("all_reduce")
    rank.entries[0]["frames"][2][field] = value
    with pytest.raises(Unreadable, match=said):
        read_left_behind(str(write_all([rank], tmp_path)))


def test_a_dump_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_lessons.dumps.dump_files._LARGEST", 100)
    with pytest.raises(Unreadable, match="nccl_trace_rank_0 is larger than 100 bytes"):
        read_left_behind(str(dumps_in(tmp_path, 1)))


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "large", "\x1b[2J\x1b]0;mine\x07\x9b\u202etrain.py"])
def test_a_line_is_read_only_from_an_ordinary_file_and_printed_without_codes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with open("large", "wb") as sparse:
        sparse.truncate(3_000_000_000)
    ranks = world(2)
    ranks[0].call("all_reduce", state="scheduled")
    ranks[0].entries[0]["frames"][2]["filename"] = name
    os.mkdir("dumps")
    assert explain_dumps(str(write_all(ranks, tmp_path / "dumps"))) == 1
    said = capsys.readouterr().out
    assert re.search(r"all_reduce of float32 \[4\] \((zero|pipe|large|train.py) line 9\)", said)
    assert all(letter.isprintable() or letter == "\n" for letter in said)


def test_the_beginning_of_the_names_chooses_one_of_two_jobs(tmp_path: Path) -> None:
    for rank in world(3):
        rank.write(tmp_path, prefix="first_")
    for rank in world(2):
        rank.write(tmp_path, prefix="second_")
    assert len(find_dumps(str(tmp_path / "second_"))[0]) == 2
    assert find_dumps(str(tmp_path / "third_")) == ({}, [])


def test_without_dumps_or_calls_nothing_can_be_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain_dumps(str(tmp_path)) == 2
    assert "contains no dump" in capsys.readouterr().err
    write_all(world(2), tmp_path)
    assert explain_dumps(str(tmp_path)) == 2
    assert "TORCH_FR_BUFFER_SIZE" in capsys.readouterr().out
