"""How functions and values travel between the notebook and its ranks.

To a rank: a function that was defined in a cell is pickled by value, with what it uses: globals, classes, other
functions. They go into the rank's own `__main__`, so that plain pickle (torch.save, object collectives) finds them.
Back: a value is pickled by value, too, but a class that came from the notebook is the same class in the results.
"""

from __future__ import annotations

import inspect
import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
from cloudpickle import cloudpickle as tracking

from ddp_lessons.run.wire.messages import Buffer


class CannotTravel(TypeError):
    """Something cannot be pickled; the message says what."""


def pack_call(function: Callable[..., Any], args: Sequence[object]) -> tuple[list[Buffer], dict[str, str]]:
    """In the notebook: the function and its arguments as buffers, and the cells' source text."""
    packed = _Outbound()
    try:
        return packed.pack([function, tuple(args), packed.classes]), packed.sources
    except Exception as error:
        raise CannotTravel(_name_the_culprit(function, args, error)) from error


def unpack_call(buffers: Sequence[Buffer], sources: dict[str, str]) -> tuple[Callable[..., Any], tuple[object, ...]]:
    """In a rank: the function and its arguments, with the notebook's names in `__main__`."""
    for file, text in sources.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    function, args, classes = unpack_value(buffers)
    main = vars(sys.modules["__main__"])
    main.update(classes)
    if isinstance(function, FunctionType) and function.__module__ == "__main__" and function.__name__.isidentifier():
        main[function.__name__] = function
    return function, args


def from_notebook() -> Mapping[type, str]:
    """In a rank, after a call has arrived and before it starts: the classes that came with it."""
    return dict(tracking._DYNAMIC_CLASS_TRACKER_BY_CLASS)


def pack_value(value: object, from_notebook: Mapping[type, str]) -> list[Buffer]:
    """In a rank: the value as buffers, its tensors on the CPU."""
    try:
        return _Pickler(from_notebook).pack(value)
    except Exception as error:
        kind = type(value).__name__
        raise CannotTravel(f"returned a {kind}, which cannot be pickled and sent to the notebook ({error})") from error


def unpack_value(buffers: Sequence[Buffer]) -> Any:
    return pickle.loads(buffers[0], buffers=buffers[1:])  # noqa: S301  they came over a channel


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what cannot be imported, and keeps the memory of tensors out of the pickle."""

    def __init__(self, by_name: Mapping[type, str]) -> None:
        self._stream, buffers = io.BytesIO(), list[Buffer]()
        # no method of its own: a pickler in a reference cycle would keep the tensors alive until the next collection
        super().__init__(self._stream, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
        self._buffers, self._by_name = buffers, by_name

    def pack(self, value: object) -> list[Buffer]:
        self.dump(value)
        return [self._stream.getvalue(), *self._buffers]

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, CodeType):  # since 3.1.3 cloudpickle leaves out the file, which messages need for the line
            return _code_of_file, (*self.dispatch_table[CodeType](value), value.co_filename)
        if isinstance(value, type) and value in self._by_name:
            return _class_of_notebook, (self._by_name[value],)
        if (torch := sys.modules.get("torch")) is not None and _is_plain(value, torch):
            return _tensor, _parts_of_tensor(value, torch)
        return super().reducer_override(value)


class _Outbound(_Pickler):
    """Notebook to rank."""

    def __init__(self) -> None:
        super().__init__(by_name={})
        self.classes: dict[str, type] = {}
        self.sources: dict[str, str] = {}
        # cloudpickle gives functions that share their globals a new dict; those of the notebook get the rank's __main__
        self.globals_ref[id(vars(sys.modules["__main__"]))] = _RankMain(__name__="__main__")

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, CodeType) and not os.path.exists(value.co_filename):  # the source of a cell is only here
            self.sources[value.co_filename] = "".join(linecache.getlines(value.co_filename))
        elif isinstance(value, type):
            kind: type = value
            if vars(sys.modules["__main__"]).get(kind.__name__) is kind:
                self.classes[kind.__name__] = kind
        return super().reducer_override(value)


class _RankMain(dict[str, object]):
    """A placeholder of the notebook's globals, unpickled as the globals of the rank's `__main__`."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[object, ...]]:
        return vars, (sys.modules["__main__"],)  # a module is pickled by its name


def _class_of_notebook(identity: str) -> Any:
    """The same class that was sent, even if its name in the notebook is gone or has changed."""
    return tracking._DYNAMIC_CLASS_TRACKER_BY_ID[identity]


def _code_of_file(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str) -> CodeType:
    return make(*parts).replace(co_filename=file)


def _is_plain(value: Any, torch: Any) -> bool:
    """Torch pickles other tensors: sparse ones, or those to which the learner added attributes."""
    is_tensor = type(value) in (torch.Tensor, torch.nn.Parameter)
    is_dense = is_tensor and value.layout is torch.strided and not value.is_quantized
    return is_dense and value.device.type != "meta" and not value.__dict__


def _parts_of_tensor(tensor: Any, torch: Any) -> tuple[Any, ...]:
    """Only the elements of the tensor itself, even if it is a view into something large."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().reshape(-1)
    dense = flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)
    memory = pickle.PickleBuffer(dense.view(torch.uint8).numpy())
    return memory, tensor.dtype, tuple(tensor.shape), tensor.requires_grad, type(tensor) is torch.nn.Parameter


def _tensor(memory: Any, dtype: Any, shape: tuple[int, ...], requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    given = torch.frombuffer(memory, dtype=torch.uint8) if memoryview(memory).nbytes else torch.empty(0).byte()
    tensor = given.clone().view(dtype).reshape(shape)  # with memory of its own, which can grow
    return torch.nn.Parameter(tensor, requires_grad) if is_parameter else tensor.requires_grad_(requires_grad)


def _name_the_culprit(function: Callable[..., Any], args: Sequence[object], error: Exception) -> str:
    name = getattr(function, "__name__", repr(function))
    suspects = [(f"argument {number} after world_size is", value, "") for number, value in enumerate(args, 1)]
    if isinstance(function, FunctionType):
        used = inspect.getclosurevars(function)
        for variable, value in {**used.nonlocals, **used.globals}.items():
            suspects.append((f"{name} uses the variable {variable},", value, f"; create it inside {name}"))
    for found, value, step in suspects:
        try:
            _Outbound().pack(value)
        except Exception as reason:
            return f"{found} a {type(value).__name__}, which cannot be pickled and sent to a rank ({reason}){step}"
    return f"{name} cannot be pickled and sent to a rank ({error})"
