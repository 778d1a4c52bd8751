"""The exercise of writing a whole training loop: sampler, set_epoch, DDP, one step per global batch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise
from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.wrapped_functions import compiler_at_hand, refusal
from ddp_lessons.check.trainings.gradient_exercise import first_difference
from ddp_lessons.check.trials.model_trials import is_close

_SAMPLES, _BATCH, _EPOCHS, _RATE = 96, 32, 2, 0.1
_RETURN = "Return the state_dict() of the network."
_ALL_DATA = "Each rank trains on all samples. Give the DataLoader a DistributedSampler, which gives each rank its part."
_SAME_ORDER = "Every epoch has the same order. Call sampler.set_epoch(epoch) at the start of each epoch."
_ALONE = "The gradients are not averaged. Wrap the network in DistributedDataParallel, and call the wrapper."
_DIVIDED = "The gradients are divided by the number of ranks twice. DDP averages them, so don't divide the loss."
_OTHERWISE = "One process gets other weights. Compare seed, batch size, loss and optimizer with the list in the lesson."


def train_loop(function: Callable[..., object]) -> Report:
    """Check `function(rank, world_size, net, data, epochs)`: every rank returns the weights that one process gets.

    A global batch has 32 samples. `net()`, called after torch.manual_seed(1), ends in log_softmax. The optimizer is
    SGD(lr=0.1, momentum=0.5). Everything is float64, so that rounding doesn't matter.
    """
    if report := refusal(_TrainLoop.name, function, ("rank", "world_size", "net", "data", "epochs")):
        return report
    compiler_at_hand()  # the import takes longer than a check may
    return examine(_TrainLoop(), functools.partial(_train, function))


class Samples(TensorDataset):
    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(3)
        images = torch.randn(_SAMPLES, 1, 28, 28, generator=generator, dtype=torch.float64)
        super().__init__(images, torch.randint(0, 10, (_SAMPLES,), generator=generator))
        self.read, self.answer = 0, None  # how many samples were read, and what the function returned

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        self.read += 1
        return self.tensors[0][index], self.tensors[1][index]


def network() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10, dtype=torch.float64), nn.LogSoftmax(dim=1))


def _train(function: Callable[..., Any], data: Samples) -> None:
    data.answer = function(dist.get_rank(), dist.get_world_size(), network, data, _EPOCHS)


class _LoopTrial(Trial):
    def arguments(self, rank: int) -> tuple[Any, ...]:
        return (Samples(),)

    def afterwards(self, arguments: tuple[Any, ...]) -> tuple[dict[str, Tensor], int]:
        """The weights, by their names without DDP, and how many samples were read."""
        data = arguments[0]
        weights = data.answer if isinstance(data.answer, dict) else {}
        return {name.removeprefix("module."): value for name, value in weights.items()}, data.read

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        return bool(afterwards == ({}, 0))

    def named(self, rank: int) -> str:
        return f"{_SAMPLES} samples, {_EPOCHS} epochs"


class _TrainLoop(Exercise):
    name, thing = "train_loop", "data set"
    world_sizes, trials = (2, 1), (_LoopTrial(()),)
    messages_only = returns_answer = False
    measured, yardstick = "samples of the busiest rank", "needed"

    def difference(self, case: Case, rank: int) -> Difference | None:
        given: Any = case.outcomes[rank].given
        weights, read = given
        if read > 1.5 * self.textbook(case):
            return Difference("samples", f"{read}", f"{self.textbook(case)}", _ALL_DATA)
        right = _weights(range(_EPOCHS))
        if weights.keys() != right.keys():
            return Difference("names", str([*weights]), str([*right]), _RETURN)
        for name, value in right.items():
            if not is_close(weights[name], value):
                return first_difference(name, weights[name], value, _why(weights, rank, case.world_size))
        return None

    def carried(self, case: Case) -> int:
        given: list[Any] = [outcome.given for outcome in case.outcomes]
        return int(max(read for _, read in given))

    def textbook(self, case: Case) -> int:
        return _EPOCHS * _SAMPLES // case.world_size


def _why(weights: dict[str, Tensor], rank: int, world_size: int) -> str:
    known = {
        _SAME_ORDER: _weights([0] * _EPOCHS),
        _ALONE: _weights(range(_EPOCHS), rank, world_size),
        _DIVIDED: _weights(range(_EPOCHS), rate=_RATE / world_size),
    }
    return next((it for it, wrong in known.items() if all(map(is_close, weights.values(), wrong.values()))), _OTHERWISE)


def _weights(orders: Iterable[int], rank: int = 0, world_size: int = 1, rate: float = _RATE) -> dict[str, Tensor]:
    """Train in this process, with one order per epoch, on what one of several ranks gets of each batch."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        net, data = network(), Samples()
    optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.5)
    for number in orders:
        order = torch.randperm(_SAMPLES, generator=torch.Generator().manual_seed(number))
        for batch in order.split(_BATCH):
            images, labels = (tensor[batch[rank::world_size]] for tensor in data.tensors)
            optimizer.zero_grad()
            F.nll_loss(net(images), labels).backward()
            optimizer.step()
    return net.state_dict()
