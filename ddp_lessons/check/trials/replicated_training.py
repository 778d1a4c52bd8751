"""Trials in which each rank wraps its own model and trains it, and the same training in a single process."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from ddp_lessons.check.judging.exercise_trials import Trial

_SAMPLES = 3
_LEARNING_RATE = 0.02
Tensors = dict[str, Tensor]
Gradients = dict[str, Tensor | None]


class Layers(nn.Module):
    """Linear layers of these widths, and buffers. `has_more`: one layer is frozen, and two share their weight."""

    def __init__(self, widths: tuple[int, ...], dtype: torch.dtype, has_more: bool) -> None:
        super().__init__()
        self.layers: Any = nn.ModuleList(nn.Linear(*pair, dtype=dtype) for pair in itertools.pairwise(widths))
        self.scale: Tensor
        self.register_buffer("scale", torch.ones(1, dtype=dtype))
        self.count: Tensor
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        if has_more:
            self.layers[0].requires_grad_(False)
            self.layers[-1].weight = self.layers[-2].weight

    def forward(self, inputs: Tensor) -> Any:
        for layer in self.layers:
            inputs = torch.tanh(layer(inputs))
        return inputs * self.scale


@dataclass
class Training:
    """What was observed on one rank."""

    trouble: str = ""  # why it ended early
    is_elsewhere: bool = False  # gradients are in another model than the given one
    start: Tensors = field(default_factory=dict)  # weights and buffers in the first forward()
    changes_weights: bool = False  # in the first backward()
    gradients: list[Gradients] = field(default_factory=list)  # after each backward()
    end: Tensors = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingTrial(Trial):
    """`shape` holds the widths of the layers; `backwards[step]` is the number of backward() calls in a step."""

    has_more: bool = False
    backwards: tuple[int, ...] = (1, 1)
    zeroes: bool = False  # between steps, gradients are set to zero instead of None

    @property
    def torch_dtype(self) -> torch.dtype:
        return getattr(torch, self.dtype)  # type: ignore[no-any-return]

    def model(self, rank: int) -> Layers:
        """A different model on every rank."""
        with torch.random.fork_rng(devices=[]):  # leave the notebook's random state unchanged
            model = Layers(self.shape, self.torch_dtype, self.has_more)
        generator = torch.Generator().manual_seed(1000 * self.seed + rank)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
            model.scale.fill_(rank + 1.0)
            model.count.fill_(rank + 5)
        return model

    def inputs(self, rank: int, number: int) -> Tensor:
        generator = torch.Generator().manual_seed(1_000_000 + 1000 * self.seed + 10 * number + rank)
        return torch.randn(_SAMPLES, self.shape[0], generator=generator).to(self.torch_dtype)

    def tensor(self, rank: int) -> Tensor:
        return torch.cat([parameter.detach().flatten() for parameter in self.model(rank).parameters()])

    def arguments(self, rank: int) -> tuple[Any, ...]:
        return (Session(self, rank, Training()),)

    def afterwards(self, arguments: tuple[Any, ...]) -> Training:
        (session,) = arguments
        assert isinstance(session, Session)
        return session.training

    def is_unchanged(self, rank: int, afterwards: Any) -> bool:
        """Nothing was done: the result is that of the unwrapped model, or nothing at all."""
        assert isinstance(afterwards, Training)
        if afterwards.trouble:
            return afterwards.trouble == _GIVES_NONE
        alone = Session(self, rank, Training())
        train(_unwrapped, alone)
        pairs = zip(afterwards.gradients, alone.training.gradients, strict=True)
        return _equal(afterwards.start, alone.training.start) and all(itertools.starmap(_equal, pairs))

    def named(self, rank: int) -> str:
        layers = len(self.shape) - 1
        return f"a model of {layers} {'layer' if layers == 1 else 'layers'}, {self.dtype}"


@dataclass
class Session:
    """One training run on one rank."""

    trial: TrainingTrial
    rank: int
    training: Training


_GIVES_NONE = "gives None"
BEFORE_BACKWARD = "(in __init__ of the wrapper)"
TORCHS_OWN = "It uses torch's own DistributedDataParallel. Build yours from broadcast, hooks and all_reduce."


def train(cls: Callable[[nn.Module], Any], session: Session) -> None:
    """Inside a rank: wrap a model, train it with the wrapper, and record what was observed."""
    trial, training = session.trial, session.training
    module = trial.model(session.rank)
    with mock.patch.object(nn.parallel.DistributedDataParallel, "__init__", _refuse):
        wrapped = _made(cls, module)
    if not callable(wrapped):
        training.trouble = f"is {_article(wrapped)}, which cannot be called"
        return
    names = dict(module.named_parameters())
    numbers = itertools.count()
    for backwards in trial.backwards:
        _clear(names.values(), trial.zeroes)
        for _ in range(backwards):
            outputs = wrapped(trial.inputs(session.rank, next(numbers)))
            if not isinstance(outputs, Tensor):
                training.trouble = _GIVES_NONE if outputs is None else f"gives {_article(outputs)}"
                return
            training.start = training.start or _copied(module.state_dict())
            before = _copied(names)
            outputs.square().sum().backward()
            if not training.gradients:  # later, another mistake may have made the ranks different
                training.changes_weights = not _equal(_copied(names), dict(before))
            training.gradients.append({name: _copy(parameter.grad) for name, parameter in names.items()})
        _step(names.values())
    training.end = _copied(names)
    training.is_elsewhere = _has_gradients_elsewhere(wrapped, list(names.values()))


def _made(cls: Callable[[nn.Module], Any], module: nn.Module) -> Any:
    """Mark exceptions that are raised before any backward()."""
    try:
        return cls(module)
    except (TypeError, AttributeError) as error:
        if error.args and TORCHS_OWN not in str(error):
            error.args = (f"{error} {BEFORE_BACKWARD}",)
        raise


def _refuse(*_: object, **__: object) -> None:
    raise TypeError(TORCHS_OWN)


def mean_training(trial: TrainingTrial, world_size: int) -> Training:
    """What every rank should see, computed by one process with the data of all."""
    return _mean_training(trial, world_size)[0]


def own_gradients(trial: TrainingTrial, world_size: int, number: int) -> list[Tensors]:
    """The gradients of backward() number `number` before averaging, by rank."""
    return _mean_training(trial, world_size)[1][number]


@functools.lru_cache(maxsize=64)
def _mean_training(trial: TrainingTrial, world_size: int) -> tuple[Training, list[list[Tensors]]]:
    model, training = trial.model(0), Training()
    training.start = _copied(model.state_dict())
    names = dict(model.named_parameters())
    numbers, everyones = itertools.count(), []
    for backwards in trial.backwards:
        _clear(names.values(), zeroes=False)
        for number in itertools.islice(numbers, backwards):
            own = [_gradients_of(model, trial.inputs(rank, number)) for rank in range(world_size)]
            everyones.append(own)
            for name in own[0]:
                mean = torch.stack([one[name] for one in own]).mean(0)
                before = names[name].grad
                names[name].grad = mean if before is None else before + mean
            training.gradients.append({name: _copy(parameter.grad) for name, parameter in names.items()})
        _step(names.values())
    training.end = _copied(names)
    return training, everyones


def _gradients_of(model: nn.Module, inputs: Tensor) -> Tensors:
    twin = copy.deepcopy(model)
    twin.zero_grad()
    twin(inputs).square().sum().backward()
    return {name: parameter.grad for name, parameter in twin.named_parameters() if parameter.grad is not None}


def _clear(parameters: Any, zeroes: bool) -> None:
    for parameter in parameters:
        if not zeroes:
            parameter.grad = None
        elif parameter.grad is not None:
            parameter.grad.detach_().zero_()


def _step(parameters: Any) -> None:
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None and parameter.requires_grad:
                parameter -= _LEARNING_RATE * parameter.grad


def _has_gradients_elsewhere(wrapped: object, given: Sequence[Tensor]) -> bool:
    if not isinstance(wrapped, nn.Module) or any(parameter.grad is not None for parameter in given):
        return False
    return any(parameter.grad is not None for parameter in wrapped.parameters())


def _unwrapped(module: nn.Module) -> nn.Module:
    return module


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def _copied(tensors: dict[str, Any]) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _equal(one: Gradients | Tensors, other: Gradients | Tensors) -> bool:
    def same(mine: Tensor | None, yours: Tensor | None) -> bool:
        return mine is yours if mine is None or yours is None else torch.equal(mine, yours)

    return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)


def _article(thing: object) -> str:
    kind = type(thing).__name__
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
