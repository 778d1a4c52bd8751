"""Before and after of every collective, from a real run, and what moves in between."""

from __future__ import annotations

from typing import Any

import pytest
from looks import check_that_words_stand_apart
from nights import by_day

from ddp_lessons import show
from ddp_lessons.show.messages.collective_examples import EXAMPLES
from ddp_lessons.show.messages.collective_films import SHEET, moves_of

GATHERED = "[0] [10] [20]"
# what three ranks hold afterwards, by the definition of each
AFTER = {
    "broadcast": ["[0 1]"] * 3,
    "reduce": ["[30 33]", "undefined", "undefined"],
    "all_reduce": ["[30 33]"] * 3,
    "scatter": ["[0]", "[1]", "[2]"],
    "gather": [GATHERED, "nothing", "nothing"],
    "all_gather": [GATHERED] * 3,
    "reduce_scatter": ["[30]", "[33]", "[36]"],
    "all_to_all": ["[0] [10] [20]", "[1] [11] [21]", "[2] [12] [22]"],
    "all_gather_into_tensor": ["[0 10 20]"] * 3,
    "reduce_scatter_tensor": ["[30]", "[33]", "[36]"],
    "all_to_all_single": ["[0 10 20]", "[1 11 21]", "[2 12 22]"],
    "all_gather_object": ["[from 0] [from 1] [from 2]"] * 3,
    "gather_object": ["[from 0] [from 1] [from 2]", "nothing", "nothing"],
    "broadcast_object_list": ["[from 0]"] * 3,
    "scatter_object_list": ["[for 0]", "[for 1]", "[for 2]"],
}
ALL = [(sender, receiver) for sender in range(3) for receiver in range(3)]
FROM_ROOT, TO_ROOT = [(0, 0), (0, 1), (0, 2)], [(0, 0), (1, 0), (2, 0)]
MOVES = {"scatter": FROM_ROOT, "broadcast": FROM_ROOT, "gather": TO_ROOT, "reduce": TO_ROOT} | dict.fromkeys(
    ("all_gather", "all_reduce", "all_to_all_single", "reduce_scatter"), ALL
)


def moves(document: Any) -> list[tuple[int, int, str]]:
    (step,) = document["steps"]
    return [(move["from"], move["to"], move["text"]) for move in step["moves"]]


def tones(document: Any, rank: int) -> list[Any]:
    return [tone for tensor in document["states"][-1]["held"][rank] for _, tone in tensor]


@pytest.mark.parametrize("name", by_day(AFTER, 12))
def test_every_collective_is_drawn_as_it_is_defined(name: str) -> None:
    figure = show.collective(name, 3)
    rows = [line.split(" | ") for line in figure.text.splitlines()[2:]]
    assert [row[2] for row in rows] == AFTER[name]
    held = figure.document["states"][-1]["held"]
    shown = [" ".join(f"[{' '.join(text for text, _ in tensor)}]" for tensor in one) for one in held]
    assert [one or figure.document["empty"] for one in shown] == AFTER[name]
    check_that_words_stand_apart(figure.still)


def test_a_moved_number_keeps_the_rank_that_brought_it_and_a_sum_has_none() -> None:
    assert tones(show.collective("all_gather", 3).document, 1) == [0, 1, 2]
    assert tones(show.collective("all_reduce", 3).document, 1) == ["sum", "sum"]


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_goes_the_way_that_the_collective_is_defined(name: str) -> None:
    found = moves(show.collective(name, 3).document)
    assert [(sender, receiver) for sender, receiver, _ in found] == MOVES[name]


def test_into_the_sum_of_a_part_goes_that_part_of_every_rank() -> None:
    assert moves(show.collective("reduce_scatter", 2).document) == [
        (0, 0, "0"),
        (0, 1, "1"),
        (1, 0, "10"),
        (1, 1, "11"),
    ]


def test_a_rank_that_got_nothing_is_sent_nothing() -> None:
    found = moves_of("gather", [[[0]], [[10]]], [[[0], [10]], []])
    assert [(move.sender, move.receiver) for move in found] == [(0, 0), (1, 0)]


@pytest.mark.parametrize("name", ["all_gather_single", "reduce_scatter_single"])
def test_new_names_are_drawn_or_said_to_be_missing(name: str) -> None:
    import torch.distributed as dist

    if hasattr(dist, name):
        assert show.collective(name, 2).text.startswith(name)
    else:
        with pytest.raises(RuntimeError, match=f"{name} does not work"):
            show.collective(name, 2)


def test_no_rank_leaves_a_barrier_before_the_last_has_come() -> None:
    figure = show.collective("barrier", 3)
    assert "None of them returned before the last had called it." in figure.text
    waited = [call["waited"] for call in figure.document["calls"]]
    assert waited == sorted(waited, reverse=True)


def test_the_words_are_the_same_in_every_run() -> None:
    for name in ("reduce", "barrier"):
        assert show.collective(name, 4).text == show.collective(name, 4).text


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="'all_redcue'") as refused:
        show.collective("all_redcue")
    assert all(name in str(refused.value) for name in EXAMPLES)


def test_what_the_backend_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_DEVICE_TRANSPORT", "TCP_TLS")  # which needs a key
    with pytest.raises(RuntimeError, match="all_reduce does not work"):
        show.collective("all_reduce", 2)


def test_the_sheet_has_every_collective_as_it_is_alone() -> None:
    sheet = show.collectives(3)
    panels = {panel["title"].split(",")[0]: panel for panel in sheet.document["figures"]}
    assert list(panels) == list(SHEET)
    for name, panel in panels.items():
        assert panel == show.collective(name, 3).document
    assert "all_reduce\nrank 0: 0 1 -> 30 33" in sheet.text
    assert "gather\nrank 0: 0 -> 0 10 20\nrank 1: 10 -> -" in sheet.text


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_words_stand_apart_on_a_sheet(world_size: int) -> None:
    check_that_words_stand_apart(show.collectives(world_size).still)


def test_more_ranks_than_there_is_room_for_are_refused() -> None:
    with pytest.raises(ValueError, match="room for 2 to 4 ranks on a sheet, not 8"):
        show.collectives(8)
