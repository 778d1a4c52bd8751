"""Training functions that are the same on one rank and on several, each in a style of its own."""

# written as people write training loops, without a check for each gradient that could be None
# mypy: disable-error-code="arg-type, assignment, misc, no-any-return, operator, var-annotated"

from __future__ import annotations

import contextlib
import io

import torch
import torch.distributed as dist
from tiny_trainings import BATCH, STEPS, Program, average, batches, data, loss_of, net, shards
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def averaged_by_hand(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        average(model, world_size)
        optimizer.step()


def averaged_in_one_message(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        flat = torch.cat([one.grad.view(-1) for one in model.parameters() if one.grad is not None])
        dist.all_reduce(flat)
        gradients = [one.grad for one in model.parameters() if one.grad is not None]
        nn.utils.vector_to_parameters(flat / world_size, gradients)
        optimizer.step()


def averaged_by_hooks(rank: int, world_size: int) -> None:
    model = net()

    def mean(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / world_size

    for parameter in model.parameters():
        parameter.register_hook(mean)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def with_ddp(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def ddp_only_on_several(rank: int, world_size: int) -> None:
    torch.manual_seed(rank)  # DDP broadcasts the weights of rank 0
    model: nn.Module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    if world_size > 1:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def ddp_with_bucket_views(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net(), gradient_as_bucket_view=True, static_graph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, weight_decay=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def ddp_with_a_comm_hook(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def accumulation_with_no_sync(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        parts = list(zip(inputs.chunk(3), targets.chunk(3), strict=True))
        for number, (some, wanted) in enumerate(parts):
            with model.no_sync() if number < len(parts) - 1 else contextlib.nullcontext():
                (loss_of(model, some, wanted) / len(parts)).backward()
        optimizer.step()


def accumulation_instead_of_ranks(rank: int, world_size: int) -> None:
    """Four micro-batches of three, however many ranks share them."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches():
        optimizer.zero_grad()
        mine = list(zip(inputs.chunk(4), targets.chunk(4), strict=True))[rank::world_size]
        for number, (some, wanted) in enumerate(mine):
            with model.no_sync() if number < len(mine) - 1 else contextlib.nullcontext():
                (loss_of(model, some, wanted) / len(mine)).backward()
        optimizer.step()


def weighted_for_unequal_shards(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches(size=11):
        some, wanted = inputs.tensor_split(world_size)[rank], targets.tensor_split(world_size)[rank]
        optimizer.zero_grad()
        (loss_of(model, some, wanted) * len(some) / len(inputs)).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


def unequal_shards_with_ddp(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches(size=7):
        mine = slice(rank, None, world_size)
        optimizer.zero_grad()
        total = nn.functional.mse_loss(model(inputs[mine]), targets[mine], reduction="sum")
        (total * world_size / len(inputs)).backward()
        optimizer.step()


def zero_redundancy(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.05)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def fully_sharded(rank: int, world_size: int) -> None:
    model = net()
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def autocast_to_bfloat16(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_of(model, inputs, targets)
        loss.backward()
        optimizer.step()


def clipped_after_averaging(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        optimizer.step()


def batch_norm_in_eval_mode(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1))
    model[1].eval()
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(wrapped, inputs, targets).backward()
        optimizer.step()


def layer_norm_and_warm_up(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / 4)
    for inputs, targets in shards(rank, world_size, steps=4):
        optimizer.zero_grad(set_to_none=False)
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        schedule.step()


def sampler_without_shuffling(rank: int, world_size: int) -> None:
    dataset = TensorDataset(*data())
    sampler = DistributedSampler(dataset, world_size, rank, shuffle=False)
    loader = DataLoader(dataset, batch_size=BATCH // world_size, sampler=sampler)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def sampler_with_epochs(rank: int, world_size: int) -> None:
    dataset = TensorDataset(*data(24))
    sampler = DistributedSampler(dataset, world_size, rank, seed=3)
    loader = DataLoader(dataset, batch_size=BATCH // world_size, sampler=sampler)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            optimizer.step()


def sampler_that_drops_the_rest(rank: int, world_size: int) -> None:
    """27 samples: the loader of one rank, too, drops what is no whole global batch."""
    dataset = Subset(TensorDataset(*data()), range(27 // BATCH * BATCH))
    sampler = DistributedSampler(dataset, world_size, rank, drop_last=True)
    loader = DataLoader(dataset, batch_size=BATCH // world_size, sampler=sampler, drop_last=True)
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def last_batch_is_smaller(rank: int, world_size: int) -> None:
    """31 samples: the last global batch has 7, and each rank weighs with what it got."""
    inputs, targets = data(31)
    order = torch.randperm(31, generator=torch.Generator().manual_seed(1))
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for batch in order.split(BATCH):
        mine = batch[rank::world_size]
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs[mine]), targets[mine], reduction="sum").backward()
        count = torch.tensor(float(len(mine)))
        dist.all_reduce(count)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= count
        optimizer.step()


def dropout_by_sample(rank: int, world_size: int) -> None:
    """The mask of a sample depends on its number and the step only."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, targets = data()
    for step in range(STEPS):
        mine = torch.arange(BATCH)[rank::world_size] + BATCH * step
        masks = [torch.rand(4, generator=torch.Generator().manual_seed(int(n))) > 0.2 for n in mine]
        optimizer.zero_grad()
        loss_of(model, inputs[mine] * torch.stack(masks), targets[mine]).backward()
        average(model, world_size)
        optimizer.step()


def dropout_switched_off(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    net_with_dropout = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Tanh(), nn.Linear(6, 1))
    model = DistributedDataParallel(net_with_dropout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def noisy_inputs(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs + 0.1 * torch.randn_like(inputs), targets).backward()
        optimizer.step()


def two_optimizers(rank: int, world_size: int) -> None:
    """Encoder and decoder, each with an optimizer of its own; the second steps every second time."""
    torch.manual_seed(0)
    encoder, decoder = DistributedDataParallel(nn.Linear(4, 6)), DistributedDataParallel(nn.Linear(6, 1))
    fast, slow = torch.optim.Adam(encoder.parameters(), lr=0.05), torch.optim.SGD(decoder.parameters(), lr=0.1)
    for step, (inputs, targets) in enumerate(shards(rank, world_size)):
        fast.zero_grad()
        slow.zero_grad()
        nn.functional.mse_loss(decoder(encoder(inputs).tanh()), targets).backward()
        fast.step()
        if step % 2:
            slow.step()


def frozen_layers(rank: int, world_size: int) -> None:
    model = net()
    model[0].requires_grad_(False)
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(wrapped, inputs, targets).backward()
        optimizer.step()


class TiedEncoder(nn.Module):
    """One weight is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.wide.weight = self.narrow.weight

    def forward(self, inputs: Tensor) -> Tensor:
        return self.wide(self.narrow(inputs).tanh()).sum(1, keepdim=True)


def shared_parameters(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(TiedEncoder())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


class TinyTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8, padding_idx=0)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.block(self.embedding(tokens), src_key_padding_mask=tokens == 0))


def texts() -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    lengths = torch.randint(2, 7, (24,), generator=generator).tolist()
    return [torch.randint(1, 11, (length,), generator=generator) for length in lengths]


def mean_over_tokens(rank: int, world_size: int) -> None:
    """Texts of different lengths, padded batch by batch; the mean is that over all tokens of the global batch."""
    torch.manual_seed(0)
    model = DistributedDataParallel(TinyTransformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    all_texts = texts()
    for step in range(3):
        mine = all_texts[8 * step + rank : 8 * step + 8 : world_size]
        tokens = nn.utils.rnn.pad_sequence(mine, batch_first=True)
        wanted = nn.functional.pad(tokens[:, 1:], (0, 1))
        number = (tokens != 0).sum().float()
        dist.all_reduce(number)
        optimizer.zero_grad()
        losses = nn.functional.cross_entropy(model(tokens).flatten(0, 1), wanted.flatten(), reduction="none")
        ((losses * (tokens != 0).flatten()).sum() * world_size / number).backward()
        optimizer.step()


def resumed_in_between(rank: int, world_size: int) -> None:
    first, second = list(shards(rank, world_size, steps=4))[:2], list(shards(rank, world_size, steps=4))[2:]
    kept: list[object] = [None]
    for part, some in enumerate((first, second)):
        model = DistributedDataParallel(net(part))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
        if part:
            file = io.BytesIO(kept[0] if isinstance(kept[0], bytes) else b"")
            state = torch.load(file)
            model.module.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for inputs, targets in some:
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            optimizer.step()
        file = io.BytesIO()
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, file)
        kept = [file.getvalue()]
        dist.broadcast_object_list(kept)


def without_a_module(rank: int, world_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(4, 6, generator=generator).mul(0.5).requires_grad_()
    second = torch.randn(6, 1, generator=generator).mul(0.5).requires_grad_()
    optimizer = torch.optim.SGD([first, second], lr=0.1, momentum=0.9, nesterov=True)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        ((inputs @ first).tanh() @ second - targets).square().mean().backward()
        for one in (first, second):
            dist.all_reduce(one.grad)
            one.grad /= world_size
        optimizer.step()


def functional_style(rank: int, world_size: int) -> None:
    model = net()
    weights = {name: one.detach().clone().requires_grad_() for name, one in model.named_parameters()}
    optimizer = torch.optim.Adam(weights.values(), lr=0.05)
    for inputs, targets in shards(rank, world_size):
        loss = nn.functional.mse_loss(functional_call(model, weights, inputs), targets)
        for one, gradient in zip(weights.values(), torch.autograd.grad(loss, list(weights.values())), strict=True):
            dist.all_reduce(gradient)
            one.grad = gradient / world_size
        optimizer.step()


def gradients_of_samples(rank: int, world_size: int) -> None:
    """Each sample's gradient is limited before they are added up."""
    model = net()
    weights = {name: one.detach().clone() for name, one in model.named_parameters()}
    optimizer = torch.optim.SGD(weights.values(), lr=0.1)

    def loss(weights: dict[str, Tensor], inputs: Tensor, targets: Tensor) -> Tensor:
        outputs = functional_call(model, weights, inputs.unsqueeze(0))
        return nn.functional.mse_loss(outputs, targets.unsqueeze(0))

    for inputs, targets in shards(rank, world_size):
        gradients = vmap(grad(loss), in_dims=(None, 0, 0))(weights, inputs, targets)
        for name, one in weights.items():
            one.grad = gradients[name].clamp(-1, 1).sum(0)
            dist.all_reduce(one.grad)
            one.grad /= BATCH
        optimizer.step()


def whole_batch_on_every_rank(rank: int, world_size: int) -> None:
    """No work is saved, but it is the same training."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches():
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def with_evaluation_between(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held_out = data(8)
    for inputs, targets in shards(rank, world_size):
        model.train()
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        model.eval()
        if rank == 0:
            with torch.no_grad():
                loss_of(model.module, *held_out)


def tensor_parallel(rank: int, world_size: int) -> None:
    """The hidden layer is split; every rank sees all samples, and keeps the whole weights in step."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    keep = torch.zeros(6)
    keep[rank::world_size] = 1.0
    for inputs, targets in batches():
        optimizer.zero_grad()
        hidden = model[0](inputs).tanh() * keep
        partial = hidden @ model[2].weight.T
        total = partial.detach().clone()
        dist.all_reduce(total)
        error = 2 * (total + model[2].bias - targets) / len(inputs)
        (partial * error.detach()).sum().backward()
        for parameter in (*model[0].parameters(), model[2].weight):
            dist.all_reduce(parameter.grad)
        model[2].bias.grad = error.detach().sum(0)
        optimizer.step()


class LastState(nn.Module):
    """Its inputs have the samples along the second dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LSTM(3, 4), nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs)[0][-1])


def time_first(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(LastState())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    inputs = torch.randn(5, 36, 3, generator=torch.Generator().manual_seed(1))
    targets = inputs.sum((0, 2)).unsqueeze(1)
    for step in range(STEPS):
        mine = slice(BATCH * step + rank, BATCH * (step + 1), world_size)
        optimizer.zero_grad()
        loss_of(model, inputs[:, mine], targets[mine]).backward()
        optimizer.step()


def two_players(rank: int, world_size: int) -> None:
    """A generator and a discriminator, in turns."""
    torch.manual_seed(0)
    maker = DistributedDataParallel(nn.Linear(2, 4))
    judge = DistributedDataParallel(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)))
    makes = torch.optim.Adam(maker.parameters(), lr=0.02)
    judges = torch.optim.Adam(judge.parameters(), lr=0.02)
    noise = torch.randn(36, 2, generator=torch.Generator().manual_seed(3))
    for step, (real, _) in enumerate(shards(rank, world_size)):
        made = maker(noise[BATCH * step : BATCH * (step + 1)][rank::world_size])
        wanted = torch.cat([torch.ones(len(real), 1), torch.zeros(len(made), 1)])
        judges.zero_grad()
        said = judge(torch.cat([real, made.detach()]))
        nn.functional.binary_cross_entropy_with_logits(said, wanted).backward()
        judges.step()
        makes.zero_grad()
        nn.functional.softplus(-judge(made)).mean().backward()
        makes.step()


class WithLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, *, inputs: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": (self.linear(inputs) - labels).square().mean()}


def loss_inside_the_model(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    model = DistributedDataParallel(WithLoss())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        model(inputs=inputs, labels=targets)["loss"].backward()
        optimizer.step()


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


def sixty_steps(rank: int, world_size: int) -> None:
    """Many more than are compared, in a network where rounding grows."""
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 1)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for inputs, targets in shards(rank, world_size, steps=60):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def wide_net() -> nn.Sequential:
    """So many weights that sketches are kept of them."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 241), nn.Tanh(), nn.Linear(241, 241), nn.Tanh(), nn.Linear(241, 1))


def many_weights(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(wide_net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for inputs, targets in shards(rank, world_size, steps=6):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def many_weights_fully_sharded(rank: int, world_size: int) -> None:
    model = wide_net()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    for inputs, targets in shards(rank, world_size, steps=6):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


class Recomputed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside = net()

    def forward(self, inputs: Tensor) -> Tensor:
        return checkpoint(self.inside, inputs, use_reentrant=False)


def activation_checkpoints(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(Recomputed())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(20, 3, sparse=True), nn.Linear(3, 1)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.words(words).mean(1))


def sparse_gradients(rank: int, world_size: int) -> None:
    torch.manual_seed(0)
    bag = Bag()
    model = DistributedDataParallel(bag)
    optimizers = [torch.optim.SparseAdam(bag.words.parameters(), 0.05), torch.optim.SGD(bag.head.parameters(), 0.1)]
    words = torch.randint(0, 20, (36, 4), generator=torch.Generator().manual_seed(2))
    for batch in torch.arange(36).split(BATCH):
        mine = words[batch[rank::world_size]]
        model.zero_grad()
        loss_of(model, mine, mine.float().mean(1, keepdim=True) / 20).backward()
        for optimizer in optimizers:
            optimizer.step()


def scaled_float16(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
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


def groups_with_learning_rates(rank: int, world_size: int) -> None:
    model = net()
    wrapped = DistributedDataParallel(model)
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.01}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.5)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(wrapped, inputs, targets).backward()
        optimizer.step()


def weights_in_bfloat16(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(net().bfloat16())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs.bfloat16(), targets.bfloat16()).backward()
        optimizer.step()


def evaluation_without_no_grad(rank: int, world_size: int) -> None:
    """Rank 0 alone evaluates, and builds a graph for nothing."""
    model = DistributedDataParallel(net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()
        if rank == 0:
            loss_of(model.module, *data(8))


def gradient_penalty(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        inputs.requires_grad_()
        optimizer.zero_grad()
        outputs = model(inputs)
        (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
        (nn.functional.mse_loss(outputs, targets) + 0.1 * slope.square().sum(1).mean()).backward()
        average(model, world_size)
        optimizer.step()


def sample_by_sample(rank: int, world_size: int) -> None:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in batches():
        optimizer.zero_grad()
        for row in range(rank, BATCH, world_size):
            (loss_of(model, inputs[row : row + 1], targets[row : row + 1]) / BATCH).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


class Attention(nn.Module):
    """With dropout of all kinds that are no module."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Linear(1, 4)
        self.memory = nn.LSTM(4, 4, num_layers=2, dropout=0.5, batch_first=True)
        self.head = nn.Linear(4, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        values, _ = self.memory(nn.functional.dropout(self.embed(inputs[..., None]), 0.5, self.training))
        seen = nn.functional.scaled_dot_product_attention(values, values, values, dropout_p=0.5)
        return self.head(seen.mean(1))


def functional_dropout_switched_off(rank: int, world_size: int) -> None:
    model = DistributedDataParallel(Attention())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        loss_of(model, inputs, targets).backward()
        optimizer.step()


def averaged_after_each_micro_batch(rank: int, world_size: int) -> None:
    """More messages than needed, and the same gradient: an average of averages changes nothing."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, targets in shards(rank, world_size):
        optimizer.zero_grad()
        for some, wanted in zip(inputs.chunk(3), targets.chunk(3), strict=True):
            (loss_of(model, some, wanted) / 3).backward()
            average(model, world_size)
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
        return inputs @ self.weight + nn.functional.relu(beyond).sum()


def turned_by_rounding(rank: int, world_size: int) -> None:
    inputs = torch.randn(24, 64, generator=torch.Generator().manual_seed(3))
    model = DistributedDataParallel(Kinks(inputs, 0.5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        model(inputs[rank::world_size]).mean().backward()
        optimizer.step()


def pictures(rank: int, world_size: int) -> None:
    torch.manual_seed(6)
    convolutions = [nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.GroupNorm(2, 8)]
    model = DistributedDataParallel(nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(8 * 144, 10)))
    everything = TensorDataset(torch.rand(256, 1, 28, 28), torch.randint(10, (256,)))
    sampler = DistributedSampler(everything, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in DataLoader(everything, batch_size=64 // world_size, sampler=sampler, drop_last=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()


def words(rank: int, world_size: int) -> None:
    torch.manual_seed(2)
    model = DistributedDataParallel(nn.Sequential(nn.EmbeddingBag(40, 8), nn.ReLU(), nn.Linear(8, 3)))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        texts, labels = torch.randint(40, (BATCH, 5)), torch.randint(3, (BATCH,))
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(texts[rank::world_size]), labels[rank::world_size])
        loss.backward()
        optimizer.step()


RIGHT = [
    Program(turned_by_rounding),
    Program(pictures),
    Program(words),
    Program(averaged_by_hand),
    Program(averaged_in_one_message, (1, 3)),
    Program(averaged_by_hooks),
    Program(with_ddp),
    Program(ddp_only_on_several),
    Program(ddp_with_bucket_views, (1, 3)),
    Program(ddp_with_a_comm_hook),
    Program(accumulation_with_no_sync),
    Program(accumulation_instead_of_ranks),
    Program(weighted_for_unequal_shards),
    Program(unequal_shards_with_ddp, (1, 3)),
    Program(zero_redundancy),
    Program(fully_sharded),
    Program(autocast_to_bfloat16),
    Program(clipped_after_averaging),
    Program(batch_norm_in_eval_mode),
    Program(layer_norm_and_warm_up),
    Program(sampler_without_shuffling),
    Program(sampler_with_epochs),
    Program(sampler_that_drops_the_rest),
    Program(last_batch_is_smaller),
    Program(dropout_by_sample),
    Program(dropout_switched_off, random=("dropout",)),
    Program(noisy_inputs, random=("augmentation",)),
    Program(functional_dropout_switched_off, (1, 2), random=("dropout",)),
    Program(averaged_after_each_micro_batch, (1, 2)),
    Program(two_optimizers),
    Program(frozen_layers),
    Program(shared_parameters, (1, 3)),
    Program(mean_over_tokens),
    Program(resumed_in_between),
    Program(without_a_module),
    Program(functional_style),
    Program(gradients_of_samples),
    Program(whole_batch_on_every_rank, (1, 3)),
    Program(with_evaluation_between),
    Program(tensor_parallel, (1, 3)),
    Program(averaged_by_hand, (1, 3), dtype=torch.float64),
    Program(time_first),
    Program(two_players),
    Program(loss_inside_the_model),
    Program(optimizer_with_a_closure),
    Program(sixty_steps),
    Program(many_weights),
    Program(many_weights_fully_sharded),
    Program(activation_checkpoints, (1, 3)),
    Program(sparse_gradients, (1, 2)),
    Program(scaled_float16),
    Program(groups_with_learning_rates, (1, 3)),
    Program(weights_in_bfloat16),
    Program(evaluation_without_no_grad),
    Program(gradient_penalty),
    Program(sample_by_sample),
]
