"""Inside a rank: watch a training run through torch's own global hooks, without changing it.

It makes no collective call and raises nothing. A run with more steps than are watched goes on to its end: an
exception of ours in the middle of it would run its `except` and `finally` blocks, and ranks that stop at different
places could hang because of us.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.modules import module as global_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizer_hooks
from torch.utils.hooks import unserializable_hook

from ddp_lessons.sameness.run_records import Array, Piece, RankRecord, StepRecord
from ddp_lessons.sameness.snapshots import MOST_ELEMENTS, piece_of, samples_in
from ddp_lessons.sameness.training_modes import by_default, seed_by_rank, without_dropout


def watched_train(
    rank: int, world_size: int, train: Callable[..., object], args: Sequence[object], watch: dict[str, Any]
) -> RankRecord:
    """Run `train` as it is, and return what was seen of it."""
    with watching(rank, args, **watch) as watcher:
        train(rank, world_size, *args)
    return watcher.record()


@contextlib.contextmanager
def watching(rank: int, args: object, dtype: str | None, steps: int, random: Sequence[str]) -> Iterator[Watcher]:
    """Watch the training run in this block, in this dtype, without dropout if that is among the random."""
    seed_by_rank(rank)
    watcher = Watcher(steps, random)
    dropout = without_dropout() if "dropout" in random else contextlib.nullcontext()
    with by_default(getattr(torch, dtype) if dtype else None, args), dropout, watcher:
        yield watcher


class Watcher:
    """Hooks that are there during a training run, and what they have noted. Parameters are known by their id."""

    def __init__(self, steps: int, random: Sequence[str] = ()) -> None:
        self._most, self._counts_only = steps, "augmentation" in random
        self._steps: list[StepRecord] = []
        self._depth = 0  # of forward calls within forward calls
        self._stepping = 0  # likewise: an optimizer may step another
        self._names: dict[str, str] = {}
        self._names_in_optimizers: dict[str, str] = {}  # of parameters that no module has
        self._roots: dict[int, nn.Module] = {}
        self._seen: dict[str, Tensor] = {}  # parameters with a hook: they keep their id as long as they live
        self._optimizers: dict[int, torch.optim.Optimizer] = {}
        self._local: dict[str, Tensor] = {}
        self._summed: dict[str, tuple[Tensor, float]] = {}  # each gradient and its size after the last backward pass
        self._has_ddp = False
        self._random_before = _random_states()
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
        self._stack = contextlib.ExitStack()
        for handle in (
            global_hooks.register_module_forward_pre_hook(self._enter),
            global_hooks.register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
            global_hooks.register_module_module_registration_hook(self._registered),
            optimizer_hooks.register_optimizer_step_pre_hook(self._before_step),
            optimizer_hooks.register_optimizer_step_post_hook(self._after_step),
        ):
            self._stack.callback(handle.remove)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def record(self) -> RankRecord:
        """With the names that the modules have: some optimizers call the model only within their first step."""
        names = self._names_in_optimizers | self._names

        def named(step: StepRecord, kind: str) -> dict[str, Piece]:
            return {names[key]: piece for key, piece in getattr(step, kind).items()}

        kinds = ("before", "gradients", "local", "after")
        steps = tuple(replace(step, **{kind: named(step, kind) for kind in kinds}) for step in self._steps)  # type: ignore[arg-type]
        return RankRecord(steps, self._most, self._has_ddp, self._counts_only)

    # modules

    def _registered(self, module: nn.Module, name: str, child: object) -> None:
        self._has_ddp |= isinstance(module, DistributedDataParallel) and name == "module"

    def _enter(self, module: nn.Module, _: object) -> None:
        if self._depth == 0 and torch.is_grad_enabled() and not _is_transformed():
            self._random_before = _random_states()
            self._meet(module)
            self._note_changed_gradients()
        self._depth += 1
        if module.training and isinstance(module, _BatchNorm) and torch.is_grad_enabled():
            self._kinds |= set() if isinstance(module, nn.SyncBatchNorm) else {"batch_norm"}

    def _note_changed_gradients(self) -> None:
        """Between two micro-batches nothing writes to a gradient, unless DDP has averaged it."""
        if self._syncs[-1:] == [True]:
            return
        for key, (gradient, size) in self._summed.items():
            if self._seen[key].grad is gradient and _size(gradient) != size:
                self._kinds.add("changed_between_micro_batches")

    def _leave(self, module: nn.Module, args: object, kwargs: object, _: object) -> None:
        self._depth = max(self._depth - 1, 0)
        if self._depth or not torch.is_grad_enabled() or _is_transformed():
            return
        samples = None
        with contextlib.suppress(Exception):  # inputs of a kind that has no rows must not end a training run
            samples = samples_in((args, kwargs))
        if samples is None:
            return
        self._samples.append(samples)
        if not all(map(torch.equal, self._random_before, _random_states())):
            self._kinds.add("random_forward")
        if isinstance(module, DistributedDataParallel):
            self._syncs.append(bool(module.require_backward_grad_sync))
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                self._precision = max(self._precision, torch.finfo(torch.get_autocast_dtype(device)).eps)

    def _meet(self, module: nn.Module) -> None:
        """Note the names of a model's parameters, and what each backward pass adds to them on this rank."""
        self._roots.setdefault(id(module), module)
        for name, parameter in module.named_parameters():
            key = _key(parameter)
            if key not in self._seen and parameter.requires_grad:
                self._seen[key] = parameter
                if not parameter._backward_hooks:  # after another hook a gradient may be no more this rank's own
                    self._stack.callback(parameter.register_hook(self._adder(key)).remove)
                self._stack.callback(parameter.register_post_accumulate_grad_hook(self._note_summed).remove)
            if key not in self._names:
                plain = plain_name(name)
                is_taken = plain in self._names.values()
                self._names[key] = f"{type(module).__name__} {len(self._roots)}: {plain}" if is_taken else plain

    def _adder(self, key: str) -> Callable[[Tensor], None]:
        def add(gradient: Tensor) -> None:
            if len(self._steps) < self._most:
                known = self._local.get(key)
                self._local[key] = gradient.detach().clone() if known is None else known + gradient.detach()

        unserializable_hook(add)
        return add

    def _note_summed(self, parameter: Tensor) -> None:
        if parameter.grad is not None and len(self._steps) < self._most:
            self._summed[_key(parameter)] = parameter.grad, _size(parameter.grad)

    # optimizers

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self._stepping += 1
        if self._stepping > 1:
            return
        self._depth = 0
        self._optimizers.setdefault(id(optimizer), optimizer)
        name = f"{type(optimizer).__name__} {list(self._optimizers).index(id(optimizer))}"
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            self._names_in_optimizers.setdefault(_key(parameter), f"{name}, parameter {number}")
        dtypes = [parameter.dtype for parameter in parameters if parameter.is_floating_point()]
        self._fields: dict[str, Any] = {
            "optimizer": name,
            "settings": _settings(optimizer.param_groups),
            "state": _state_norm(optimizer),
            "eps": max((torch.finfo(dtype).eps for dtype in dtypes), default=0.0),
            "fan_in": max((max(parameter.shape, default=1) for parameter in parameters), default=1),
        }
        if len(self._steps) < self._most:
            self._as_sketch = sum(parameter.numel() for parameter in parameters) > MOST_ELEMENTS
            self._updated = {_key(parameter): parameter for parameter in parameters}
            self._fields["before"] = self._pieces(self._updated)
            self._fields["gradients"] = self._pieces({key: one.grad for key, one in self._updated.items()})

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
            self._fields["local"] = self._pieces({key: self._local.get(key) for key in self._updated})
            self._fields["after"] = self._pieces(self._updated)
            named = [named for root in self._roots.values() for named in root.named_buffers()]
            floats = {plain_name(name): one for name, one in named if one.is_floating_point()}
            self._fields["buffers"] = self._pieces(floats)
        self._steps.append(StepRecord(**self._fields))
        self._forget()

    def _pieces(self, tensors: dict[str, Any]) -> dict[str, Piece]:
        return {name: piece_of(tensor, self._as_sketch) for name, tensor in tensors.items() if tensor is not None}


def plain_name(name: str) -> str:
    """Of a parameter, without the wrappers around its module."""
    inside = re.sub(r"_(fsdp_wrapped_module|orig_mod|checkpoint_wrapped_module)\.", "", name)
    return re.sub(r"^(module\.)+", "", inside)


def _key(parameter: Tensor) -> str:
    return str(id(parameter))


def _is_transformed() -> bool:
    """Inside of torch.func.grad, vmap and the like, where tensors have no values that could be looked at."""
    return torch._C._functorch.maybe_current_level() is not None


def _random_states() -> list[Tensor]:
    return [torch.get_rng_state(), *(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])]


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


def _own_part(tensor: Tensor) -> Tensor:
    """Of a DTensor the local shard, without a collective call."""
    plain = tensor.detach()
    return plain.to_local() if isinstance(plain, DTensor) else plain


def _size(gradient: Tensor) -> float:
    """A number that changes with the values."""
    plain = _own_part(gradient)
    return 0.0 if plain.is_sparse else float(plain.double().square().sum().nan_to_num())


def _state_norm(optimizer: torch.optim.Optimizer) -> float:
    tensors = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, Tensor)]
    return float(sum(_own_part(tensor).double().square().sum().item() for tensor in tensors) ** 0.5)
