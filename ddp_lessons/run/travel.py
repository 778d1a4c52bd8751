"""How functions and values travel between the notebook and its ranks.

Out: a function travels by value when it was defined in a cell, and takes along what it uses: globals, classes, other
functions. They land in the rank's own `__main__`, so that plain pickle (torch.save, object collectives) finds them.
Back: a value travels by value too, but what came from the notebook goes home by its name: a class of a cell is, in
the results, the very class of that cell.
"""

from __future__ import annotations

import inspect
import io
import linecache
import pickle
import sys
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ddp_lessons.run.messages import Buffer


class CannotTravel(TypeError):
    """Something cannot be pickled; the message says what."""


def pack_call(function: Callable[..., Any], args: Sequence[object]) -> tuple[bytes, list[Buffer], dict[str, str]]:
    """In the notebook: the function and its arguments as bytes, buffers, and the cells' source text."""
    packed = _Outbound()
    try:
        return (*packed.pack([function, tuple(args), packed.classes]), packed.sources)
    except Exception as error:
        raise CannotTravel(_name_the_culprit(function, args, error)) from error


def unpack_call(
    packed: bytes, buffers: Sequence[Buffer], sources: dict[str, str]
) -> tuple[Callable[..., Any], tuple[object, ...]]:
    """In a rank: the function and its arguments, with the notebook's names in `__main__`."""
    for file, text in sources.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    function, args, classes = pickle.loads(packed, buffers=buffers)
    vars(sys.modules["__main__"]).update(classes)
    if isinstance(function, FunctionType) and function.__module__ == "__main__" and "<" not in function.__qualname__:
        vars(sys.modules["__main__"])[function.__name__] = function
    return function, args


def pack_value(value: object, from_notebook: frozenset[str]) -> tuple[bytes, list[Buffer]]:
    """In a rank: the value as bytes and buffers, its tensors on the CPU."""
    try:
        return _Homebound(from_notebook).pack(value)
    except Exception as error:
        raise CannotTravel(
            f"returned a {type(value).__name__}, which cannot travel to the notebook ({error})"
        ) from error


def unpack_value(packed: bytes, buffers: Sequence[Buffer]) -> Any:
    return pickle.loads(packed, buffers=buffers)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what has no other home, and puts the memory of tensors beside the pickle instead of into it."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        self._buffers: list[Buffer] = []
        super().__init__(self._stream, protocol=5, buffer_callback=self._keep)

    def _keep(self, buffer: pickle.PickleBuffer) -> None:
        self._buffers.append(buffer.raw())

    def pack(self, value: object) -> tuple[bytes, list[Buffer]]:
        self.dump(value)
        return self._stream.getvalue(), self._buffers

    def reducer_override(self, value: Any) -> Any:
        torch = sys.modules.get("torch")
        if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter) and _is_plain(value, torch):
            return _reduce_tensor(value, torch)
        return super().reducer_override(value)


class _Outbound(_Pickler):
    """Notebook to rank."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[str, type] = {}
        self.sources: dict[str, str] = {}
        self._notebook: Any = vars(sys.modules["__main__"])
        # cloudpickle gives functions that share their globals a new dict; those of the notebook get the rank's __main__
        self.globals_ref[id(self._notebook)] = _RankMain(__name__="__main__")

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, CodeType):
            self._remember_source(value.co_filename)
        elif isinstance(value, type):
            name = value.__name__
            if self._notebook.get(name) is value:
                self.classes[name] = value
        return super().reducer_override(value)

    def _remember_source(self, file: str) -> None:
        cached = linecache.cache.get(file)
        if file not in self.sources and cached is not None and len(cached) == 4 and cached[1] is None:
            self.sources[file] = "".join(cached[2])


class _RankMain(dict[str, object]):
    """Stands for the notebook's globals and becomes, when it is unpickled, the globals of the rank's `__main__`."""

    def __reduce__(self) -> tuple[Callable[[], dict[str, Any]], tuple[()]]:
        return _rank_main, ()


def _rank_main() -> dict[str, Any]:
    return vars(sys.modules["__main__"])


class _Homebound(_Pickler):
    """Rank to notebook."""

    def __init__(self, from_notebook: frozenset[str]) -> None:
        super().__init__()
        self._from_notebook = from_notebook

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, (type, FunctionType)) and value.__module__ == "__main__":
            name = value.__qualname__
            if name in self._from_notebook and _rank_main().get(name) is value:
                return _look_up, (name,)
        return super().reducer_override(value)


def _look_up(name: str) -> Any:
    return getattr(sys.modules["__main__"], name)


def _is_plain(tensor: Any, torch: Any) -> bool:
    return tensor.layout is torch.strided and not tensor.is_quantized and tensor.device.type != "meta"


def _reduce_tensor(tensor: Any, torch: Any) -> Any:
    """Only the elements of the tensor itself, even if it is a view into something large."""
    whole = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    memory = pickle.PickleBuffer(whole.reshape(-1).view(torch.uint8).numpy())
    is_parameter = type(tensor) is torch.nn.Parameter
    return _rebuild_tensor, (memory, tensor.dtype, tuple(tensor.shape), tensor.requires_grad, is_parameter)


def _rebuild_tensor(memory: Any, dtype: Any, shape: tuple[int, ...], requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    if memoryview(memory).nbytes:
        tensor = torch.frombuffer(memory, dtype=dtype).reshape(shape)
    else:
        tensor = torch.empty(shape, dtype=dtype)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _name_the_culprit(function: Callable[..., Any], args: Sequence[object], error: Exception) -> str:
    name = getattr(function, "__name__", repr(function))
    for number, value in enumerate(args):
        if (reason := _why_not(value)) is not None:
            kind = type(value).__name__
            return f"argument {number + 1} after the world size is a {kind}, which cannot travel to a rank ({reason})"
    for variable, value in _variables_of(function).items():
        if (reason := _why_not(value)) is not None:
            kind = type(value).__name__
            return (
                f"{name} uses the variable {variable}, a {kind}, which cannot travel to a rank ({reason}); "
                f"make it inside {name}"
            )
    return f"{name} cannot travel to a rank ({error})"


def _why_not(value: object) -> str | None:
    try:
        _Outbound().pack(value)
    except Exception as error:
        return str(error)
    return None


def _variables_of(function: Callable[..., Any]) -> dict[str, object]:
    try:
        used = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return {}
    return {**used.nonlocals, **used.globals}
