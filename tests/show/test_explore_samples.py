"""The widget of the samples: what it shows is what PyTorch's sampler hands out on real ranks."""

from __future__ import annotations

from typing import Any

import pytest
from front_end import FrontEnd
from looks import check_layouts
from nights import by_day, nightly
from notebook_session import NotebookSession
from torch.utils.data import DistributedSampler

from ddp_lessons import launch, show

CASES: list[dict[str, Any]] = [
    {"samples": 12, "seed": 0, "shuffle": True, "drop_last": False, "set_epoch": True, "epoch": 2},
    {"samples": 12, "seed": 5, "shuffle": True, "drop_last": False, "set_epoch": False, "epoch": 3},
    {"samples": 10, "seed": 0, "shuffle": False, "drop_last": False, "set_epoch": True, "epoch": 1},
    {"samples": 10, "seed": 0, "shuffle": True, "drop_last": True, "set_epoch": True, "epoch": 0},
    {"samples": 2, "seed": 1, "shuffle": True, "drop_last": False, "set_epoch": False, "epoch": 0},
]


def sampled(rank: int, world_size: int, has_one_seed: bool) -> list[list[int]]:
    """What the rank really gets in each case."""
    shares = []
    for case in CASES:
        data: Any = range(case["samples"])
        seed = case["seed"] + (0 if has_one_seed else rank)
        sampler: Any = DistributedSampler(data, shuffle=case["shuffle"], seed=seed, drop_last=case["drop_last"])
        if case["set_epoch"]:
            sampler.set_epoch(case["epoch"])
        shares.append(list(sampler))
    return shares


def rows(picture: show.Figure) -> list[list[int]]:
    """What each rank sees, as the text has it."""
    lines = [line.split("|")[2] for line in picture.text.splitlines() if line.startswith("rank ")]
    return [[int(word) for word in line.split()] for line in lines]


@pytest.mark.parametrize(("world_size", "has_one_seed"), by_day([(4, True), (3, False), (1, True)], 1))
def test_every_rank_has_what_the_sampler_gives_it_on_a_real_rank(world_size: int, has_one_seed: bool) -> None:
    by_rank = launch(sampled, world_size, has_one_seed, quiet=True)
    widget = show.explore_samples(world_size)
    for number, case in enumerate(CASES):
        widget.set(has_one_seed=has_one_seed, **case)
        assert rows(widget.picture) == [shares[number] for shares in by_rank]


def test_without_set_epoch_nothing_moves_and_with_it_everything_does() -> None:
    widget = show.explore_samples()
    first = rows(widget.picture)
    widget.set(epoch=1)
    assert rows(widget.picture) == first
    assert widget.picture.document["title"] == "epoch 1: the same samples in the same order as in epoch 0"
    assert "the same order as in epoch 0" in widget.picture.alt
    widget.set(set_epoch=True)
    assert rows(widget.picture) != first
    assert widget.picture.text.startswith("epoch 1: other samples than in epoch 0\n")
    widget.set(world_size=1)
    assert widget.picture.text.startswith("epoch 1: the same samples as in epoch 0, in another order\n")
    widget.set(shuffle=False)
    assert widget.picture.text.startswith("epoch 1: the same samples in the same order as in epoch 0\n")


def test_a_seed_of_its_own_on_every_rank_leaves_samples_out() -> None:
    widget = show.explore_samples(world_size=3)
    assert "every sample seen exactly once" in widget.picture.alt
    widget.set(has_one_seed=False)
    never = set(range(12)) - set().union(*rows(widget.picture))
    assert never
    assert f"never: {' '.join(map(str, sorted(never)))}" in widget.picture.text


@pytest.mark.parametrize("drop_last", [False, True])
def test_fewer_samples_than_ranks_are_drawn_as_well(drop_last: bool) -> None:
    widget = show.explore_samples(world_size=8, samples=1)
    widget.set(drop_last=drop_last, epoch=3)
    assert widget.failure == ""
    assert rows(widget.picture) == [[] if drop_last else [0]] * 8


def test_texts_stand_apart() -> None:
    widget = show.explore_samples(world_size=8, samples=24)
    for values in ({}, {"epoch": 7}, {"has_one_seed": False}, {"samples": 1}):
        widget.set(**values)
        check_layouts(widget.picture)


@nightly
def test_turned_in_a_notebook_the_samples_stay_one_living_figure_and_their_sentence_is_said() -> None:
    what = "panel._told.value, panel._living.document['alt'], explorer.picture.alt"
    with NotebookSession() as session:
        session.run("from ddp_lessons import show; explorer = show.explore_samples(); explorer")
        FrontEnd(session).turn("ranks", value=3)
        status, *sentences = session.run(f"panel = explorer._panel; print({what}, sep='|')").stream.strip().split("|")
    assert sentences[0] == sentences[1]
    assert "3 ranks: every sample seen exactly once. Each rank takes 4 samples." in sentences[0]
    assert status == f'<div role="status" aria-live="polite">{sentences[0]}</div>'
