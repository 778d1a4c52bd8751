"""Inside a rank: watch a training through torch's own global hooks, without a change in it.

It makes no collective call and raises nothing. A training with more steps than are watched goes on to its end: an
exception of ours in the middle of it would run its `except` and `finally` blocks, and ranks that stop at different
places could hang because of us.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random as python_random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules import module as global_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizer_hooks
from torch.utils.hooks import unserializable_hook

from ddp_lessons.sameness.functional_dropout import switched_off
from ddp_lessons.sameness.in_float64 import in_float64
from ddp_lessons.sameness.run_records import Array, Piece, RankRecord, StepRecord
from ddp_lessons.sameness.snapshots import MOST_ELEMENTS, piece_of, samples_in

_WRAPPERS = ("module.", "_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module.")


def watched_train(
    rank: int, world_size: int, train: Callable[..., object], args: Sequence[object], watch: dict[str, Any]
) -> RankRecord:
    """Run `train` as it is, and return what was seen of it."""
    dtype = watch.pop("dtype")
    seed_by_rank(rank)
    watcher = Watcher(**watch)
    with by_default(dtype, args), watcher:
        train(rank, world_size, *args)
    return watcher.record()


@contextlib.contextmanager
def by_default(dtype: torch.dtype | None, args: object = ()) -> Iterator[None]:
    kept = torch.get_default_dtype()
    torch.set_default_dtype(dtype or kept)
    try:
        with in_float64(args) if dtype == torch.float64 else contextlib.nullcontext():
            yield
    finally:
        torch.set_default_dtype(kept)


def seed_by_rank(rank: int) -> None:
    """Without a seed of its own a training would begin differently in each run; as it is in practice, ranks differ."""
    torch.manual_seed(1000 + rank)
    np.random.seed(1000 + rank)
    python_random.seed(1000 + rank)


class Watcher:
    """Hooks that are there while a training runs, and what they have noted."""

    def __init__(self, steps: int, random: Sequence[str] = ()) -> None:
        self._most, self._random = steps, tuple(random)
        self._steps: list[StepRecord] = []
        self._depth = 0  # of forward calls within forward calls
        self._stepping = 0  # likewise: an optimizer may step another
        self._names: dict[int, str] = {}  # of parameters, by id
        self._unnamed: dict[str, int] = {}
        self._roots: dict[int, nn.Module] = {}
        self._seen: dict[int, Tensor] = {}  # parameters with a hook: they keep their id as long as they live
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._local: dict[int, Tensor] = {}
        self._summed: dict[int, tuple[Tensor, float]] = {}  # each gradient and its size after the last backward pass
        self._has_ddp = False
        self._random_before = torch.get_rng_state()
        self._forget()

    def _forget(self) -> None:
        """What belongs to one step."""
        self._samples: list[Array] = []
        self._syncs: list[bool] = []
        self._kinds: set[str] = set()
        self._precision = 0.0
        self._local.clear()
        self._summed.clear()

    def __enter__(self) -> None:
        with contextlib.ExitStack() as stack:
            for handle in (
                global_hooks.register_module_forward_pre_hook(self._enter),
                global_hooks.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
                global_hooks.register_module_module_registration_hook(self._registered),
                optimizer_hooks.register_optimizer_step_pre_hook(self._before_step),
                optimizer_hooks.register_optimizer_step_post_hook(self._after_step),
            ):
                stack.callback(handle.remove)
            if "dropout" in self._random:
                stack.enter_context(switched_off())
            self._stack = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def record(self) -> RankRecord:
        steps = tuple(self._with_final_names(step) for step in self._steps)
        return RankRecord(steps, self._most, self._has_ddp, "augmentation" in self._random)

    def _with_final_names(self, step: StepRecord) -> StepRecord:
        """LBFGS calls the model within its first step: only then the names of its parameters are known."""
        names = {name: self._names[parameter] for name, parameter in self._unnamed.items() if parameter in self._names}
        if not names.keys() & step.before.keys():
            return step
        kinds = ("before", "gradients", "local", "after")
        renamed: dict[str, Any] = {
            kind: {names.get(name, name): one for name, one in getattr(step, kind).items()} for kind in kinds
        }
        return dataclasses.replace(step, **renamed)

    # modules

    def _registered(self, module: nn.Module, name: str, child: object) -> None:
        self._has_ddp |= isinstance(module, DistributedDataParallel) and name == "module"

    def _enter(self, module: nn.Module, _: object) -> None:
        if self._depth == 0 and torch.is_grad_enabled() and not _is_transformed():
            self._random_before = torch.get_rng_state()
            self._meet(module)
            self._note_changed_gradients()
        self._depth += 1
        if not (module.training and torch.is_grad_enabled()):
            return
        if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm):
            self._kinds.add("batch_norm")
        if isinstance(module, _DropoutNd) and module.p:
            self._note_dropout(module, "p")
        elif isinstance(module, (nn.MultiheadAttention, nn.RNNBase)) and module.dropout:
            self._note_dropout(module, "dropout")

    def _note_changed_gradients(self) -> None:
        """Between two micro-batches nothing writes to a gradient, unless DDP has averaged it."""
        if self._syncs[-1:] == [True]:
            return
        for parameter, (gradient, size) in self._summed.items():
            if self._seen[parameter].grad is gradient and _size(gradient) != size:
                self._kinds.add("changed_gradient")

    def _note_dropout(self, module: nn.Module, attribute: str) -> None:
        if "dropout" in self._random:
            self._stack.callback(setattr, module, attribute, getattr(module, attribute))
            setattr(module, attribute, 0.0)
        else:
            self._kinds.add("dropout")

    def _leave(self, module: nn.Module, args: object, kwargs: object, _: object) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth or not torch.is_grad_enabled() or _is_transformed():
            return
        samples = None
        with contextlib.suppress(Exception):  # inputs of a kind that has no rows must not end a training
            samples = samples_in((args, kwargs))
        if samples is None:
            return
        self._samples.append(samples)
        if not torch.equal(self._random_before, torch.get_rng_state()):
            self._kinds.add("random")
        if isinstance(module, DistributedDataParallel):
            self._syncs.append(bool(module.require_backward_grad_sync))
        if torch.is_autocast_enabled("cpu"):
            self._precision = max(self._precision, torch.finfo(torch.get_autocast_dtype("cpu")).eps)
        if torch.is_autocast_enabled("cuda"):
            self._precision = max(self._precision, torch.finfo(torch.get_autocast_dtype("cuda")).eps)

    def _meet(self, module: nn.Module) -> None:
        """Note the names of a model's parameters, and what each backward pass adds to them on this rank."""
        self._roots.setdefault(id(module), module)
        for name, parameter in module.named_parameters():
            if id(parameter) not in self._seen and parameter.requires_grad:
                self._seen[id(parameter)] = parameter
                if not parameter._backward_hooks:  # after another hook a gradient may be no more this rank's own
                    self._stack.callback(parameter.register_hook(self._adder(id(parameter))).remove)
                self._stack.callback(parameter.register_post_accumulate_grad_hook(self._note_summed).remove)
            if id(parameter) not in self._names:
                self._names[id(parameter)] = self._new_name(module, name)

    def _new_name(self, module: nn.Module, name: str) -> str:
        plain = plain_name(name)
        return plain if plain not in self._names.values() else f"{type(module).__name__} {len(self._roots)}: {plain}"

    def _adder(self, parameter: int) -> Callable[[Tensor], None]:
        def add(gradient: Tensor) -> None:
            if len(self._steps) < self._most:
                known = self._local.get(parameter)
                self._local[parameter] = gradient.detach().clone() if known is None else known + gradient.detach()

        unserializable_hook(add)
        return add

    def _note_summed(self, parameter: Tensor) -> None:
        if parameter.grad is not None and len(self._steps) < self._most:
            self._summed[id(parameter)] = parameter.grad, _size(parameter.grad)

    # optimizers

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self._stepping += 1
        if self._stepping > 1:
            return
        self._depth = 0
        self._optimizers.setdefault(id(optimizer), optimizer)
        groups = optimizer.param_groups
        parameters = [parameter for group in groups for parameter in group["params"]]
        dtypes = [parameter.dtype for parameter in parameters if parameter.is_floating_point()]
        eps = max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0)
        self._fields: dict[str, Any] = {
            "optimizer": f"{type(optimizer).__name__} {list(self._optimizers).index(id(optimizer))}",
            "settings": _settings(groups),
            "state": _state_norm(optimizer),
            "eps": eps,
            "fan_in": max((max(parameter.shape, default=1) for parameter in parameters), default=1),
        }
        if len(self._steps) < self._most:
            self._as_sketch = sum(parameter.numel() for parameter in parameters) > MOST_ELEMENTS
            self._named = {self._name(number, one): one for number, one in enumerate(parameters)}
            with_gradient = {name: one.grad for name, one in self._named.items() if one.grad is not None}
            self._fields["before"] = self._pieces(self._named)
            self._fields["gradients"] = self._pieces(with_gradient)

    def _after_step(self, *_: object) -> None:
        self._stepping -= 1
        if self._stepping:
            return
        self._fields |= {  # only now: an optimizer with a closure calls the model within its step
            "samples": tuple(self._samples),
            "syncs": tuple(self._syncs),
            "kinds": tuple(sorted(self._kinds)),
            "precision": max(self._precision, self._fields["eps"]),
        }
        if len(self._steps) < self._most:
            local = {name: self._local[id(one)] for name, one in self._named.items() if id(one) in self._local}
            self._fields["local"] = self._pieces(local)
            self._fields["after"] = self._pieces(self._named)
            self._fields["buffers"] = self._pieces(self._buffers())
        self._steps.append(StepRecord(**self._fields))
        self._forget()

    def _name(self, number: int, parameter: Tensor) -> str:
        if id(parameter) in self._names:
            return self._names[id(parameter)]
        name = f"{self._fields['optimizer']}, parameter {number}"
        self._unnamed[name] = id(parameter)
        return name

    def _buffers(self) -> dict[str, Tensor]:
        named = ((name, one) for root in self._roots.values() for name, one in root.named_buffers())
        return {plain_name(name): one for name, one in named if one.is_floating_point()}

    def _pieces(self, tensors: dict[str, Any]) -> dict[str, Piece]:
        return {name: piece_of(tensor, self._as_sketch) for name, tensor in tensors.items()}


def _is_transformed() -> bool:
    """Inside of torch.func.grad, vmap and the like, where tensors have no values that could be looked at."""
    return torch._C._functorch.maybe_current_level() is not None


def plain_name(name: str) -> str:
    """Of a parameter, without the wrappers around its module."""
    for wrapper in _WRAPPERS[1:]:
        name = name.replace(wrapper, "")
    while name.startswith(_WRAPPERS[0]):
        name = name.removeprefix(_WRAPPERS[0])
    return name


def _settings(groups: Sequence[dict[str, Any]]) -> dict[str, float]:
    """The numbers of the first group, and the learning rate of each."""
    found = {
        f"lr of group {number}": float(group["lr"]) for number, group in enumerate(groups) if number and "lr" in group
    }
    for name, value in groups[0].items():
        for number, one in enumerate(value if isinstance(value, tuple) else [value]):
            if isinstance(one, (int, float)) or (isinstance(one, Tensor) and one.numel() == 1):
                found[f"{name}[{number}]" if isinstance(value, tuple) else name] = float(one)
    return found


def _size(gradient: Tensor) -> float:
    """A number that changes with the values; of a DTensor that of the local shard, without a collective call."""
    plain: Any = gradient.detach()
    plain = plain.to_local() if hasattr(plain, "to_local") else plain
    return 0.0 if plain.is_sparse else float(plain.double().square().sum().nan_to_num())


def _state_norm(optimizer: torch.optim.Optimizer) -> float:
    tensors = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    plain = [tensor.to_local() if hasattr(tensor, "to_local") else tensor for tensor in tensors]
    return float(sum(tensor.detach().double().square().sum().item() for tensor in plain) ** 0.5)
