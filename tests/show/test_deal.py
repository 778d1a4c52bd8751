"""The film of dealt samples: every card that moves is one that the sampler gave, and nothing is lost on the way."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DistributedSampler, TensorDataset

from ddp_lessons import launch, show
from ddp_lessons.show.figures.drawing import Line, Words


def sampled(rank: int, world_size: int, samples: int, drop_last: bool) -> list[int]:
    sampler: DistributedSampler[Any] = DistributedSampler(
        TensorDataset(torch.arange(samples)), shuffle=False, drop_last=drop_last
    )
    return list(sampler)


def of_epochs(rank: int, world_size: int, samples: int, epochs: int) -> list[list[int]]:
    sampler: DistributedSampler[Any] = DistributedSampler(TensorDataset(torch.arange(samples)))
    seen = []
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        seen.append(list(sampler))
    return seen


def moved(figure: show.Figure) -> list[list[tuple[int, str]]]:
    """By step, to which rank each card went."""
    return [[(move["to"] - 1, move["text"]) for move in step["moves"]] for step in figure.document["steps"]]


def cards(figure: show.Figure, state: int) -> list[Any]:
    """What each rank has, and first what is still to be dealt."""
    held = figure.document["states"][state]["held"]
    return [[text for tensor in one for text, _ in tensor] for one in held]


def test_each_round_brings_every_rank_the_next_of_its_samples() -> None:
    results = launch(sampled, 4, 10, False)
    figure = show.deal(results, total=10)
    for place, round_of_cards in enumerate(moved(figure)):
        assert round_of_cards == [(rank, str(results[rank][place])) for rank in range(4)]
    assert cards(figure, 0) == [["0 1 2 3", "4 5 6 7", "8 9 0 1"], [], [], [], []]
    assert cards(figure, -1) == [[], *([str(sample) for sample in results[rank]] for rank in range(4))]
    assert figure.document["steps"][-1]["caption"] == (
        "Round 3: one sample for each rank. 0 and 1 come again. All in all, 0 and 1 more than once."
    )


def test_what_no_rank_gets_stays_where_it_is() -> None:
    figure = show.deal(launch(sampled, 4, 10, True), total=10)
    assert [cards(figure, state)[0][-1] for state in range(3)] == ["8 9"] * 3
    assert figure.alt == "10 samples dealt to 4 ranks: 8 and 9 never."


def test_each_epoch_begins_with_empty_hands_and_another_order() -> None:
    results = launch(of_epochs, 2, 6, 2)
    figure = show.deal(results, total=6)
    assert len(figure.document["states"]) == 2 * (1 + 3)
    assert cards(figure, 4)[1:] == [[], []]
    assert figure.document["steps"][3]["caption"].startswith("Epoch 1. The samples in the order")
    decks = [" ".join(cards(figure, state)[0]).split() for state in (0, 4)]
    assert sorted(decks[0]) == sorted(decks[1]) == list("012345")
    assert decks[0] != decks[1]
    assert figure.text.splitlines()[0] == "epoch 0"


def test_uneven_hands_end_with_the_rest() -> None:
    figure = show.deal([[0, 2, 4], [1, 3]], total=5)
    assert moved(figure)[-1] == [(0, "4")]
    assert "Round 3: the rest." in figure.document["steps"][-1]["caption"]
    assert figure.text == "rank 0: 0 2 4\nrank 1: 1 3\neach sample once"


def test_what_cannot_be_shown_is_said() -> None:
    assert "too many" in show.deal([[0], [1]], total=60_000).text
    assert show.deal([[], []], total=2).text == "No rank got a sample: there is nothing to draw."


def test_the_source_has_a_name_and_a_color_of_its_own() -> None:
    figure = show.deal([[0], [1]], total=2)
    words = [shape.text for shape in figure.still.shapes if isinstance(shape, Words)]
    assert words[:3] == ["samples", "rank 0", "rank 1"]
    assert {line.color for line in figure.still.shapes if isinstance(line, Line)} == {"collective"}
