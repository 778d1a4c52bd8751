"""Inside a rank: make a training run draw other random numbers, compute in float64 or skip dropout."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_any, tree_map

_DROPOUT = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_IN_PLACE = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__setitem__", "__set__")


def seed_by_rank(rank: int) -> None:
    """Without a seed of its own, a training run would start differently each time; as in practice, ranks differ."""
    torch.manual_seed(1000 + rank)
    np.random.seed(1000 + rank)
    random.seed(1000 + rank)


@contextmanager
def by_default(dtype: torch.dtype | None, args: object = ()) -> Iterator[None]:
    """Compute in this dtype. In float64, requests for float32 give float64, and so do models among the arguments."""
    kept = torch.get_default_dtype()
    torch.set_default_dtype(dtype or kept)
    try:
        with ExitStack() as stack:
            if dtype == torch.float64:
                tree_map(lambda one: one.double() if isinstance(one, nn.Module) else one, args)
                stack.enter_context(_Wider())
            yield
    finally:
        torch.set_default_dtype(kept)


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


@contextmanager
def without_dropout() -> Iterator[None]:
    """Modules and attention call the functions of torch.nn.functional; recurrent networks have dropout of their own."""
    attention: Any = functional.scaled_dot_product_attention

    def identity(input: Tensor, *_: object, **__: object) -> Tensor:
        return input

    def attention_without(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        *more: Any,
        **named: Any,
    ) -> Tensor:
        attended: Tensor = attention(query, key, value, attn_mask, 0.0, *more, **named)
        return attended

    def switch_off(module: nn.Module, _: object) -> None:
        if isinstance(module, nn.RNNBase):
            module.dropout = 0.0

    with ExitStack() as stack:
        for name in _DROPOUT:
            stack.enter_context(patch.object(functional, name, identity))
        stack.enter_context(patch.object(functional, "scaled_dot_product_attention", attention_without))
        stack.callback(register_module_forward_pre_hook(switch_off).remove)
        yield
