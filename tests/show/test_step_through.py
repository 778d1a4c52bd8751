"""Collectives made of messages, played again: what they end with is what torch's own give, and so is the way there."""

from __future__ import annotations

import sys
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch.distributed as dist
from looks import check_that_words_stand_apart
from nights import by_day
from torch import Tensor

from ddp_lessons import launch, show
from ddp_lessons.show.messages.collective_examples import run_example
from ddp_lessons.show.messages.recorded_messages import Played, play
from ddp_lessons.show.messages.step_players import HAVE_A_ROOT, OPERATIONS
from ddp_lessons.show.messages.watched_tensors import Held, prepare_collective
from ddp_lessons.train import collectives_by_hand
from ddp_lessons.train.collectives_by_hand import reduce_by_hand

# as functions of a cell do, so that ranks need not import this module, and all that it imports
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def played(operation: str, world_size: int, root: int = 0) -> Played:
    function = getattr(collectives_by_hand, f"{operation}_by_hand")
    return play(function, world_size, prepare_collective, operation, root)


def in_the_end(one: Played) -> list[Held]:
    return [one.held(rank, len(one.messages)) for rank in range(one.world_size)]


@pytest.mark.parametrize("operation", by_day(OPERATIONS, 4))
def test_every_rank_ends_with_what_torchs_own_collective_gives_it(operation: str) -> None:
    torchs = [after for _, after in launch(run_example, 3, operation, quiet=True)]
    by_hand = in_the_end(played(operation, 3))
    for rank, held in enumerate(torchs):
        if held:  # torch says nothing of what the other ranks have after a reduce or a gather
            assert by_hand[rank] == held


@pytest.mark.parametrize("operation", OPERATIONS)
def test_who_sends_holds_what_it_sends(operation: str) -> None:
    one = played(operation, 3)
    for number, message in enumerate(one.messages):
        assert list(message.values) in one.held(message.sender, number)


def test_no_message_comes_before_one_that_its_ranks_had_to_send_or_receive_first() -> None:
    messages = [(message.sender, message.receiver) for message in played("all_to_all", 4).messages]
    rounds = [set(messages[first : first + 4]) for first in range(0, 12, 4)]
    assert rounds == [{(rank, (rank + step) % 4) for rank in range(4)} for step in (1, 2, 3)]


def test_a_sum_grows_with_every_message() -> None:
    one = played("reduce", 4, root=1)
    assert [message.sender for message in one.messages] == [0, 2, 3]
    assert [one.held(1, messages) for messages in range(4)] == [[[10, 11]], [[10, 12]], [[30, 33]], [[60, 64]]]
    assert one.held(3, 3) == [[30, 31]]


@pytest.mark.parametrize("operation", HAVE_A_ROOT)
def test_the_root_gives_or_gets_every_message(operation: str) -> None:
    giver = operation in ("broadcast", "scatter")
    messages = played(operation, 3, root=2).messages
    assert {message.sender if giver else message.receiver for message in messages} == {2}


def film(explorer: show.Explorer[show.Figure]) -> Any:
    return explorer.picture.document


def held(document: Any, state: int = -1) -> list[str]:
    tensors = [[" ".join(text for text, _ in tensor) for tensor in one] for one in document["states"][state]["held"]]
    return [", ".join(one) for one in tensors]


def test_every_message_is_a_step_from_its_sender_to_its_receiver() -> None:
    document = film(show.step_through(collectives_by_hand, "gather", world_size=3))
    assert document["first"] == "Before the first of 2 messages."
    assert [move for step in document["steps"] for move in step["moves"]] == [
        {"from": 1, "to": 0, "text": "10", "tone": 1},
        {"from": 2, "to": 0, "text": "20", "tone": 2},
    ]
    assert document["steps"][-1]["caption"] == (
        "Message 2 of 2: rank 2 sends 20 to rank 0, which now holds [0], [10], [20]. That was the last one."
    )
    assert [held(document, state)[0] for state in range(3)] == ["0", "0, 10", "0, 10, 20"]


def test_its_controls_choose_what_is_played() -> None:
    explorer = show.step_through(collectives_by_hand, "gather", world_size=3)
    explorer.set(operation="broadcast", root=2)
    assert held(film(explorer)) == ["20 21"] * 3
    explorer.set(operation="all_gather")
    assert explorer.values == {"operation": "all_gather", "world_size": 3, "root": 0}


def test_it_says_what_was_sent_and_what_every_rank_holds_in_words() -> None:
    explorer = show.step_through(collectives_by_hand, "scatter", world_size=3)
    assert explorer.picture.text.splitlines()[2:] == [
        "  1  rank 0 -> rank 1  1",
        "  2  rank 0 -> rank 2  2",
        "",
        "rank 0 holds [0]",
        "rank 1 holds [1]",
        "rank 2 holds [2]",
    ]


@pytest.mark.parametrize(("operation", "world_size"), [("broadcast", 2), ("all_reduce", 4), ("all_to_all", 4)])
def test_words_stand_apart_at_every_size(operation: str, world_size: int) -> None:
    check_that_words_stand_apart(show.step_through(collectives_by_hand, operation, world_size).picture.still)


def test_a_function_of_the_learners_is_played_as_it_is() -> None:
    def from_rank_to_rank(tensor: Tensor, src: int = 0) -> None:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        place = (rank - src) % world_size
        if place > 0:
            dist.recv(tensor, (rank - 1) % world_size)
        if place < world_size - 1:
            dist.send(tensor, (rank + 1) % world_size)

    document = film(show.step_through({"broadcast": from_rank_to_rank}, world_size=3, root=1))
    assert [(move["from"], move["to"]) for step in document["steps"] for move in step["moves"]] == [(1, 2), (2, 0)]
    assert held(document) == ["10 11"] * 3


def test_what_fails_is_said_and_the_others_can_still_be_played() -> None:
    def forgets(tensor: Tensor, dst: int = 0) -> None:
        raise NotImplementedError("your code")

    explorer = show.step_through({"broadcast": forgets, "reduce": reduce_by_hand}, world_size=2)
    assert "NotImplementedError: your code" in explorer.failure
    explorer.set(operation="reduce")
    assert explorer.failure == ""


def test_a_stub_that_sends_nothing_is_played_to_its_end() -> None:
    explorer = show.step_through({"broadcast": lambda tensor, src=0: ...}, world_size=2)
    assert explorer.picture.alt == "No rank sends a message: each keeps what it has."
    assert film(explorer)["steps"] == []


def test_nothing_to_play_is_said_at_once() -> None:
    with pytest.raises(ValueError, match="these can be played: broadcast, reduce"):
        show.step_through({"broadcst": reduce_by_hand})
