"""Switch off the dropout that a model calls as a function: `F.dropout`, or attention with a `dropout_p`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.nn import functional

_FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")


@contextmanager
def switched_off() -> Iterator[None]:
    attention: Any = functional.scaled_dot_product_attention

    def identity(input: Tensor, *_: object, **__: object) -> Tensor:
        return input

    def without_dropout(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        *args: Any,
        **others: Any,
    ) -> Tensor:
        attended: Tensor = attention(query, key, value, attn_mask, 0.0 * dropout_p, *args, **others)
        return attended

    with ExitStack() as stack:
        for name in _FUNCTIONS:
            stack.enter_context(patch.object(functional, name, identity))
        stack.enter_context(patch.object(functional, "scaled_dot_product_attention", without_dropout))
        yield
