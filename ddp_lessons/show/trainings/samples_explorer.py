"""Which rank sees which sample, as DistributedSampler hands them out, epoch after epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Slider, Steps, Tick
from ddp_lessons.show.figures.figure import Figure
from ddp_lessons.show.page.picture import count
from ddp_lessons.show.trainings.seen_samples import samples as draw_samples

EPOCHS = range(8)
MOST_SAMPLES = 24


@dataclass(frozen=True)
class Sampling:
    """What a reader can choose about a sampler; `drop_last` and `shuffle` as its constructor has them."""

    world_size: int
    samples: int
    seed: int
    has_one_seed: bool
    shuffle: bool
    drop_last: bool
    set_epoch: bool

    def epoch(self, number: int) -> list[list[int]]:
        """What every rank sees in this epoch."""
        from torch.utils.data.distributed import DistributedSampler

        by_rank = []
        for rank in range(self.world_size):
            data: Any = range(self.samples)
            seed = self.seed if self.has_one_seed else self.seed + rank
            sampler: DistributedSampler[int] = DistributedSampler(
                data, self.world_size, rank, self.shuffle, seed, self.drop_last
            )
            if self.set_epoch:
                sampler.set_epoch(number)
            by_rank.append(list(sampler))
        return by_rank


def explore_samples(world_size: int = 2, samples: int = 12, seed: int = 0) -> Explorer[Figure]:
    """Turn what a `DistributedSampler` is told, and play the epochs one after the other."""

    def draw(epoch: int, **chosen: Any) -> Figure:
        sampling = Sampling(**chosen)
        by_rank = sampling.epoch(epoch)
        title = f"epoch {epoch}" + _compare(by_rank, sampling.epoch(0), epoch)
        picture = draw_samples(by_rank, total=sampling.samples, title=title)
        alt = f"{title.capitalize()}. {picture.alt} Each rank takes {count(len(by_rank[0]), 'sample')}."
        document = {**picture.document, "alt": alt}
        return replace(picture, document=document, text=f"{title}\n{picture.text}", alt=alt)

    controls = {
        "world_size": Slider("ranks", range(1, 9), world_size),
        "samples": Slider("samples", range(1, max(MOST_SAMPLES, samples) + 1), samples),
        "seed": Slider("seed", range(max(10, seed + 1)), seed),
        "has_one_seed": Tick("the same seed on all ranks", value=True),
        "shuffle": Tick("shuffle", value=True),
        "drop_last": Tick("drop_last"),
        "set_epoch": Tick("set_epoch", value=False),
        "epoch": Steps("epoch", EPOCHS, 0),
    }
    return Explorer(draw, title="Who sees which sample", controls=controls)


def _compare(by_rank: Sequence[Sequence[int]], first: Sequence[Sequence[int]], epoch: int) -> str:
    if epoch == 0 or not any(map(len, by_rank)):
        return ""
    if by_rank == first:
        return ": the same samples in the same order as in epoch 0"
    if list(map(sorted, by_rank)) == list(map(sorted, first)):
        return ": the same samples as in epoch 0, in another order"
    return ": other samples than in epoch 0"
