"""Your own DistributedDataParallel, lesson 7."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ddp_lessons.check.differences import NothingDone
from ddp_lessons.check.exercise import Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.written import is_untouched
from ddp_lessons.run.recording.interception import recorder
from ddp_lessons.train.small_ddp import Overlapped

Factor = Callable[[int, int], float]  # of the rank and the number of ranks


class _TorchsOwn(Exception):
    pass


def _model_and_batches(
    rank: int, world_size: int, chance: torch.Generator, batches: int = 2, dtype: str = "float32", **options: bool
) -> tuple[nn.Module, list[Tensor], dict[str, bool]]:
    """A different model on each rank. `has_more`: the first layer is frozen, and the last two share their weight."""
    has_more, kind = "has_more" in options, getattr(torch, dtype)
    widths = (3, 5, 4, 4, 4, 4) if has_more else (3, 5, 4, 2, 3)
    pairs = [(nn.Linear(*pair, dtype=kind), nn.Tanh()) for pair in itertools.pairwise(widths)]
    model = nn.Sequential(*itertools.chain(*pairs))
    model.register_buffer("scale", torch.full((1,), rank + 1, dtype=kind))
    model.register_buffer("count", torch.tensor(rank + 5))
    if has_more:
        pairs[0][0].requires_grad_(False)
        pairs[-1][0].weight = pairs[-2][0].weight
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=chance))
    return model, [torch.randn(3, 3, generator=chance).to(kind) for _ in range(batches)], options


def _trained(program: Program, *given: Any) -> Fields:
    if is_untouched(getattr(program, "gradient_is_ready", None)):  # the method that the lesson leaves empty
        return {"answer": NothingDone(torch.zeros(1))}
    torchs_own = mock.patch.object(nn.parallel.DistributedDataParallel, "__init__", side_effect=_TorchsOwn)
    with contextlib.suppress(_TorchsOwn), torchs_own:
        return _observed(program, *given)
    return {"m(inputs)": "from torch's DistributedDataParallel"}


def _observed(program: Program, module: nn.Module, batches: list[Tensor], options: dict[str, bool]) -> Fields:
    """Train the module with the wrapper. Look at the recorded calls when a gradient is ready, and after backward()."""
    named, made_before = dict(module.named_parameters()), len(recorder.calls)
    trained = [parameter for parameter in named.values() if parameter.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.02)
    fields: dict[str, Any] = {}
    open_calls = under_way = given = 0

    def look(_: object) -> None:
        nonlocal under_way
        calls = [*recorder.calls][before:]
        under_way += any(call.work is not None or not (call.is_blocking or call.end) for call in calls)

    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(look)  # it runs before the hooks of the wrapper
    wrapped = program(module)
    for number, inputs in enumerate(batches, 1):
        outputs = wrapped(inputs) if callable(wrapped) else wrapped
        if not isinstance(outputs, Tensor):
            return {"m(inputs)": outputs}
        state = {f"initial {name}": tensor.clone() for name, tensor in module.state_dict().items()}
        fields = fields or {"m(inputs)": "a tensor", **state, "weights": "changed by the optimizer only"}
        weights, before = [parameter.detach().clone() for parameter in named.values()], len(recorder.calls)
        outputs.square().sum().backward()
        if not all(map(torch.equal, named.values(), weights)):
            fields["weights"] = "changed in backward()"
        calls = [*recorder.calls]
        open_calls = max(open_calls, sum(call.work is not None for call in calls[made_before:]))
        given += sum(math.prod(call.shape) for call in calls[before:] if call.operation != "broadcast")
        for name, parameter in named.items():
            is_there = parameter.grad is not None and (parameter.requires_grad or parameter.grad.any())
            fields[f"backward() {number}: {name}.grad"] = copy.deepcopy(parameter.grad) if is_there else None
        if number % 2 == 0 or "accumulates" not in options:
            optimizer.step()
            optimizer.zero_grad(set_to_none="zeroes" not in options)
    is_too_much = given > 1.7 * len(batches) * sum(map(torch.numel, trained))
    fields["calls not waited for"] = open_calls
    fields["communication"] = "more than each gradient once" if is_too_much else "each gradient once"
    if "overlaps" in options:
        fields["overlap"] = "some" if under_way or dist.get_world_size() == 1 else "none"
    return fields


class _Hooked(Overlapped):
    """Gradients are multiplied by a factor, and part of them averaged."""

    def __init__(self, module: nn.Module, factor: Factor = lambda *_: 1, part: slice = slice(None)) -> None:
        super().__init__(module)
        self.factor = factor(dist.get_rank(), dist.get_world_size())
        self.averaged = {*[one for one in module.parameters() if one.requires_grad][part]}
        self.expected = 1  # each hook waits

    def gradient_is_ready(self, parameter: Any) -> None:
        parameter.grad *= self.factor
        if parameter in self.averaged:
            super().gradient_is_ready(parameter)


my_ddp = Exercise(
    """Check `cls(module)`, created on every rank and called like the module: backward() leaves the mean gradients.

    The ranks start with different weights and buffers, and must train with those of rank 0. The gradients of the given
    module are compared right after backward(), including a second one before a step. Parameters may be frozen, or
    shared by two layers; each one that isn't frozen gets a gradient on every rank. At least one call must be in
    progress while another gradient is computed, but you need no buckets. You may also pass a function that wraps the
    module.
    """,
    solution=Overlapped,
    call=_trained,
    begins_silent=True,
    tolerance=1e-5,
    world_sizes=(2, 3, 1),
    trials=[
        Trial(_model_and_batches),
        Trial(partial(_model_and_batches, batches=4, accumulates=True), "two backward() calls before a step"),
        Trial(partial(_model_and_batches, dtype="float64"), "another dtype (float64)", largest_world=2),
        Trial(partial(_model_and_batches, has_more=True), "frozen parameters and shared ones"),
        Trial(partial(_model_and_batches, zeroes=True, overlaps=True)),  # last: until then, the gradients matter
    ],
    hints={
        "m(inputs)": "Calling the wrapper does not return a tensor. Return the output of the module.",
        "initial": "Rank {rank} starts with wrong values. In __init__, broadcast all parameters of rank 0, including "
        "frozen ones, and all buffers. Broadcast the tensors themselves, with detach() but without clone().",
        "weights": "Your wrapper changes the weights. Average the gradients, and leave the update to the optimizer.",
        "backward() 1:": "On rank {rank}, a gradient is not the mean over the ranks. On every parameter that is not "
        "frozen, register a hook that sums its gradient over all ranks and divides it by the number of ranks.",
        "backward()": "The gradients are correct after the first backward(), but not after a later one. Each "
        "backward() must average its own gradients and add the means to param.grad.",
        "calls": "When backward() returns, rank {rank} has not waited for all of its calls. Call wait() on each "
        "handle.",
        "communication": "In backward(), your wrapper communicates more than each gradient once. Register one hook "
        "per parameter, and average only that parameter's gradient in it.",
        "overlap": "Communication does not overlap with backward(): no call is in progress when the next gradient is "
        "ready. Start all_reduce(..., async_op=True) in each hook, and wait only when the last gradient is ready.",
    },
    mistakes=[
        Mistake(
            nn.parallel.DistributedDataParallel,
            "Your class uses PyTorch's own DistributedDataParallel. Build yours from broadcast, hooks and all_reduce.",
        ),
        Mistake(
            partial(_Hooked, part=slice(0)),
            "After backward(), rank {rank} still has its own gradient. On each parameter, register a hook that "
            "averages the gradient and writes the mean to param.grad.",
        ),
        Mistake(
            partial(_Hooked, factor=lambda rank, world_size: world_size),
            "Each gradient is the sum over the ranks. Divide it by the number of ranks.",
        ),
        Mistake(
            partial(_Hooked, factor=lambda rank, world_size: 1 / world_size),
            "The sum is divided twice by the number of ranks. Divide only once.",
        ),
        Mistake(
            partial(_Hooked, factor=lambda rank, world_size: 0 if rank else world_size),
            "Rank 0's gradients are copied to the other ranks. Average the gradients of all ranks.",
        ),
        Mistake(
            partial(_Hooked, factor=lambda rank, world_size: 1 / world_size, part=slice(0)),
            "Rank {rank} divides its own gradient without adding those of the other ranks. Sum the gradients over all "
            "ranks first.",
        ),
        Mistake(
            partial(_Hooked, part=slice(-1, None)),
            "Only the gradient of the last parameter is averaged. If you register lambdas in a loop, use the "
            "parameter that the hook receives, because by then, the loop variable holds the last one.",
        ),
        Mistake(
            lambda module: Overlapped(copy.deepcopy(module)),
            "Your wrapper trains a copy of the model. Wrap the given module itself, whose parameters the optimizer "
            "holds.",
        ),
    ],
)
