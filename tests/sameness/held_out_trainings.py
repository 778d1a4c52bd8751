"""Training functions that were written after all causes: no cause was changed for one of them.

The expected cause was noted before they ran for the first time; test_same_as_one.py has what came out.
"""

# written as people write training loops, without a check for each gradient that could be None
# mypy: disable-error-code="arg-type, assignment, misc, no-any-return, operator, union-attr, var-annotated"

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from tiny_trainings import Program
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, Sampler


@dataclass
class Config:
    batch: int = 8
    epochs: int = 2
    lr: float = 0.05
    seed: int = 42


class Circles(Dataset[dict[str, Tensor]]):
    """Points in a plane; the label says which ring they are in."""

    def __init__(self, size: int = 32) -> None:
        source = np.random.RandomState(11)
        self.points = torch.tensor(source.uniform(-1, 1, (size, 2)), dtype=torch.float32)
        self.labels = (self.points.norm(dim=1) > 0.7).long()

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"point": self.points[index], "label": self.labels[index]}


class Classifier(nn.Module):
    def __init__(self, hidden: int = 7) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, hidden), nn.SiLU())
        self.head = nn.Linear(hidden, 2)

    def forward(self, point: Tensor) -> Tensor:
        return self.head(self.encoder(point))


class GlobalBatches(Sampler[int]):
    """The same global batches for every number of ranks: each rank takes a slice of each."""

    def __init__(self, size: int, batch: int, rank: int, world_size: int, seed: int = 0) -> None:
        self.size, self.batch, self.rank, self.world_size = size, batch, rank, world_size
        self.seed, self.epoch = seed, 0

    def __iter__(self) -> Iterator[int]:
        order = list(range(self.size))
        random.Random(f"{self.seed}/{self.epoch}").shuffle(order)
        for begin in range(0, self.size - self.batch + 1, self.batch):
            yield from order[begin : begin + self.batch][self.rank :: self.world_size]


class Trainer:
    """As frameworks have them: the parts that differ are methods."""

    def __init__(self, rank: int, world_size: int, config: Config | None = None) -> None:
        self.rank, self.world_size, self.config = rank, world_size, config or Config()
        self.data = Circles()
        torch.manual_seed(self.config.seed)
        self.model = self.wrap(Classifier())
        self.optimizer = self.make_optimizer()
        self.sampler = GlobalBatches(len(self.data), self.config.batch, rank, world_size)

    def wrap(self, model: nn.Module) -> nn.Module:
        return DDP(model)

    def make_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=self.config.lr)

    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        return F.cross_entropy(self.model(batch["point"]), batch["label"])

    def after_backward(self) -> None:
        pass

    def fit(self) -> None:
        loader = DataLoader(self.data, self.config.batch // self.world_size, sampler=self.sampler)
        for epoch in range(self.config.epochs):
            self.sampler.epoch = epoch
            for batch in loader:
                self.optimizer.zero_grad()
                self.loss(batch).backward()
                self.after_backward()
                self.optimizer.step()


# right


def trainer_class(rank: int, world_size: int) -> None:
    Trainer(rank, world_size).fit()


def cosine_with_warm_up_and_clipping(rank: int, world_size: int) -> None:
    class WithSchedule(Trainer):
        def make_optimizer(self) -> torch.optim.Optimizer:
            optimizer = super().make_optimizer()
            shape = lambda step: min(1, (step + 1) / 3) * (1 + math.cos(math.pi * step / 10)) / 2  # noqa: E731
            self.schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, shape)
            return optimizer

        def after_backward(self) -> None:
            nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
            self.schedule.step()

    WithSchedule(rank, world_size).fit()


class Stream(IterableDataset[Tensor]):
    """An endless stream; each rank skips what belongs to the others."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size

    def __iter__(self) -> Iterator[Tensor]:
        source = torch.Generator().manual_seed(9)
        numbers = (torch.rand(3, generator=source) for _ in itertools.count())
        return itertools.islice(numbers, self.rank, None, self.world_size)


def endless_stream(rank: int, world_size: int) -> None:
    torch.manual_seed(1)
    model = DDP(nn.Sequential(nn.Linear(3, 5), nn.ELU(), nn.Linear(5, 3)))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.8)
    loader = iter(DataLoader(Stream(rank, world_size), batch_size=12 // world_size))
    for _ in range(4):
        batch = next(loader)
        loss = F.smooth_l1_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def contrastive_over_all_ranks(rank: int, world_size: int) -> None:
    """Features are gathered with their gradients, so each rank has the whole loss."""
    import torch.distributed.nn.functional as with_gradient

    torch.manual_seed(2)
    model = DDP(nn.Linear(2, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    points = Circles().points
    for begin in range(0, 24, 8):
        mine = points[begin : begin + 8].chunk(world_size)[rank]
        features = torch.cat(list(with_gradient.all_gather(F.normalize(model(mine), dim=1))))
        optimizer.zero_grad()
        F.cross_entropy(features @ features.T / 0.5, torch.arange(8) ^ 1).backward()
        optimizer.step()


def language_model_on_packed_text(rank: int, world_size: int) -> None:
    text = torch.randint(0, 9, (4 * 8 * 5 + 1,), generator=torch.Generator().manual_seed(4))
    torch.manual_seed(3)
    embedding, mixer, head = nn.Embedding(9, 6), nn.GRU(6, 6, batch_first=True), nn.Linear(6, 9)
    model = DDP(nn.ModuleDict({"e": embedding, "m": mixer, "h": head}), find_unused_parameters=False)
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
    for step in range(4):
        rows = [text[8 * 5 * step + 5 * row :][:6] for row in range(rank, 8, world_size)]
        tokens = torch.stack(rows)
        logits = head(mixer(embedding(tokens[:, :-1]))[0])
        optimizer.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).backward()
        for parameter in model.parameters():  # the wrapper is not called: the average is made by hand
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad.div_(world_size)
        optimizer.step()


def scatters_from_rank_0(rank: int, world_size: int) -> None:
    """Rank 0 alone reads the data, and gathers the gradients; it steps and broadcasts the weights before each step."""
    torch.manual_seed(rank)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for one in model.parameters():
        dist.broadcast(one.data, 0)
    data = Circles()
    for begin in range(0, 24, 8):
        mine = torch.empty(8 // world_size, 2)
        labels = torch.empty(8 // world_size, dtype=torch.long)
        whole = slice(begin, begin + 8)
        dist.scatter(mine, list(data.points[whole].chunk(world_size)) if rank == 0 else None)
        dist.scatter(labels, list(data.labels[whole].chunk(world_size)) if rank == 0 else None)
        model.zero_grad()
        F.cross_entropy(model(mine), labels).backward()
        for one in model.parameters():
            everyone = [torch.empty_like(one) for _ in range(world_size)]
            dist.all_gather(everyone, one.grad)
            one.grad = torch.stack(everyone).mean(0)
        optimizer.step()


def mixture_by_sample_index(rank: int, world_size: int) -> None:
    """Augmentation from a generator that is seeded by the index and the epoch."""

    class Augmented(Circles):
        epoch = 0

        def __getitem__(self, index: int) -> dict[str, Tensor]:
            noise = torch.randn(2, generator=torch.Generator().manual_seed(1000 * self.epoch + index))
            return {"point": self.points[index] + 0.05 * noise, "label": self.labels[index]}

    trainer = Trainer(rank, world_size)
    trainer.data = Augmented()
    trainer.fit()


def group_norm_conv(rank: int, world_size: int) -> None:
    torch.manual_seed(5)
    layers = [nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    model = DDP(nn.Sequential(*layers, nn.Linear(4, 3)))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    images = torch.rand(24, 1, 5, 5, generator=torch.Generator().manual_seed(6))
    for batch in images.split(8):
        mine = batch.tensor_split(world_size)[rank]
        optimizer.zero_grad()
        loss = -F.log_softmax(model(mine), dim=1)[:, 0].sum() * world_size / len(batch)
        loss.backward()
        optimizer.step()


def teacher_and_student(rank: int, world_size: int) -> None:
    torch.manual_seed(7)
    teacher, student = nn.Linear(2, 4).eval().requires_grad_(False), DDP(nn.Linear(2, 4))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9)
    sampler = BatchSampler(GlobalBatches(32, 8, rank, world_size), 8 // world_size, drop_last=True)
    for batch in DataLoader(Circles(), batch_sampler=sampler):
        wanted = teacher(batch["point"]).softmax(1)
        optimizer.zero_grad()
        F.kl_div(student(batch["point"]).log_softmax(1), wanted, reduction="batchmean").backward()
        optimizer.step()


def asynchronous_averages(rank: int, world_size: int) -> None:
    """Each gradient is sent as soon as it is there, and awaited before the step."""
    torch.manual_seed(8)
    model = Classifier()
    optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)
    works: list[dist.Work | None] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda one: works.append(dist.all_reduce(one.grad, async_op=True)))
    data = Circles()
    for begin in range(0, 24, 8):
        rows = slice(begin + rank, begin + 8, world_size)
        optimizer.zero_grad()
        (F.cross_entropy(model(data.points[rows]), data.labels[rows]) / world_size).backward()
        while works:
            works.pop().wait()
        optimizer.step()


# broken


def trainer_that_forgets_the_epoch(rank: int, world_size: int) -> None:
    trainer = Trainer(rank, world_size)
    if rank != 0:
        trainer.sampler.seed = rank
    trainer.fit()


def trainer_with_a_sum_of_losses(rank: int, world_size: int) -> None:
    class Summed(Trainer):
        def loss(self, batch: dict[str, Tensor]) -> Tensor:
            return F.cross_entropy(self.model(batch["point"]), batch["label"], reduction="sum")

    Summed(rank, world_size).fit()


def trainer_that_clips_in_a_hook(rank: int, world_size: int) -> None:
    """The norm is limited while each rank still has its own gradient."""

    class Clipped(Trainer):
        def wrap(self, model: nn.Module) -> nn.Module:
            return model

        def after_backward(self) -> None:
            parameters = list(self.model.parameters())
            norm = torch.stack([one.grad.norm() for one in parameters]).norm()
            for one in parameters:
                one.grad.mul_(min(1.0, 0.02 / norm))
                dist.all_reduce(one.grad)
                one.grad.div_(world_size)

    Clipped(rank, world_size).fit()


def trainer_with_linear_scaling(rank: int, world_size: int) -> None:
    Trainer(rank, world_size, Config(lr=0.05 * world_size**0.5)).fit()


def stream_that_is_read_by_all(rank: int, world_size: int) -> None:
    torch.manual_seed(1)
    model = DDP(nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in itertools.islice(DataLoader(Stream(0, 1), batch_size=12 // world_size), 4):
        optimizer.zero_grad()
        F.mse_loss(model(batch), batch.flip(1)).backward()
        optimizer.step()


def tokens_averaged_by_text(rank: int, world_size: int) -> None:
    """Each rank takes the mean over its own tokens, and the ranks have different numbers of them."""
    torch.manual_seed(3)
    model = DDP(nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 9)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    source = torch.Generator().manual_seed(12)
    texts = [torch.randint(1, 9, (2 + 3 * (i % 4),), generator=source) for i in range(16)]
    for step in range(2):
        tokens = nn.utils.rnn.pad_sequence(texts[8 * step + rank : 8 * step + 8 : world_size], batch_first=True)
        wanted = tokens.flip(1)
        logits = model(tokens).flatten(0, 1)
        optimizer.zero_grad()
        F.cross_entropy(logits[tokens.flatten() != 0], wanted.flatten()[tokens.flatten() != 0] % 9).backward()
        optimizer.step()


def head_outside_of_the_wrapper(rank: int, world_size: int) -> None:
    """The encoder is wrapped; the head outside of it is forgotten."""
    torch.manual_seed(4)
    encoder, head = DDP(nn.Linear(2, 5)), nn.Linear(5, 2)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.05)
    data = Circles()
    for begin in range(0, 24, 8):
        rows = slice(begin + rank, begin + 8, world_size)
        optimizer.zero_grad()
        F.cross_entropy(head(encoder(data.points[rows]).relu()), data.labels[rows]).backward()
        optimizer.step()


def instance_of_batch_statistics(rank: int, world_size: int) -> None:
    torch.manual_seed(5)
    layers = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2)]
    model = DDP(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    images = torch.rand(24, 1, 5, 5, generator=torch.Generator().manual_seed(6))
    for batch in images.split(12):
        optimizer.zero_grad()
        model(batch[rank::world_size]).square().mean().backward()
        optimizer.step()


def restart_on_other_weights(rank: int, world_size: int) -> None:
    """After a restart rank 0 alone goes on from the checkpoint."""
    torch.manual_seed(6)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Circles()
    for step, begin in enumerate(range(0, 32, 8)):
        if step == 2:
            saved = {name: one.clone() for name, one in model.state_dict().items()}
            torch.manual_seed(6)
            model.load_state_dict(saved if rank == 0 else Classifier().state_dict())
        rows = slice(begin + rank, begin + 8, world_size)
        optimizer.zero_grad()
        F.cross_entropy(model(data.points[rows]), data.labels[rows]).backward()
        for one in model.parameters():
            dist.all_reduce(one.grad)
            one.grad /= world_size
        optimizer.step()


def early_step_in_accumulation(rank: int, world_size: int) -> None:
    """Two micro-batches on every rank, but on several ranks a step after each."""
    torch.manual_seed(7)
    model = DDP(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Circles()
    for begin in range(0, 32, 8):
        optimizer.zero_grad()
        for rows in torch.arange(begin + rank, begin + 8, world_size).chunk(2):
            (F.cross_entropy(model(data.points[rows]), data.labels[rows]) / 2).backward()
            if world_size > 1:
                optimizer.step()
                optimizer.zero_grad()
        if world_size == 1:
            optimizer.step()


def dropout_in_the_middle(rank: int, world_size: int) -> None:
    class Dropped(Trainer):
        def loss(self, batch: dict[str, Tensor]) -> Tensor:
            return F.cross_entropy(F.dropout(self.model(batch["point"]), 0.3), batch["label"])

    Dropped(rank, world_size).fit()


def labels_shuffled_on_their_own(rank: int, world_size: int) -> None:
    trainer = Trainer(rank, world_size)
    if world_size > 1:
        trainer.data.labels = trainer.data.labels.roll(1)
    trainer.fit()


HELD_OUT_RIGHT = [
    Program(trainer_class),
    Program(cosine_with_warm_up_and_clipping),
    Program(endless_stream, (1, 3)),
    Program(contrastive_over_all_ranks),
    Program(language_model_on_packed_text),
    Program(scatters_from_rank_0),
    Program(mixture_by_sample_index),
    Program(group_norm_conv, (1, 3)),
    Program(teacher_and_student),
    Program(asynchronous_averages),
]
HELD_OUT_BROKEN = [
    Program(trainer_that_forgets_the_epoch, (1, 2), cause="overlapping_shards"),
    Program(trainer_with_a_sum_of_losses, cause="averaged_twice"),
    Program(trainer_that_clips_in_a_hook, cause="clipped_before_averaging"),
    Program(trainer_with_linear_scaling, cause="learning_rate"),
    Program(stream_that_is_read_by_all, (1, 3), cause="not_sharded"),
    Program(tokens_averaged_by_text, cause="mean_of_means"),
    Program(head_outside_of_the_wrapper, cause="parameter_not_averaged"),
    Program(instance_of_batch_statistics, (1, 3), cause="batch_norm"),
    Program(restart_on_other_weights, cause="changed_between_steps"),
    Program(early_step_in_accumulation, (1, 2), cause="global_batch"),
    Program(dropout_in_the_middle, cause="random_forward"),
    Program(labels_shuffled_on_their_own, cause="other_loss"),
]
