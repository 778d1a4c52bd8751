"""Training programs that run, agree on all ranks or not, and are not what one rank would have trained."""

# written as people write training loops, without a check for each gradient that could be None
# mypy: disable-error-code="arg-type, assignment, func-returns-value, index, misc, no-any-return, operator, override"
# mypy: disable-error-code="union-attr"

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
import torch.distributed as dist
from tiny_trainings import (
    BATCH,
    Job,
    Program,
    Train,
    add_up,
    average,
    batches,
    by_hand,
    divide,
    layers,
    loss_of,
    net,
    on_rows,
    sgd,
    shards,
    training,
)
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

ROWS = torch.arange(36)


def shuffled(seed: int, number: int = 36) -> Tensor:
    return torch.randperm(number, generator=torch.Generator().manual_seed(seed))


def sampled(number: int, rank: int, world_size: int, epoch: int = 0, **settings: bool) -> Tensor:
    sampler: Any = DistributedSampler(range(number), world_size, rank, **settings)
    sampler.set_epoch(epoch)
    return torch.tensor(list(sampler))


OF_SAMPLES = [
    Program("no_sampler", on_rows(lambda rank, ranks: ROWS.split(BATCH // ranks)), "not_sharded"),
    Program(
        "each_rank_shuffles_for_itself",
        on_rows(lambda rank, ranks: shuffled(rank).split(BATCH // ranks)),
        "not_sharded",
    ),
    Program(
        "shuffled_before_sharding",
        on_rows(lambda rank, ranks: shuffled(rank)[rank::ranks].split(BATCH // ranks)),
        "overlapping_shards",
    ),
    Program("batch_size_per_rank", on_rows(lambda rank, ranks: ROWS[rank::ranks].split(6)), "global_batch"),
    Program(
        "batch_divided_twice",
        on_rows(lambda rank, ranks: ROWS[rank::ranks].split(12 // ranks**2)),
        "global_batch",
        (1, 2),
    ),
    Program(
        "padded_by_the_sampler",
        on_rows(lambda rank, ranks: sampled(35, rank, ranks, shuffle=False).split(BATCH // ranks), 35),
        "padded_samples",
    ),
    Program(  # 11 // 2 samples for each rank, and the last one for none
        "rest_of_the_batch_is_lost",
        on_rows(lambda rank, ranks: [batch[rank::ranks][: len(batch) // ranks] for batch in ROWS.split(11)]),
        "lost_samples",
    ),
    Program(  # of the last 5, one reaches no rank, but in the other epoch it does
        "rest_of_the_last_batch_is_lost",
        on_rows(
            lambda rank, ranks: [
                batch[: len(batch) // ranks * ranks][rank::ranks]
                for epoch in range(2)
                for batch in torch.arange(11).roll(epoch).split(6)
            ],
            11,
        ),
        "lost_samples",
    ),
    Program(  # 31 samples: on several ranks the last, incomplete batch is dropped
        "loader_that_drops_the_rest",
        on_rows(
            lambda rank, ranks: sampled(31, rank, ranks, shuffle=False).split(BATCH // ranks)[: 3 - (ranks > 1)], 31
        ),
        "lost_samples",
    ),
    Program(  # set_epoch is called on one rank only
        "epochs_in_one_order",
        on_rows(
            lambda rank, ranks: [
                rows
                for epoch in range(2)
                for rows in sampled(24, rank, ranks, epoch if ranks == 1 else 0).split(BATCH // ranks)
            ],
            24,
        ),
        "sample_order",
    ),
]


def normalized(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    return loss_of(job.model, (inputs - inputs.mean(0)) / inputs.std(0), targets)


def fully_sharded(model: nn.Module) -> nn.Module:
    fully_shard(model)
    return model


def steps_again(job: Job) -> None:
    for _ in range(job.world_size - 1):
        job.optimizer.step()


OF_SAMPLES += [
    Program("normalized_per_shard", training(loss=normalized), "other_inputs"),
    # as for a loss that is not finite, which only this rank sees
    Program("rank_1_skips_a_step", training(before_step=lambda job: (job.rank, job.step) != (1, 1)), "skipped_step"),
    Program("steps_once_per_rank", training(after_step=steps_again), "extra_step"),
]


# gradients


def micro_batches_not_divided(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    """On one rank there are four micro-batches, on several fewer; the loss is never divided by their number."""
    pairs = zip(inputs.split(3), targets.split(3), strict=True)
    return torch.stack([loss_of(job.model, *pair) for pair in pairs]).sum()


def masked(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    """Each rank takes the mean over what its own mask leaves."""
    mask = (inputs[:, :1] > -0.3).float()
    return ((job.model(inputs) - targets).square() * mask).sum() / mask.sum()


def nearly_equal_numbers_of_tokens(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    tokens = 100 + (inputs[:, :1] > 0)
    return ((job.model(inputs) - targets).square() * tokens).sum() / tokens.sum()


def averages_without_the_last_bias(job: Job) -> None:
    for parameter in job.parameters[:-1]:
        dist.all_reduce(parameter.grad)
        parameter.grad /= job.world_size


def unfrozen_after_wrapping(model: nn.Module) -> nn.Module:
    """DDP notes the parameters that need a gradient when it is made."""
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model)
    model[0].requires_grad_(True)
    return wrapped


def always_no_sync(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = sgd(model)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for some, wanted in zip(inputs.chunk(3), targets.chunk(3), strict=True):
            with model.no_sync():
                (loss_of(model, some, wanted) / 3).backward()
        optimizer.step()


def reduced_to_rank_0(job: Job) -> None:
    for parameter in job.parameters:
        dist.reduce(parameter.grad, 0)
        parameter.grad /= job.world_size if job.rank == 0 else 1


def gradient_of_rank_0(job: Job) -> None:
    for parameter in job.parameters:
        dist.broadcast(parameter.grad, 0)


def clipped_first(job: Job) -> None:
    nn.utils.clip_grad_norm_(job.parameters, 0.05)
    job.average()


def tied_weight_is_listed_twice(job: Job) -> None:
    job.average()
    dist.all_reduce(job.parameters[0].grad)


def summed_after_every_micro_batch(rank: int, world_size: int) -> None:
    """What is already summed is summed again after the next micro-batch."""
    model = net()
    optimizer = sgd(model)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for some, wanted in zip(inputs.chunk(3), targets.chunk(3), strict=True):
            (loss_of(model, some, wanted) / 3).backward()
            add_up(model)
        average(model, world_size)
        optimizer.step()


def mean_of_uneven_micro_batches(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    """12 samples: 5, 5 and 2 on one rank, 5 and 1 on each of two."""
    pairs = zip(inputs.split(5), targets.split(5), strict=True)
    return torch.stack([loss_of(job.model, *pair) for pair in pairs]).mean()


def clips_shards(job: Job) -> None:
    """Each rank clips by the norm of its own shards."""
    for parameter in job.parameters:
        parameter.grad *= min(1.0, 0.01 / (float(parameter.grad.to_local().norm()) + 1e-6))


def compressed(model: nn.Module) -> nn.Module:
    wrapped = DistributedDataParallel(model)
    wrapped.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return wrapped


def rank_0_counts_for_more(job: Job) -> None:
    divide(job.model, 1.0 if job.world_size == 1 else 1 / 0.7 if job.rank == 0 else 1 / 0.3)
    add_up(job.model)


def labels_not_sharded(rank: int, world_size: int) -> list[tuple[Tensor, Tensor]]:
    return [(inputs[rank::world_size], targets[: BATCH // world_size]) for inputs, targets in batches()]


def zeroed_on_one_rank_only(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = sgd(model)
    for inputs, targets in shards(rank, world_size):
        if world_size == 1:
            optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def head_outside_of_ddp(rank: int, world_size: int) -> None:
    """Two optimizers, and only the model of the first is wrapped."""
    model = net()
    backbone, head = DistributedDataParallel(model[:2]), model[2:]
    optimizers = sgd(backbone), torch.optim.Adam(head.parameters(), lr=0.01)
    for inputs, targets in shards(rank, world_size):
        nn.functional.mse_loss(head(backbone(inputs)), targets).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


OF_GRADIENTS = [
    Program("summed", by_hand(lambda job: add_up(job.model)), "sum_not_mean"),
    Program(
        "sum_loss_with_ddp",
        training(loss=lambda job, *batch: loss_of(job.model, *batch, reduction="sum") / 20),
        "averaged_twice",
    ),
    Program(
        "divided_after_ddp",
        training(before_step=lambda job: divide(job.model, job.world_size)),
        "averaged_twice",
        (1, 3),
    ),
    Program("micro_batches_not_divided", by_hand(loss=micro_batches_not_divided), "micro_batches"),
    Program(
        "fixed_number_of_ranks", by_hand(lambda job: average(job.model, 1 if job.world_size == 1 else 3)), "factor"
    ),
    Program("mean_of_unequal_means", training(batches=functools.partial(shards, size=9)), "mean_of_means"),
    Program("mean_over_masked", training(loss=masked), "mean_of_means", (1, 3)),
    Program("nearly_equal_numbers_of_tokens", training(loss=nearly_equal_numbers_of_tokens), "mean_of_means"),
    Program("not_averaged", by_hand(lambda job: None), "not_averaged"),
    Program("stops_averaging", by_hand(lambda job: job.average() if job.step < 2 else None), "not_averaged", (1, 3)),
    Program("head_outside_of_ddp", head_outside_of_ddp, "not_averaged", (1, 3)),
    Program("bias_not_averaged", by_hand(averages_without_the_last_bias), "parameter_not_averaged"),
    Program("unfrozen_after_wrapping", training(wrap=unfrozen_after_wrapping), "parameter_not_averaged"),
    Program("always_no_sync", always_no_sync, "no_sync"),
    Program("around_the_wrapper", training(loss=lambda job, *batch: loss_of(job.model.module, *batch)), "ddp_bypassed"),
    Program("reduced_to_one_rank", by_hand(reduced_to_rank_0), "result_on_some_ranks", (1, 3)),
    Program("gradient_of_rank_0", by_hand(gradient_of_rank_0), "gradient_of_one_rank"),
    Program("clipped_before", by_hand(clipped_first), "clipped_before_averaging", (1, 3)),
    Program(
        "batch_norm",
        training(layers(lambda: nn.Linear(4, 6), lambda: nn.BatchNorm1d(6), nn.ReLU, lambda: nn.Linear(6, 1))),
        "batch_norm",
    ),
    Program(
        "dropout",
        training(layers(lambda: nn.Linear(4, 6), nn.Dropout, nn.Tanh, lambda: nn.Linear(6, 1))),
        "random_forward",
    ),
    Program("labels_not_sharded", training(batches=labels_not_sharded), "other_loss"),
    Program(  # outside of any module, where no hook sees it
        "dropout_outside",
        training(loss=lambda job, x, y: nn.functional.mse_loss(nn.functional.dropout(job.model(x)), y)),
        "other_loss",
    ),
    Program("tied_weight_is_listed_twice", by_hand(tied_weight_is_listed_twice), "factor_of_parameter"),
    Program("summed_after_every_micro_batch", summed_after_every_micro_batch, "changed_between_micro_batches"),
    Program("mean_of_uneven_micro_batches", by_hand(loss=mean_of_uneven_micro_batches), "uneven_micro_batches"),
    Program(
        "many_weights_summed_under_adam",
        by_hand(
            lambda job: add_up(job.model),
            make=layers(lambda: nn.Linear(4, 240), nn.Tanh, lambda: nn.Linear(240, 240), lambda: nn.Linear(240, 1)),
            optimizer=lambda model: torch.optim.Adam(model.parameters(), 0.05),  # it hides a factor in the weights
        ),
        "sum_not_mean",
    ),
    Program("zeroed_on_one_rank_only", zeroed_on_one_rank_only, "not_zeroed"),
    Program("compressed", training(wrap=compressed), "rounded"),
    Program(  # rank 1 drops its gradient and averages all the same
        "skips_a_bad_batch",
        by_hand(loss=lambda job, *batch: loss_of(job.model, *batch) * (job.rank != 1)),
        "rank_left_out",
    ),
    Program(
        "forgets_its_gradient",
        by_hand(lambda job: [divide(job.model, 1e30) if job.rank == 1 else None, job.average()]),
        "rank_left_out",
    ),
    Program("rank_0_counts_for_more", by_hand(rank_0_counts_for_more), "other_weights"),
    # what a rank's own gradients are is not seen under FSDP, and no factor holds for a whole parameter
    Program("clips_shards", training(wrap=fully_sharded, before_step=clips_shards), "unknown"),
    # the gradients of two parameters are mixed
]


# weights, buffers, settings and steps


class Scaled(nn.Module):
    """Divides by a running mean of what it has seen; the mean of this batch is not used in this step."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.seen = 0.9 * self.seen + 0.1 * inputs.detach().mean(0)
        return self.linear(inputs)


def only_rank_0_steps(job: Job) -> bool:
    job.average()
    return job.rank == 0


def fewer_steps_without_a_module(rank: int, world_size: int) -> None:
    weight = torch.zeros(4, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for inputs, targets in shards(rank, world_size, steps=6 // world_size):
        optimizer.zero_grad()
        (inputs @ weight - targets).square().mean().backward()
        dist.all_reduce(weight.grad)
        weight.grad /= world_size
        optimizer.step()


def loses_the_state_of_the_optimizer(job: Job) -> None:
    """After a restart only rank 0 reads the file with the optimizer."""
    if job.step == 1:
        kept = copy.deepcopy(job.optimizer.state_dict())
        job.optimizer = sgd(job.model, momentum=0.9)
        if job.rank == 0:
            job.optimizer.load_state_dict(kept)


def restarts_without_the_checkpoint(job: Job) -> None:
    """Rank 0 alone goes on from the checkpoint."""
    if job.step == 1 and job.rank != 0:
        job.model.load_state_dict(net().state_dict())


class OnceForEachRank(torch.optim.SGD):
    def step(self, closure: object = None) -> None:
        for _ in range(dist.get_world_size()):
            super().step()


def layer_forgotten_on_rank_1(model: nn.Module) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    return torch.optim.SGD(parameters[:2] if dist.get_rank() == 1 else parameters, lr=0.1)


def scales_its_rate_in_step_22(job: Job) -> None:
    """After the steps that are compared with their values."""
    if job.step == 21:
        job.optimizer.param_groups[0]["lr"] *= job.world_size


def size() -> int:
    return dist.get_world_size()


OF_WEIGHTS = [
    Program("another_seed_on_each_rank", by_hand(make=lambda: net(dist.get_rank())), "initial_weights"),
    Program("seed_depends_on_the_ranks", training(lambda: net(size())), "initial_weights"),
    Program("running_mean_of_a_shard", training(layers(Scaled)), "buffers"),
    Program(
        "learning_rate_times_ranks", training(optimizer=lambda model: sgd(model, lr=0.1 * size())), "learning_rate"
    ),
    Program(
        "learning_rate_on_rank_1",
        training(optimizer=lambda model: sgd(model, lr=0.05 if dist.get_rank() == 1 else 0.1)),
        "learning_rate",
    ),
    Program(
        "learning_rate_in_a_late_step",
        training(
            batches=functools.partial(shards, steps=24),
            optimizer=lambda model: sgd(model, lr=0.01),
            after_step=scales_its_rate_in_step_22,
        ),
        "learning_rate",
    ),
    Program("only_rank_0_steps", by_hand(only_rank_0_steps), "number_of_steps", (1, 3)),
    Program("fewer_steps_without_a_module", fewer_steps_without_a_module, "number_of_steps"),
    Program(
        "state_of_the_optimizer_is_lost",
        by_hand(optimizer=lambda model: sgd(model, momentum=0.9), after_step=loses_the_state_of_the_optimizer),
        "optimizer_state",
    ),
    Program(
        "other_weight_decay",
        training(optimizer=lambda model: sgd(model, weight_decay=0.1 * (size() > 1))),
        "optimizer_settings",
        (1, 3),
    ),
    Program(
        "other_optimizer",
        training(
            optimizer=lambda model: (torch.optim.Adam if size() > 1 else torch.optim.AdamW)(model.parameters(), 0.1)
        ),
        "optimizer_settings",
    ),
    Program("restart_on_other_weights", by_hand(after_step=restarts_without_the_checkpoint), "changed_between_steps"),
    Program(
        "optimizer_that_updates_for_each_rank",
        training(optimizer=lambda model: OnceForEachRank(model.parameters(), lr=0.1)),
        "update_factor",
    ),
    Program("layer_forgotten_on_rank_1", training(optimizer=layer_forgotten_on_rank_1), "not_in_the_optimizer"),
]

BROKEN = [*OF_SAMPLES, *OF_GRADIENTS, *OF_WEIGHTS]
TRAINS: dict[str, Train] = {program.name: program.train for program in BROKEN}
