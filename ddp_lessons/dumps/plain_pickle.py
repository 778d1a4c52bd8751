"""Read a pickle of plain data without running anything: containers, text, numbers, True, False and None.

A pickle is a program that may call any function that it names. This reader lets it name none.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn


class NamesCode(pickle.UnpicklingError):
    """The pickle wants to call or build something. `name` is what."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def read_plain(data: bytes) -> Any:
    """Return the data.

    Raises:
        NamesCode: it is not plain data; nothing of it was run.
        Exception: it is damaged, in one of the many ways of pickle.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise NamesCode(f"{module}.{name}")

    def persistent_load(self, name: object) -> NoReturn:
        raise NamesCode(str(name))
