"""Inside a rank: let a training that was written for float32 compute in float64, without a change in it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_any, tree_map

_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__setitem__", "__set__")


def in_float64(args: object) -> TorchFunctionMode:
    """Who asks for float32 gets float64, and so do models among the arguments."""
    tree_map(lambda one: one.double() if isinstance(one, nn.Module) else one, args)
    return _Wider()


class _Wider(TorchFunctionMode):
    """Data may have come as float32: where it meets float64, it is taken as that."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        function = Tensor.double if function is Tensor.float else function
        is_in_place = function.__name__.endswith("_") and not function.__name__.endswith("__")
        meets = not is_in_place and function.__name__ not in _IN_PLACE and tree_any(_is_wide, (args, kwargs))

        def wider(one: object) -> object:
            if one is torch.float32:
                return torch.float64
            return one.double() if meets and isinstance(one, Tensor) and one.dtype == torch.float32 else one

        args, kwargs = tree_map(wider, (args, kwargs or {}))
        return function(*args, **kwargs)


def _is_wide(one: object) -> bool:
    return isinstance(one, Tensor) and one.dtype == torch.float64
