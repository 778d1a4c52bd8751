"""The widget of sum and mean: the paths are those of a real training on real ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.distributed as dist
from looks import check_that_texts_stand_apart, lines_of, words
from nights import by_day

from ddp_lessons import launch, show
from ddp_lessons.show.trainings.weight_paths import share
from ddp_lessons.train.gradients import average_gradients, weighted_average

SAMPLES = (1.0, 3.0, 5.0, 7.0)


class OneWeight(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))


def walk(samples: Sequence[float], learning_rate: float, combine: Callable[[Any, int], object]) -> list[float]:
    """The real thing: autograd and an optimizer, and between them whatever the ranks do."""
    model, path = OneWeight(), [0.0]
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
    for _ in range(8):
        optimizer.zero_grad()
        (model.weight - torch.tensor(samples)).square().mean().backward()
        combine(model, len(samples))
        optimizer.step()
        path.append(model.weight.item())
    return path


def walk_together(rank: int, world_size: int, shares: Sequence[Sequence[float]], rate: float) -> dict[str, list[float]]:
    ways: dict[str, Callable[[Any, int], object]] = {
        "mean": lambda model, samples: average_gradients(model),
        "sum": lambda model, samples: dist.all_reduce(model.weight.grad),
        "weighted mean": weighted_average,
        "nothing": lambda model, samples: None,
    }
    return {way: walk(shares[rank], rate, combine) for way, combine in ways.items()}


@pytest.mark.parametrize(("world_size", "first", "rate"), by_day([(2, 1, 0.25), (3, 2, 0.125), (4, 1, 0.25)], 1))
def test_paths_are_those_of_a_training_on_ranks(world_size: int, first: int, rate: float) -> None:
    shares = share(SAMPLES, world_size, first)
    assert sorted(sample for mine in shares for sample in mine) == list(SAMPLES)
    by_rank = launch(walk_together, world_size, shares, rate, quiet=True)
    alone = walk(SAMPLES, rate, lambda model, samples: None)
    widget = show.explore_averaging(torch.tensor(SAMPLES))
    for way in by_rank[0]:
        widget.set(world_size=world_size, first=first, way=way, learning_rate=rate)
        ((_, one),) = lines_of(widget.picture.axes, "one process")
        assert one == pytest.approx(alone)
        for rank, paths in enumerate(by_rank):
            ((steps, path),) = lines_of(widget.picture.axes, f"path {rank}")
            assert path == pytest.approx(paths[way])
            assert steps == list(range(9))


def test_words_tell_how_far_the_ranks_are_from_one_process() -> None:
    widget = show.explore_averaging()
    assert widget.picture.text.endswith("Every rank is where one process is, at every step.")
    widget.set(first=1)  # the mean of the means, -6, takes them to 1.5 and towards 3; one process goes to 2, and to 4
    assert "The furthest rank is 0.5 away from one process after step 1, 0.9961 after step 8." in widget.picture.alt
    widget.set(way="weighted mean")
    assert widget.picture.text.endswith("Every rank is where one process is, at every step.")
    widget.set(way="nothing", first=2)
    assert widget.picture.text.endswith("the ranks are up to 3.984 apart from each other.")
    widget.set(way="sum")
    assert widget.picture.text.endswith("A sum is the mean with a learning rate of 0.5.")
    one_process = next(line for line in widget.picture.text.splitlines() if line.startswith("one process"))
    assert one_process.split("|")[1].split()[:5] == ["0", "2", "3", "3.5", "3.75"]


def test_the_axes_stay_whatever_the_ranks_do() -> None:
    widget = show.explore_averaging()
    before = widget.picture.axes.get_xlim(), widget.picture.axes.get_ylim(), widget.picture.axes.get_position().bounds
    widget.set(way="sum", world_size=4, learning_rate=1.25)
    after = widget.picture.axes.get_xlim(), widget.picture.axes.get_ylim(), widget.picture.axes.get_position().bounds
    assert before == after


def test_samples_stand_at_the_edge_with_their_rank() -> None:
    widget = show.explore_averaging()
    widget.set(first=3)
    assert [lines_of(widget.picture.axes, f"sample {rank}") for rank in (0, 1)] == [
        [([1.03], [1.0]), ([1.03], [3.0]), ([1.03], [5.0])],
        [([1.03], [7.0])],
    ]
    assert words(widget.picture, "name of the best") == ["best"]
    assert lines_of(widget.picture.axes, "best")[0][1][0] == 4.0


def test_every_rank_keeps_a_sample() -> None:
    widget = show.explore_averaging()
    assert list(widget.options["first"].values()) == [1, 2, 3]
    widget.set(world_size=4)
    assert list(widget.options["first"].values()) == [1]
    widget.set(world_size=1)
    assert widget.values["first"] == 4
    with pytest.raises(ValueError, match="each rank needs a sample: there are 2 for a world size of 3"):
        show.explore_averaging([1, 2], world_size=3)


def test_texts_stand_apart() -> None:
    widget = show.explore_averaging()
    for values in ({}, {"world_size": 4, "way": "nothing"}, {"way": "sum", "learning_rate": 1.25}):
        widget.set(**values)
        check_that_texts_stand_apart(widget.picture)
