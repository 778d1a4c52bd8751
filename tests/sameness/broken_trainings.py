"""Training functions that run, agree on all ranks or not, and are not what one rank would have trained."""

# written as people write training loops, without a check for each gradient that could be None
# mypy: disable-error-code="arg-type, assignment, misc, no-any-return, operator, override, union-attr, var-annotated"

from __future__ import annotations

import contextlib
import copy

import torch
import torch.distributed as dist
from tiny_trainings import BATCH, Program, average, batches, data, loss_of, net, shards
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, TensorDataset


def no_sampler(rank: int, world_size: int) -> None:
    loader = DataLoader(TensorDataset(*data()), batch_size=BATCH // world_size)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def same_seed_shuffle_without_shards(rank: int, world_size: int) -> None:
    dataset = TensorDataset(*data())
    sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(0))
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in DataLoader(dataset, batch_size=BATCH // world_size, sampler=sampler):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def each_rank_shuffles_for_itself(rank: int, world_size: int) -> None:
    dataset = TensorDataset(*data())
    sampler = RandomSampler(dataset, generator=torch.Generator().manual_seed(rank))
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in DataLoader(dataset, batch_size=BATCH // world_size, sampler=sampler):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def shuffled_before_sharding(rank: int, world_size: int) -> None:
    """Each rank takes its part of an order of its own, so the shards overlap."""
    inputs, targets = data()
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(rank))[rank::world_size]
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for mine in order.split(BATCH // world_size):
        optimizer.zero_grad()
        loss_of(model, inputs[mine], targets[mine]).backward()
        optimizer.step()


def batch_size_per_rank(rank: int, world_size: int) -> None:
    dataset = TensorDataset(*data())
    loader = DataLoader(dataset, batch_size=6, sampler=DistributedSampler(dataset, world_size, rank, shuffle=False))
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def batch_divided_twice(rank: int, world_size: int) -> None:
    dataset = TensorDataset(*data())
    sampler = DistributedSampler(dataset, world_size, rank, shuffle=False)
    loader = DataLoader(dataset, batch_size=BATCH // world_size // world_size, sampler=sampler)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def padded_by_the_sampler(rank: int, world_size: int) -> None:
    """35 samples: on several ranks the sampler repeats one."""
    dataset = TensorDataset(*data(35))
    loader = DataLoader(
        dataset, BATCH // world_size, sampler=DistributedSampler(dataset, world_size, rank, shuffle=False)
    )
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def rest_of_the_batch_is_lost(rank: int, world_size: int) -> None:
    """11 // 2 samples for each rank, and the last one for none."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches(size=11):
        size = len(inputs) // world_size
        mine = slice(rank * size, (rank + 1) * size)
        optimizer.zero_grad()
        loss_of(model, inputs[mine], targets[mine]).backward()
        optimizer.step()


def rest_of_the_last_batch_is_lost(rank: int, world_size: int) -> None:
    """11 samples in batches of 6: of the last 5, one reaches no rank, but in the other epoch it does."""
    inputs, targets = data(11)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for batch in torch.arange(11).roll(epoch).split(6):
            mine = batch[: len(batch) // world_size * world_size][rank::world_size]
            optimizer.zero_grad()
            loss_of(model, inputs[mine], targets[mine]).backward()
            optimizer.step()


def epochs_in_one_order(rank: int, world_size: int) -> None:
    """set_epoch is called on one rank only."""
    dataset = TensorDataset(*data(24))
    sampler = DistributedSampler(dataset, world_size, rank)
    loader = DataLoader(dataset, batch_size=BATCH // world_size, sampler=sampler)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        if world_size == 1:
            sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            optimizer.step()


def contiguous_shards(rank: int, world_size: int) -> None:
    """Each rank reads its own third of the file: the same samples over an epoch, in other batches."""
    inputs, targets = (one.chunk(world_size)[rank] for one in data())
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for some, wanted in zip(inputs.split(BATCH // world_size), targets.split(BATCH // world_size), strict=True):
        optimizer.zero_grad()
        loss_of(model, some, wanted).backward()
        optimizer.step()


def noise_in_the_inputs(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs + 0.1 * torch.randn_like(inputs), targets).backward()
        optimizer.step()


def normalized_per_shard(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, (inputs - inputs.mean(0)) / inputs.std(0), targets).backward()
        optimizer.step()


def another_seed_on_each_rank(rank: int, world_size: int) -> None:
    model = net(seed=rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, world_size)
        optimizer.step()


def no_seed(rank: int, world_size: int) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, world_size)
        optimizer.step()


def seed_depends_on_the_ranks(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net(seed=world_size))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def summed(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


def summed_under_adam(rank: int, world_size: int) -> None:
    """Adam hides a factor in the weights, not in the gradient."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


def sum_loss_with_ddp(rank: int, world_size: int) -> None:
    """A loss summed over the samples, averaged by DDP."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets, reduction="sum").backward()
        optimizer.step()


def divided_after_ddp(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            parameter.grad /= world_size
        optimizer.step()


def averaged_before_and_after(rank: int, world_size: int) -> None:
    """The loss is divided by world_size, and DDP divides, too."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        (loss_of(model, inputs, targets) / world_size).backward()
        optimizer.step()


def micro_batches_not_divided(rank: int, world_size: int) -> None:
    """On one rank there are four micro-batches, on several fewer; the loss is never divided by their number."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for some, wanted in zip(inputs.split(3), targets.split(3), strict=True):
            loss_of(model, some, wanted).backward()
        average(model, world_size)
        optimizer.step()


def fixed_number_of_ranks(rank: int, world_size: int) -> None:
    """Divides by 3, however many ranks there are."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, 1 if world_size == 1 else 3)
        optimizer.step()


def mean_of_unequal_means(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size, size=9):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def mean_over_masked(rank: int, world_size: int) -> None:
    """Each sample has a mask; each rank takes the mean over what its own mask leaves."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        mask = (inputs[:, :1] > -0.3).float()
        optimizer.zero_grad()
        ((model(inputs) - targets).square() * mask).sum().div(mask.sum()).backward()
        optimizer.step()


def not_averaged(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def averaged_after_the_step(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        average(model, world_size)


def averages_a_copy(rank: int, world_size: int) -> None:
    """`/ world_size` makes a new tensor, and the loop forgets to put it into p.grad."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            gradient = parameter.grad / world_size
            dist.all_reduce(gradient)
        optimizer.step()


def bias_not_averaged(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for name, parameter in model.named_parameters():
            if name != "2.bias":
                dist.all_reduce(parameter.grad)
                parameter.grad /= world_size
        optimizer.step()


def unfrozen_after_wrapping(rank: int, world_size: int) -> None:
    """DDP notes the parameters that need a gradient when it is made."""
    model = net()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model)
    model[0].requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(wrapped, inputs, targets).backward()
        optimizer.step()


def always_no_sync(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for some, wanted in zip(inputs.chunk(3), targets.chunk(3), strict=True):
            with model.no_sync():
                (loss_of(model, some, wanted) / 3).backward()
        optimizer.step()


def around_the_wrapper(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model.module, inputs, targets).backward()
        optimizer.step()


def reduced_to_one_rank(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            dist.reduce(parameter.grad, 0)
            if rank == 0:
                parameter.grad /= world_size
        optimizer.step()


def gradient_of_rank_0(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            dist.broadcast(parameter.grad, 0)
        optimizer.step()


def clipped_before(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        average(model, world_size)
        optimizer.step()


def batch_norm(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    inside = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    model = DistributedDataParallel(inside)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def dropout(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def contrastive(rank: int, world_size: int) -> None:
    """The negatives of a sample are those of its own rank."""
    model = DistributedDataParallel(nn.Sequential(net(), nn.Linear(1, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, _ in shards(rank, world_size):
        optimizer.zero_grad()
        features = model(inputs)
        nn.functional.cross_entropy(features @ features.T, torch.arange(len(inputs))).backward()
        optimizer.step()


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


def running_mean_of_a_shard(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(Scaled())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def learning_rate_times_ranks(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * world_size)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def schedule_steps_per_rank(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        for _ in range(world_size):
            schedule.step()


def steps_once_per_rank(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for _ in range(world_size):
            optimizer.step()


def only_rank_0_steps(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, world_size)
        if rank == 0:
            optimizer.step()


def state_of_the_optimizer_is_lost(rank: int, world_size: int) -> None:
    """After a restart only rank 0 reads the file with the optimizer."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step, (inputs, targets) in enumerate(shards(rank, world_size)):
        if step == 2:
            kept = copy.deepcopy(optimizer.state_dict())
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            if rank == 0:
                optimizer.load_state_dict(kept)
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, world_size)
        optimizer.step()


def other_weight_decay(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    decay = 0.1 if world_size > 1 else 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=decay)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def averages_weights_instead(rank: int, world_size: int) -> None:
    """Local steps, and the mean of the weights after each: not the same under momentum and clipping."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in model.parameters():
                dist.all_reduce(parameter)
                parameter /= world_size


def clamps_on_rank_0(rank: int, world_size: int) -> None:
    """Rank 0 alone clamps the weights between two steps."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, world_size)
        optimizer.step()
        if world_size > 1 and rank == 0:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.clamp_(-0.2, 0.2)


def loader_that_drops_the_rest(rank: int, world_size: int) -> None:
    """31 samples: on several ranks the last, incomplete batch is dropped."""
    dataset = TensorDataset(*data(31))
    sampler = DistributedSampler(dataset, world_size, rank, shuffle=False, drop_last=True)
    loader = DataLoader(dataset, BATCH // world_size, sampler=sampler, drop_last=world_size > 1)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def summed_after_every_micro_batch(rank: int, world_size: int) -> None:
    """What is already summed is summed again after the next micro-batch."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for some, wanted in zip(inputs.chunk(3), targets.chunk(3), strict=True):
            (loss_of(model, some, wanted) / 3).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        average(model, world_size)
        optimizer.step()


def joined_twice(rank: int, world_size: int) -> None:
    """A tied weight is in the loop twice, so it is reduced twice."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in (*model.parameters(), model[0].weight):
            dist.all_reduce(parameter.grad)
            parameter.grad /= 1 if parameter is model[0].weight else world_size
        optimizer.step()


def averages_before_backward(rank: int, world_size: int) -> None:
    """The gradients of the step before are averaged, and the new ones are added to them."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad(set_to_none=False)
        average(model, world_size)
        with contextlib.suppress(RuntimeError):
            loss_of(model, inputs, targets).backward()
        optimizer.step()


def class_weights(rank: int, world_size: int) -> None:
    """cross_entropy divides by the weights of the classes that this rank has."""
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, _ in shards(rank, world_size):
        classes = (inputs[:, 0] * 9).long().abs() % 3
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), classes, weight=torch.tensor([1.0, 5.0, 0.2])).backward()
        optimizer.step()


def many_weights_summed(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 240), nn.Tanh(), nn.Linear(240, 240), nn.Tanh(), nn.Linear(240, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


def many_weights_decay_faster(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 10_000), nn.Tanh(), nn.Linear(10_000, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.01 * world_size)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def fully_sharded_model_only(rank: int, world_size: int) -> None:
    """The model is sharded, the data is not."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = data()
    for rows in torch.arange(36).split(BATCH // world_size)[:3]:
        optimizer.zero_grad()
        loss_of(model, inputs[rows], targets[rows]).backward()
        optimizer.step()


def clips_shards(rank: int, world_size: int) -> None:
    """Each rank clips by the norm of its own shards."""
    model = net()
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            parameter.grad *= min(1.0, 0.01 / (float(parameter.grad.to_local().norm()) + 1e-6))
        optimizer.step()


def another_order_on_rank_1(rank: int, world_size: int) -> None:
    """Two gradients of one shape change places."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        weights = [model[0].weight, model[2].weight]
        others = [model[0].bias, model[2].bias, *model[4].parameters()]
        for parameter in [*(reversed(weights) if rank == 1 else weights), *others]:
            dist.all_reduce(parameter.grad)
            parameter.grad /= world_size
        optimizer.step()


def stops_averaging(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (inputs, targets) in enumerate(shards(rank, world_size)):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        if step < 2:
            average(model, world_size)
        optimizer.step()


def labels_not_sharded(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches():
        optimizer.zero_grad()
        loss_of(model, inputs[rank::world_size], targets[: BATCH // world_size]).backward()
        optimizer.step()


def zeroed_on_one_rank_only(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        if world_size == 1:
            optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def weights_averaged_now_and_then(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (inputs, targets) in enumerate(shards(rank, world_size, steps=4)):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        if step % 2:
            with torch.no_grad():
                for parameter in model.parameters():
                    dist.all_reduce(parameter)
                    parameter /= world_size


def learning_rate_on_rank_1(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05 if rank == 1 else 0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def compressed(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def uneven_inputs_under_join(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = data(27)
    with model.join():
        for rows in torch.arange(27)[rank::world_size].split(BATCH // world_size):
            optimizer.zero_grad()
            loss_of(model, inputs[rows], targets[rows]).backward()
            optimizer.step()


def skips_a_bad_batch(rank: int, world_size: int) -> None:
    """Rank 1 drops its gradient and averages all the same."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        (loss_of(model, inputs, targets) * (rank != 1)).backward()
        average(model, world_size)
        optimizer.step()


def nearly_equal_numbers_of_tokens(rank: int, world_size: int) -> None:
    """Each text has a number of tokens, about 100. Each rank divides by the tokens of its own texts."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        tokens = 100 + (inputs[:, :1] > 0)
        optimizer.zero_grad()
        ((model(inputs) - targets).square() * tokens).sum().div(tokens.sum()).backward()
        optimizer.step()


def rank_0_counts_for_more(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        for parameter in model.parameters():
            parameter.grad *= 1.0 if world_size == 1 else 0.7 if rank == 0 else 0.3
            dist.all_reduce(parameter.grad)
        optimizer.step()


class OnceForEachRank(torch.optim.SGD):
    def step(self, closure: object = None) -> None:
        for _ in range(dist.get_world_size()):
            super().step()


def optimizer_that_updates_for_each_rank(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = OnceForEachRank(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def fewer_steps_without_a_module(rank: int, world_size: int) -> None:
    weight = torch.zeros(4, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for inputs, targets in shards(rank, world_size, steps=6 // world_size):
        optimizer.zero_grad()
        (inputs @ weight - targets).square().mean().backward()
        dist.all_reduce(weight.grad)
        weight.grad /= world_size
        optimizer.step()


def layer_forgotten_on_rank_1(rank: int, world_size: int) -> None:
    model = net()
    trained = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model[0].parameters() if rank == 1 else model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(trained, inputs, targets).backward()
        optimizer.step()


def penalty_of_each_rank(rank: int, world_size: int) -> None:
    """The penalty on the weights is multiplied by the number of ranks."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        penalty = sum(one.square().sum() for one in model.parameters())
        (loss_of(model, inputs, targets) + 0.01 * world_size * penalty).backward()
        optimizer.step()


def clips_every_micro_batch(rank: int, world_size: int) -> None:
    """The first micro-batch runs under no_sync, so each rank clips a gradient of its own."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for number, (some, wanted) in enumerate(zip(inputs.chunk(2), targets.chunk(2), strict=True)):
            with contextlib.nullcontext() if number == 1 else model.no_sync():
                (loss_of(model, some, wanted) / 2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


def mean_of_uneven_micro_batches(rank: int, world_size: int) -> None:
    """12 samples: 5, 5 and 2 on one rank, 5 and 1 on each of two."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        parts = list(zip(inputs.split(5), targets.split(5), strict=True))
        for number, (some, wanted) in enumerate(parts, start=1):
            with contextlib.nullcontext() if number == len(parts) else model.no_sync():
                (loss_of(model, some, wanted) / len(parts)).backward()
        optimizer.step()


def rank_1_skips_a_step(rank: int, world_size: int) -> None:
    """As for a loss that is not finite, which only this rank sees."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (inputs, targets) in enumerate(shards(rank, world_size)):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        if not (rank == 1 and step == 1):
            optimizer.step()


def head_outside_of_ddp(rank: int, world_size: int) -> None:
    """Two optimizers, and only the model of the first is wrapped."""
    model = net()
    backbone, head = DistributedDataParallel(model[:2]), model[2:]
    optimizers = torch.optim.SGD(backbone.parameters(), lr=0.1), torch.optim.Adam(head.parameters(), lr=0.01)
    for inputs, targets in shards(rank, world_size):
        nn.functional.mse_loss(head(backbone(inputs)), targets).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def learning_rate_in_a_late_step(rank: int, world_size: int) -> None:
    """After the steps that are compared with their values."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (inputs, targets) in enumerate(shards(rank, world_size, steps=24)):
        if step == 22:
            optimizer.param_groups[0]["lr"] *= world_size
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


BROKEN = [
    Program(no_sampler, cause="not_sharded"),
    Program(same_seed_shuffle_without_shards, cause="not_sharded"),
    Program(each_rank_shuffles_for_itself, cause="not_sharded"),
    Program(shuffled_before_sharding, cause="overlapping_shards"),
    Program(batch_size_per_rank, (1, 2), cause="global_batch"),
    Program(batch_divided_twice, (1, 2), cause="global_batch"),
    Program(padded_by_the_sampler, cause="padded_samples"),
    Program(rest_of_the_batch_is_lost, (1, 2), cause="lost_samples"),
    Program(rest_of_the_last_batch_is_lost, (1, 2), cause="lost_samples"),
    Program(epochs_in_one_order, cause="sample_order"),
    Program(contiguous_shards, (1, 3), cause="sample_order"),
    Program(noise_in_the_inputs, cause="other_inputs"),
    Program(normalized_per_shard, (1, 2), cause="other_inputs"),
    Program(another_seed_on_each_rank, cause="initial_weights"),
    Program(no_seed, (1, 3), cause="initial_weights"),
    Program(seed_depends_on_the_ranks, cause="initial_weights"),
    Program(summed, cause="sum_not_mean"),
    Program(summed_under_adam, (1, 3), cause="sum_not_mean"),
    Program(sum_loss_with_ddp, cause="averaged_twice"),
    Program(divided_after_ddp, (1, 3), cause="averaged_twice"),
    Program(averaged_before_and_after, cause="averaged_twice"),
    Program(micro_batches_not_divided, (1, 2), cause="micro_batches"),
    Program(fixed_number_of_ranks, (1, 2), cause="factor"),
    Program(mean_of_unequal_means, (1, 2), cause="mean_of_means"),
    Program(mean_over_masked, (1, 3), cause="mean_of_means"),
    Program(not_averaged, cause="not_averaged"),
    Program(averaged_after_the_step, (1, 3), cause="not_averaged"),
    Program(averages_a_copy, cause="not_averaged"),
    Program(bias_not_averaged, cause="parameter_not_averaged"),
    Program(unfrozen_after_wrapping, (1, 2), cause="parameter_not_averaged"),
    Program(always_no_sync, cause="no_sync"),
    Program(around_the_wrapper, cause="ddp_bypassed"),
    Program(reduced_to_one_rank, (1, 3), cause="result_on_some_ranks"),
    Program(gradient_of_rank_0, cause="gradient_of_one_rank"),
    Program(clipped_before, (1, 3), cause="clipped_before_averaging"),
    Program(batch_norm, cause="batch_norm"),
    Program(dropout, cause="random_forward"),
    Program(contrastive, (1, 2), cause="other_loss"),
    Program(running_mean_of_a_shard, cause="buffers"),
    Program(learning_rate_times_ranks, cause="learning_rate"),
    Program(schedule_steps_per_rank, (1, 3), cause="learning_rate"),
    Program(steps_once_per_rank, (1, 2), cause="extra_step"),
    Program(only_rank_0_steps, (1, 3), cause="number_of_steps"),
    Program(state_of_the_optimizer_is_lost, cause="optimizer_state"),
    Program(other_weight_decay, (1, 3), cause="optimizer_settings"),
    Program(averages_weights_instead, (1, 3), cause="not_averaged"),
    Program(clamps_on_rank_0, (1, 2), cause="changed_between_steps"),
    Program(loader_that_drops_the_rest, (1, 2), cause="lost_samples"),
    Program(summed_after_every_micro_batch, (1, 2), cause="changed_between_micro_batches"),
    Program(joined_twice, (1, 2), cause="factor_of_parameter"),
    Program(averages_before_backward, (1, 2), cause="not_averaged"),
    Program(class_weights, cause="mean_of_means"),
    Program(many_weights_summed, cause="sum_not_mean"),
    Program(many_weights_decay_faster, (1, 2), cause="optimizer_settings"),
    Program(fully_sharded_model_only, cause="not_sharded"),
    # what a rank's own gradients are is not seen under FSDP, and no factor holds for a whole parameter
    Program(clips_shards, cause="unknown"),
    # the gradients of two parameters are mixed
    Program(another_order_on_rank_1, (1, 2), cause="unknown"),
    Program(stops_averaging, (1, 3), cause="not_averaged"),
    Program(labels_not_sharded, (1, 2), cause="other_loss"),
    Program(zeroed_on_one_rank_only, cause="not_zeroed"),
    Program(weights_averaged_now_and_then, (1, 3), cause="not_averaged"),
    Program(learning_rate_on_rank_1, cause="learning_rate"),
    Program(compressed, cause="rounded"),
    Program(uneven_inputs_under_join, (1, 2), cause="mean_of_means"),
    Program(skips_a_bad_batch, cause="rank_left_out"),
    Program(nearly_equal_numbers_of_tokens, (1, 2), cause="mean_of_means"),
    Program(rank_0_counts_for_more, (1, 2), cause="other_weights"),
    Program(optimizer_that_updates_for_each_rank, (1, 2), cause="update_factor"),
    Program(fewer_steps_without_a_module, (1, 2), cause="number_of_steps"),
    Program(layer_forgotten_on_rank_1, cause="not_in_the_optimizer"),
    Program(penalty_of_each_rank, (1, 3), cause="other_loss"),
    Program(clips_every_micro_batch, (1, 3), cause="changed_between_micro_batches"),
    Program(mean_of_uneven_micro_batches, (1, 2), cause="uneven_micro_batches"),
    Program(rank_1_skips_a_step, cause="skipped_step"),
    Program(head_outside_of_ddp, (1, 3), cause="not_averaged"),
    Program(learning_rate_in_a_late_step, (1, 2), cause="learning_rate"),
]
