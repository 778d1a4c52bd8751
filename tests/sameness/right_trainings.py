"""Training programs that are the same on one rank and on several, in many styles: none may raise a false alarm."""

# written as people write training loops, without a check for each gradient that could be None
# mypy: disable-error-code="arg-type, assignment, index, misc, no-any-return, operator, union-attr, var-annotated"

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

import torch
import torch.distributed as dist
import torch.nn.functional as F
from tiny_trainings import (
    BATCH,
    Job,
    Program,
    adam,
    add_up,
    average,
    batches,
    by_hand,
    data,
    layers,
    loss_of,
    net,
    on_rows,
    sgd,
    shards,
    training,
)
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset

Batches = list[tuple[Tensor, Tensor]]


# gradients that are averaged in another way


def averaged_in_one_message(job: Job) -> None:
    flat = torch.cat([one.grad.view(-1) for one in job.parameters])
    dist.all_reduce(flat)
    nn.utils.vector_to_parameters(flat / job.world_size, [one.grad for one in job.parameters])


def asynchronous_averages(rank: int, world_size: int) -> None:
    """Each gradient is sent as soon as it is there, and awaited before the step."""
    model = net()
    optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)
    works: list[dist.Work | None] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda one: works.append(dist.all_reduce(one.grad, async_op=True)))
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        (loss_of(model, inputs, targets) / world_size).backward()
        while works:
            works.pop().wait()
        optimizer.step()


def ddp_only_on_several(model: nn.Module) -> nn.Module:
    """DDP broadcasts the weights of rank 0."""
    return DistributedDataParallel(model) if dist.get_world_size() > 1 else model


def fully_sharded(model: nn.Module) -> nn.Module:
    for layer in model.children():
        fully_shard(layer)
    fully_shard(model)
    return model


def sample_by_sample(rank: int, world_size: int) -> None:
    model = net()
    optimizer = sgd(model)
    for inputs, targets in batches():
        optimizer.zero_grad()
        for row in range(rank, BATCH, world_size):
            (loss_of(model, inputs[row : row + 1], targets[row : row + 1]) / BATCH).backward()
        add_up(model)
        optimizer.step()


# losses


def mean_over_all(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    count = torch.tensor(float(len(inputs)))
    dist.all_reduce(count)
    return loss_of(job.model, inputs, targets, reduction="sum") * job.world_size / count


def in_autocast(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return loss_of(job.model, inputs, targets)


def gradient_penalty(job: Job, inputs: Tensor, targets: Tensor) -> Tensor:
    inputs.requires_grad_()
    outputs = job.model(inputs)
    (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    return F.mse_loss(outputs, targets) + 0.1 * slope.square().sum(1).mean()


def scaled_float16(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = sgd(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_of(model, inputs, targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()


# samples


def sampled(rank: int, world_size: int) -> list[Tensor]:
    """With a sampler that is told the epoch, and shuffles."""
    sampler, steps = DistributedSampler(range(24), world_size, rank, seed=3), []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        steps += torch.tensor(list(sampler)).split(BATCH // world_size)
    return steps


def noisy(rank: int, world_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    torch.manual_seed(rank)
    for inputs, targets in shards(rank, world_size):
        yield inputs + 0.1 * torch.randn_like(inputs), targets


class Stream(IterableDataset[Tensor]):
    """An endless stream; each rank skips what belongs to the others."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size = rank, world_size

    def __iter__(self) -> Iterator[Tensor]:
        source = torch.Generator().manual_seed(9)
        numbers = (torch.rand(4, generator=source) for _ in itertools.count())
        return itertools.islice(numbers, self.rank, None, self.world_size)


def streamed(rank: int, world_size: int) -> Batches:
    loader = DataLoader(Stream(rank, world_size), batch_size=12 // world_size)
    return [(batch, batch[:, :1]) for batch in itertools.islice(loader, 4)]


class TinyTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8, padding_idx=0)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.block(self.embedding(tokens), src_key_padding_mask=tokens == 0))


def texts(rank: int, world_size: int) -> Batches:
    """Of different lengths, padded batch by batch; the targets are the next tokens."""
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(2, 7, (24,), generator=generator).tolist()
    all_texts = [torch.randint(1, 11, (length,), generator=generator) for length in lengths]
    steps = [all_texts[8 * step + rank : 8 * step + 8 : world_size] for step in range(3)]
    padded = [nn.utils.rnn.pad_sequence(mine, batch_first=True) for mine in steps]
    return [(tokens, F.pad(tokens[:, 1:], (0, 1))) for tokens in padded]


def mean_over_tokens(job: Job, tokens: Tensor, wanted: Tensor) -> Tensor:
    number = (tokens != 0).sum().float()
    dist.all_reduce(number)
    losses = F.cross_entropy(job.model(tokens).flatten(0, 1), wanted.flatten(), reduction="none")
    return (losses * (tokens != 0).flatten()).sum() * job.world_size / number


class LastState(nn.Module):
    """Its inputs have the samples along the second dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(3, 4), nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs)[0][-1])


def time_first(rank: int, world_size: int) -> Batches:
    inputs = torch.randn(5, 36, 3, generator=torch.Generator().manual_seed(1))
    mine = [slice(BATCH * step + rank, BATCH * (step + 1), world_size) for step in range(3)]
    return [(inputs[:, some], inputs[:, some].sum((0, 2)).unsqueeze(1)) for some in mine]


def pictures(rank: int, world_size: int) -> None:
    torch.manual_seed(6)
    convolutions = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 8)]
    model = DistributedDataParallel(nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(8 * 144, 10)))
    everything = TensorDataset(torch.rand(256, 1, 28, 28), torch.randint(10, (256,)))
    sampler = DistributedSampler(everything, drop_last=True)
    optimizer = sgd(model, momentum=0.9)
    for images, labels in DataLoader(everything, batch_size=64 // world_size, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()


# models


class TiedEncoder(nn.Module):
    """One weight is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.wide.weight = self.narrow.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.wide(self.narrow(inputs).tanh()).sum(1, keepdim=True)


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = net()

    def forward(self, inputs: Tensor) -> Tensor:
        return checkpoint(self.inside, inputs, use_reentrant=False)


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, *, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": (self.linear(inputs) - labels).square().mean()}


class Attention(nn.Module):
    """With dropout of all kinds: recurrent, of a module, and in functions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Linear(1, 4), nn.Dropout(0.5)
        self.memory = nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True)
        self.heads = nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        values, _ = self.memory(F.dropout(self.drop(self.embed(inputs[..., None])), 0.5, self.training))
        seen = F.scaled_dot_product_attention(values, values, values, dropout_p=0.5)
        return self.head(self.heads(seen, seen, seen)[0].mean(1))


def batch_norm_in_eval_mode(model: nn.Module) -> nn.Module:
    model[1].eval()
    return DistributedDataParallel(model)


def frozen_first_layer(model: nn.Module) -> nn.Module:
    model[0].requires_grad_(False)
    return DistributedDataParallel(model)


def words(rank: int, world_size: int) -> Batches:
    tokens = torch.randint(20, (36, 4), generator=torch.Generator().manual_seed(2))
    return [
        (mine, mine.float().mean(1, keepdim=True) / 20)
        for mine in (part[rank::world_size] for part in tokens.split(BATCH))
    ]


def without_a_module(rank: int, world_size: int) -> None:
    weight = torch.zeros(4, 1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, nesterov=True)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        (inputs @ weight - targets).square().mean().backward()
        dist.all_reduce(weight.grad)
        weight.grad /= world_size
        optimizer.step()


class Kinks(nn.Module):
    """A step by the mean of the inputs brings each weight among kinks that are closer than float32 can tell."""

    def __init__(self, inputs: Tensor, rate: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(inputs.shape[1]))
        there = 1 - rate * inputs.double().mean(0)
        self.kinks = there[:, None] + torch.linspace(-1e-6, 1e-6, 2000, dtype=torch.float64)
        self.way = torch.sign(there - 1)[:, None]

    def forward(self, inputs: Tensor) -> Tensor:
        beyond = self.way * (self.weight[:, None] - self.kinks.to(self.weight.dtype))
        return inputs @ self.weight + F.relu(beyond).sum()


def turned_by_rounding(rank: int, world_size: int) -> None:
    inputs = torch.randn(24, 64, generator=torch.Generator().manual_seed(3))
    model = DistributedDataParallel(Kinks(inputs, 0.5))
    optimizer = sgd(model, lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs[rank::world_size]).mean().backward()
        optimizer.step()


# optimizers and what is around a step


def two_optimizers(rank: int, world_size: int) -> None:
    """Encoder and decoder, each with an optimizer of its own; the second steps every second time."""
    torch.manual_seed(0)
    encoder, decoder = DistributedDataParallel(nn.Linear(4, 6)), DistributedDataParallel(nn.Linear(6, 1))
    fast, slow = torch.optim.Adam(encoder.parameters(), lr=0.05), torch.optim.SGD(decoder.parameters(), lr=0.1)
    for step, (inputs, targets) in enumerate(shards(rank, world_size)):
        fast.zero_grad()
        slow.zero_grad()
        F.mse_loss(decoder(encoder(inputs).tanh()), targets).backward()
        fast.step()
        if step % 2:
            slow.step()


def optimizer_with_a_closure(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    for inputs, targets in shards(rank, world_size):

        def closure(inputs: Tensor = inputs, targets: Tensor = targets) -> Tensor:
            optimizer.zero_grad()
            loss = loss_of(model, inputs, targets)
            loss.backward()
            average(model, world_size)
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            return mean / world_size

        optimizer.step(closure)


def resumed(job: Job) -> None:
    """From a state that all ranks have, into a new optimizer."""
    if job.step == 1:
        model, state = job.model.state_dict(), job.optimizer.state_dict()
        job.model = DistributedDataParallel(net(5))
        job.optimizer = adam(job.model)
        job.model.load_state_dict(model)
        job.optimizer.load_state_dict(state)


def evaluates_on_rank_0(job: Job) -> None:
    """And builds a graph for nothing."""
    if job.rank == 0:
        loss_of(job.model.module, *data(8))


def evaluates_without_gradients(job: Job) -> None:
    job.model.eval()
    with torch.no_grad():
        loss_of(job.model.module, *data(8))
    job.model.train()


def with_two_rates(model: nn.Module) -> torch.optim.Optimizer:
    first, second, *others = model.parameters()
    return torch.optim.SGD([{"params": [first, second]}, {"params": others, "lr": 0.01}], lr=0.1, momentum=0.5)


NORMALIZED = layers(lambda: nn.Linear(4, 6), lambda: nn.BatchNorm1d(6), nn.ReLU, lambda: nn.Linear(6, 1))
DEEP = layers(
    lambda: nn.Linear(4, 8), nn.ReLU, lambda: nn.Linear(8, 8), nn.ReLU, lambda: nn.LayerNorm(8), lambda: nn.Linear(8, 1)
)
WIDE = layers(lambda: nn.Linear(4, 241), nn.Tanh, lambda: nn.Linear(241, 241), nn.Tanh, lambda: nn.Linear(241, 1))
ODD = (1, 3)
six = functools.partial(shards, steps=6)


def gradients_of_samples(rank: int, world_size: int) -> None:
    """Each sample's gradient is limited before they are added up."""
    model = net()
    weights = {name: one.detach().clone() for name, one in model.named_parameters()}
    optimizer = torch.optim.SGD(weights.values(), lr=0.1)

    def loss(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(functional_call(model, weights, inputs.unsqueeze(0)), targets.unsqueeze(0))

    for inputs, targets in shards(rank, world_size):
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(weights, inputs, targets)
        for name, one in weights.items():
            one.grad = gradients[name].clamp(-1, 1).sum(0)
            dist.all_reduce(one.grad)
            one.grad /= BATCH
        optimizer.step()


RIGHT = [
    Program("turned_by_rounding", turned_by_rounding),
    Program("pictures", pictures),
    Program("averaged_by_hand", by_hand()),
    Program("gradients_of_samples", gradients_of_samples),
    Program("with_ddp", training()),
    Program("averaged_in_one_message", by_hand(averaged_in_one_message), ranks=ODD),
    Program("asynchronous_averages", asynchronous_averages),
    Program("ddp_only_on_several", training(lambda: net(dist.get_rank()), ddp_only_on_several, adam)),
    Program(
        "ddp_with_bucket_views",
        training(
            wrap=lambda model: DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True),
            optimizer=adam,
        ),
        ranks=ODD,
    ),
    Program("accumulation_with_no_sync", training(parts=3)),
    Program("sample_by_sample", sample_by_sample),
    Program(  # 31 samples: the last global batch has 7
        "last_batch_is_smaller",
        on_rows(
            lambda rank, ranks: [rows[rank::ranks] for rows in torch.arange(31).split(BATCH)], 31, loss=mean_over_all
        ),
    ),
    Program("fully_sharded", training(wrap=fully_sharded, optimizer=adam)),
    Program(
        "zero_redundancy",
        training(optimizer=lambda model: ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.05)),
    ),
    Program("whole_batch_on_every_rank", training(batches=lambda rank, ranks: batches()), ranks=ODD),
    Program("scaled_float16", scaled_float16),
    Program(
        "weights_in_bfloat16",
        training(
            lambda: net().bfloat16(), loss=lambda job, *batch: loss_of(job.model, *(one.bfloat16() for one in batch))
        ),
    ),
    Program("in_float64", by_hand(), ranks=ODD, dtype=torch.float64),
    Program(
        "clipped_after_averaging", training(before_step=lambda job: nn.utils.clip_grad_norm_(job.parameters, 0.05))
    ),
    Program("gradient_penalty", by_hand(loss=gradient_penalty)),
    Program("sampler_with_epochs", on_rows(sampled, 24)),
    Program("endless_stream", training(batches=streamed), ranks=ODD),
    Program("mean_over_tokens", training(layers(TinyTransformer), batches=texts, loss=mean_over_tokens)),
    Program("time_first", training(layers(LastState), optimizer=adam, batches=time_first)),
    Program("dropout_of_all_kinds_switched_off", training(layers(Attention)), random=("dropout",)),
    Program("noisy_inputs", training(batches=noisy), random=("augmentation",)),
    Program("batch_norm_in_eval_mode", training(NORMALIZED, wrap=batch_norm_in_eval_mode)),
    Program("shared_parameters", training(layers(TiedEncoder), optimizer=adam), ranks=ODD),
    Program("activation_checkpoints", training(Recomputed), ranks=ODD),
    Program(
        "loss_inside_the_model",
        training(layers(WithLoss), loss=lambda job, x, y: job.model(inputs=x, labels=y)["loss"]),
    ),
    Program(
        "frozen_layers",
        training(
            wrap=frozen_first_layer,
            optimizer=lambda model: torch.optim.SGD([one for one in model.parameters() if one.requires_grad], 0.1),
        ),
    ),
    Program("sparse_gradients", training(layers(lambda: nn.EmbeddingBag(20, 1, sparse=True)), batches=words)),
    Program("without_a_module", without_a_module),
    Program("two_optimizers", two_optimizers),
    Program("groups_with_learning_rates", training(optimizer=with_two_rates), ranks=ODD),
    Program("optimizer_with_a_closure", optimizer_with_a_closure),
    Program("resumed_in_between", training(optimizer=adam, batches=six, after_step=resumed)),
    Program("evaluation_on_rank_0", training(after_step=evaluates_on_rank_0)),
    Program("evaluation_without_gradients", training(after_step=evaluates_without_gradients)),
    Program(  # many more than are compared, in a network where rounding grows
        "sixty_steps", training(DEEP, optimizer=adam, batches=functools.partial(shards, steps=60))
    ),
    Program("many_weights", training(WIDE, batches=six, optimizer=adam)),
    Program("many_weights_fully_sharded", training(WIDE, fully_sharded, adam, six)),
]
