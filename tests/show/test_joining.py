"""How ranks joined: the variables of each, the order in which they came, and a rank that never did."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from nights import nightly
from recorded import call, record

from ddp_lessons import WorkersStuck, launch, show


def join(rank: int, world_size: int, late: int = -1, coming: str = "") -> dict[str, str]:
    if rank == late:
        while len(os.listdir(coming)) < world_size - 1:
            time.sleep(0.01)
        time.sleep(0.5)
    elif coming:
        Path(coming, str(rank)).touch()
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    return {name: os.environ[name] for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")}


def join_by_file(rank: int, world_size: int, path: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world_size)


def words(figure: show.Figure) -> list[str]:
    return [shape["words"][2] for shape in figure.document["layouts"][-1]["shapes"] if "words" in shape]


def test_each_rank_is_drawn_with_the_variables_that_it_had() -> None:
    results = launch(join, 3, join=False)
    drawn = words(show.joining(results))
    told = [f"{name}={value}" for variables in results for name, value in variables.items()]
    assert [word for word in drawn if "=" in word] == told


@nightly
def test_the_late_rank_comes_last_and_only_then_all_know_each_other(tmp_path: Path) -> None:
    captions: list[str] = list(show.joining(launch(join, 3, 1, str(tmp_path), join=False)).document["captions"])
    assert captions[1] == "launch starts 3 processes and gives each its variables. Only RANK differs."
    assert [caption.endswith(": waiting.") for caption in captions[2:5]] == [True, True, False]
    assert re.match(r"Rank 1 calls init_process_group \d+\.\d s after", captions[4])
    assert captions[5].startswith("Each rank reads the addresses of the others")
    assert captions[6].startswith("all_reduce: the ranks communicate directly")


def test_before_rank_0_has_come_there_is_no_store(tmp_path: Path) -> None:
    document = show.joining(launch(join, 2, 0, str(tmp_path), join=False)).document
    assert document["captions"][2] == "Rank 1 calls init_process_group. Rank 0 has not opened the store yet: waiting."
    late = r"Rank 0 calls init_process_group \d+\.\d s after rank 1 and opens the store\. 2 of 2 ranks have joined\."
    assert re.fullmatch(late, document["captions"][3])
    shapes = document["layouts"][-1]["shapes"]
    of_store = [shape["since"] for shape in shapes if shape.get("words", [""])[-1] in ("store", "opened by rank 0")]
    assert of_store == [3, 3]


@nightly
def test_the_text_is_the_same_whoever_comes_first(tmp_path: Path) -> None:
    texts = set()
    for late in (-1, 0, 1):
        coming = tmp_path / str(late)
        coming.mkdir()
        texts.add(show.joining(launch(join, 2, late, str(coming), join=False)).text)
    (text,) = texts
    assert text.splitlines()[1] == (
        "rank 1 | RANK=1 | WORLD_SIZE=2 | MASTER_ADDR=127.0.0.1 | MASTER_PORT | wrote its address to the store "
        "| read the others' addresses"
    )


def test_which_ranks_wait_and_which_never_joined_is_seen_in_a_launch_that_got_stuck() -> None:
    def join_unless_rank_1(rank: int, world_size: int) -> None:
        if rank != 1:
            dist.init_process_group("gloo")

    with pytest.raises(WorkersStuck) as stuck:
        launch(join_unless_rank_1, 3, join=False)
    figure = show.joining(stuck.value)
    assert "Rank 1 did not join" in figure.alt
    assert words(figure).count("did not join") == 1
    assert words(figure).count("in init_process_group") == 2
    assert "knows" not in words(figure)


def test_ranks_that_meet_by_a_file_are_drawn_with_what_they_said_themselves(tmp_path: Path) -> None:
    path = str(tmp_path / "meeting")
    figure = show.joining(launch(join_by_file, 2, path, join=False))
    assert (
        figure.text.splitlines()[0]
        == "rank 0 | rank=0 | world_size=2 | wrote its address to the store | read the others' addresses"
    )
    assert not any("MASTER" in word for word in words(figure))


def test_ranks_that_had_joined_before_are_not_drawn() -> None:
    assert "join=False" in show.joining(launch(lambda rank, world_size: None, 2)).text


def test_too_many_are_not_drawn() -> None:
    came = [call("init_process_group", 1, 5, group="port 1", group_ranks=range(9))]
    assert "too many" in show.joining(record([came] * 9)).text
