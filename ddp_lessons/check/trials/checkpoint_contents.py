"""What is in a checkpoint: are the model, the optimizer and the epoch there, and under their keys?

The search looks at values first, so that the report can name the mistake and not only the key.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

_FORBIDDEN = re.compile(r"GLOBAL ([\w.]+)|Unsupported class ([\w.]+)")
_DEEPEST, _LONGEST = 8, 16


@dataclass(frozen=True)
class Fault:
    """A mistake in a file."""

    mistake: str
    place: str
    yours: str
    expected: str


_NOT_READ = Fault(
    "torch.load cannot read the file. Write it with torch.save.", "torch.load", "an error", "a checkpoint"
)


def fault_in_file(path: Path, model: nn.Module, optimizer: Optimizer, epoch: int) -> Fault | None:
    """Load it like someone who resumes the training run, and look for everything needed for that."""
    if not path.exists():
        return Fault(
            "There is no file at the given path when it returns. Save to `path`.", "file", "none", "a checkpoint"
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as refusal:
        return _refused(str(refusal))
    except Exception:
        return _NOT_READ
    parts = list(_parts(content))
    return (
        _of_the_model(parts, model)
        or _of_the_optimizer(parts, optimizer)
        or _of_the_epoch(content, epoch)
        or _of_the_keys(content, model, optimizer, epoch)
    )


def _refused(refusal: str) -> Fault:
    """`weights_only=True` accepts tensors, numbers, strings, and dicts and lists of them."""
    found = _FORBIDDEN.search(refusal)
    if found is None:
        return _NOT_READ
    name = found[1] or found[2]
    kind = name.rpartition(".")[2]
    if kind in ("_Network", "DistributedDataParallel"):
        mistake = "It saves the whole model, which can only be loaded with its code. Save its state_dict()."
    elif name.startswith("torch.optim"):
        mistake = "It saves the whole optimizer, which can only be loaded with its code. Save its state_dict()."
    else:
        mistake = (
            f"torch.load with weights_only=True refuses an object of type {kind}. Save tensors, numbers and strings "
            "in dicts and lists."
        )
    return Fault(mistake, "torch.load", f"an object of type {kind}", "tensors and numbers")


def _parts(content: Any, depth: int = 0) -> Iterator[Any]:
    """Everything in it, itself included; a long list, such as a random state, counts as one."""
    yield content
    if depth == _DEEPEST:
        return
    if isinstance(content, Mapping):
        for value in content.values():
            yield from _parts(value, depth + 1)
    elif isinstance(content, list | tuple) and len(content) <= _LONGEST:
        for value in content:
            yield from _parts(value, depth + 1)


def _of_the_model(parts: list[Any], model: nn.Module) -> Fault | None:
    right = model.state_dict()
    dicts = [part for part in parts if isinstance(part, Mapping) and any(isinstance(v, Tensor) for v in part.values())]
    if any(_holds(one, right) for one in dicts):
        return None
    name = next(iter(right))
    for one in dicts:
        if any(str(key).startswith("module.") for key in one):
            mistake = (
                'The names in the file start with "module.", which is the DDP wrapper. Save model.module.state_dict(), '
                "so that a model without the wrapper can load it."
            )
            return Fault(mistake, "name", f"module.{name}", name)
        missing = [name for name in right if name not in one]
        if missing and len(missing) < len(right):
            what = "buffer" if missing[0] in dict(model.named_buffers()) else "parameter"
            mistake = f"The {what} {missing[0]} is missing from the file. Save all of state_dict()."
            return Fault(mistake, missing[0], "missing", "there")
        if not missing:
            other = next(name for name in right if not _same(one[name], right[name]))
            mistake = "The weights in the file differ from those of the model. Save the unchanged state_dict()."
            return Fault(mistake, other, "other values", "the model's")
    mistake = "The model's weights are missing from the file. Save model.module.state_dict()."
    return Fault(mistake, name, "missing", "there")


def _holds(one: Mapping[Any, Any], right: Mapping[str, Any]) -> bool:
    return all(name in one and _same(one[name], value) for name, value in right.items())


def _of_the_optimizer(parts: list[Any], optimizer: Optimizer) -> Fault | None:
    right = optimizer.state_dict()
    states = [part for part in parts if isinstance(part, Mapping) and {"state", "param_groups"} <= part.keys()]
    if any(_same(state["state"], right["state"]) for state in states):
        return None
    if states:
        return Fault(
            "The optimizer state in the file differs from that of the given optimizer. Save optimizer.state_dict().",
            "optimizer",
            "another",
            "its state",
        )
    mistake = "The optimizer state (the momentum) is missing from the file. Save optimizer.state_dict() too."
    return Fault(mistake, "optimizer", "missing", "its state")


def _of_the_epoch(content: Any, epoch: int) -> Fault | None:
    numbers = [
        part.item() if isinstance(part, Tensor) else part
        for part in _parts(_without_states(content))
        if _is_number(part)
    ]
    if epoch in numbers:
        return None
    if epoch + 1 in numbers:
        mistake = f"The file says epoch {epoch + 1}, but your function was called with {epoch}. Save `epoch` unchanged."
        return Fault(mistake, "epoch", str(epoch + 1), str(epoch))
    mistake = "The epoch is missing from the file, so a restart does not know where to resume. Save `epoch` too."
    return Fault(mistake, "epoch", "missing", str(epoch))


def _of_the_keys(content: Any, model: nn.Module, optimizer: Optimizer, epoch: int) -> Fault | None:
    """All of it is there, but not under the keys that a program would look for."""
    asked = '"model", "optimizer" and "epoch"'
    if not isinstance(content, Mapping):
        kind = type(content).__name__
        return Fault(f"The file holds a {kind}. Save a dictionary with {asked}.", "torch.load", f"a {kind}", "a dict")
    for key in ("model", "optimizer", "epoch"):
        if key not in content:
            mistake = f'The file has no key "{key}". Save a dictionary with {asked}.'
            found = ", ".join(str(one) for one in list(content)[:3])
            return Fault(mistake, "keys", f"{found}, ..."[:40], key)
    state = content["optimizer"]
    right_optimizer = isinstance(state, Mapping) and _same(state.get("state"), optimizer.state_dict()["state"])
    right_model = isinstance(content["model"], Mapping) and _holds(content["model"], model.state_dict())
    for key, is_right in (("model", right_model), ("optimizer", right_optimizer)):
        if not is_right:
            mistake = f'The key "{key}" does not hold {key}.state_dict(). Save {key}.state_dict() under it.'
            return Fault(mistake, key, "something else", "its state_dict()")
    if not _is_number(content["epoch"]) or content["epoch"] != epoch:
        mistake = 'The value of "epoch" is not the epoch that your function received. Save `epoch` under this key.'
        return Fault(mistake, "epoch", "another", str(epoch))
    return None


def _without_states(content: Any) -> Any:
    """Everything except the states of the model and the optimizer, whose numbers are not epochs."""
    if isinstance(content, Mapping):
        if "param_groups" in content:
            return None
        return {key: _without_states(value) for key, value in content.items() if not _is_long(value)}
    return content


def _is_number(part: Any) -> bool:
    if isinstance(part, Tensor):
        return part.numel() == 1 and not _is_long(part)
    return isinstance(part, int | float) and not isinstance(part, bool)


def _is_long(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() > 1


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, Tensor):
        return isinstance(one, Tensor) and one.shape == other.shape and torch.equal(one, other.to(one.dtype))
    if isinstance(other, Mapping):
        return isinstance(one, Mapping) and one.keys() == other.keys() and all(_same(one[k], other[k]) for k in other)
    if isinstance(other, list | tuple):
        return isinstance(one, list | tuple) and len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
