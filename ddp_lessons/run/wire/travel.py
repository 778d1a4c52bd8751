"""How functions and values travel between the notebook and its ranks.

To a rank: a function that was defined in a cell is pickled by value, with what it uses: globals, classes, other
functions. They go into the rank's own `__main__`, so that plain pickle (torch.save, object collectives) finds them.
Back: a value is pickled by value, too, but what came from the notebook is pickled by name: in the results, a class of a
cell is the same class as in that cell.
"""

from __future__ import annotations

import builtins
import functools
import importlib.util
import inspect
import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from ddp_lessons.run.wire.messages import CELL_OF_RANKS, Buffer


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
    vars(sys.modules["__main__"]).update(classes)
    _have_module(getattr(function, "__module__", None))
    if isinstance(function, FunctionType) and function.__module__ == "__main__" and "<" not in function.__qualname__:
        vars(sys.modules["__main__"])[function.__name__] = function
    return function, args


def _have_module(name: str | None) -> None:
    """A function pickled by value may need its module, as dataclasses do: load it on first use."""
    if name is None or name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        sys.modules[name] = ModuleType(name)
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


@dataclass(frozen=True)
class FromNotebook:
    """In a rank: what came with the call, and is sent back by name."""

    names: frozenset[str]
    classes: Mapping[type, str]


def from_notebook() -> FromNotebook:
    """Call it after a call has arrived and before it starts."""
    return FromNotebook(frozenset(_rank_main()), dict(cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_CLASS))


def pack_value(value: object, from_notebook: FromNotebook) -> list[Buffer]:
    """In a rank: the value as buffers, its tensors on the CPU."""
    try:
        return _Homebound(from_notebook).pack(value)
    except Exception as error:
        raise CannotTravel(
            f"returned a {type(value).__name__}, which cannot be pickled and sent to the notebook ({error})"
        ) from error


def unpack_value(buffers: Sequence[Buffer]) -> Any:
    return pickle.loads(buffers[0], buffers=buffers[1:])  # noqa: S301  they came over a channel


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Pickles by value what cannot be imported, and keeps the memory of tensors out of the pickle."""

    def __init__(self) -> None:
        self._stream = io.BytesIO()
        buffers: list[Buffer] = []
        # no method of its own: a pickler in a reference cycle would keep the tensors alive until the next collection
        super().__init__(self._stream, protocol=5, buffer_callback=lambda buffer: buffers.append(buffer.raw()))
        self._buffers = buffers

    def pack(self, value: object) -> list[Buffer]:
        self.dump(value)
        # bytes, not getbuffer(): a failed launch leaves these in a cycle of its error, the traceback and its frames,
        # and early releases of Python 3.12 and 3.13 crash when they collect a lent BytesIO there (gh-111049)
        return [self._stream.getvalue(), *self._buffers]

    def reducer_override(self, value: Any) -> Any:
        if (
            type(value) is functools._lru_cache_wrapper
            and cloudpickle.cloudpickle._lookup_module_and_qualname(value) is None
        ):
            return _cached_anew, (value.__wrapped__, value.cache_parameters())
        if isinstance(value, ModuleType) and type(value) is not ModuleType and _is_imported(value):
            return importlib.import_module, (value.__name__,)  # as torch.ops; cloudpickle handles only plain modules
        if isinstance(value, CodeType):  # since 3.1.3 cloudpickle leaves out the file, which messages need for the line
            return _code_of_file, (*self.dispatch_table[CodeType](value), value.co_filename)
        torch = sys.modules.get("torch")
        if torch is not None and type(value) in (torch.Tensor, torch.nn.Parameter) and _is_plain(value, torch):
            return _reduce_tensor(value, torch)
        if torch is not None and type(value) in (torch.UntypedStorage, torch.TypedStorage):
            memory = value if type(value) is torch.UntypedStorage else value._untyped_storage
            if memory.device.type != "meta":  # torch's own way needs a torch.load without weights_only
                content = torch.empty(0, dtype=torch.uint8, device=memory.device).set_(memory)
                return _rebuild_storage, (content, None if memory is value else value.dtype)
        return super().reducer_override(value)


def _is_imported(module: ModuleType) -> bool:
    return sys.modules.get(module.__name__) is module


class _Outbound(_Pickler):
    """Notebook to rank."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[str, type] = {}
        self.sources: dict[str, str] = {}
        self._notebook: Any = vars(sys.modules["__main__"])
        # cloudpickle gives functions that share their globals a new dict; those of the notebook get the rank's __main__
        self.globals_ref[id(self._notebook)] = _RankMain(__name__="__main__")
        self._replaced_builtins = {id(self._notebook[name]): name for name in _builtins_of_ipython(self._notebook)}

    def reducer_override(self, value: Any) -> Any:
        if id(value) in self._replaced_builtins:
            return getattr, (builtins, self._replaced_builtins[id(value)])
        if isinstance(value, CodeType):
            self._remember_source(value.co_filename)
        elif isinstance(value, type):
            name = value.__name__
            if self._notebook.get(name) is value:
                self.classes[name] = value
        return super().reducer_override(value)

    def _remember_source(self, file: str) -> None:
        cached = linecache.cache.get(file)
        if file not in self.sources and cached is not None and len(cached) == 4 and _is_of_a_cell(file, cached[1]):
            self.sources[file] = "".join(cached[2])


def _is_of_a_cell(file: str, modified: float | None) -> bool:
    """Its source exists only here. IPython 7 gives cells a time, as if they were files."""
    return modified is None or not os.path.exists(file)


class _RankMain(dict[str, object]):
    """A placeholder of the notebook's globals, unpickled as the globals of the rank's `__main__`."""

    def __reduce__(self) -> tuple[Callable[[], dict[str, Any]], tuple[()]]:
        return _rank_main, ()


def _rank_main() -> dict[str, Any]:
    return vars(sys.modules["__main__"])


class _Homebound(_Pickler):
    """Rank to notebook."""

    def __init__(self, from_notebook: FromNotebook) -> None:
        super().__init__()
        self._from_notebook = from_notebook

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, type) and value in self._from_notebook.classes:
            return _class_of_notebook, (value.__name__, self._from_notebook.classes[value])
        if isinstance(value, FunctionType) and value.__module__ == "__main__" and not _was_made_here(value):
            name = value.__qualname__
            if name in self._from_notebook.names and _rank_main().get(name) is value:
                return _function_of_notebook, (name,)
        return super().reducer_override(value)


def _was_made_here(function: FunctionType) -> bool:
    """Was it made by a cell that runs on the ranks? The notebook does not have it."""
    return function.__code__.co_filename.startswith(CELL_OF_RANKS)


def _class_of_notebook(name: str, identity: str) -> type:
    """The same class that was sent, even if its name in the notebook is gone or has changed."""
    found = cloudpickle.cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.get(identity)
    if found is None:
        raise LookupError(f"the notebook no longer has the class {name}")
    return found  # type: ignore[no-any-return]


def _function_of_notebook(name: str) -> Any:
    return getattr(sys.modules["__main__"], name)


def _cached_anew(function: Callable[..., Any], parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


def _builtins_of_ipython(notebook: dict[str, Any]) -> list[str]:
    """IPython puts its own `open`, `exit` and `quit` into the notebook; a rank must not need IPython for them."""
    return [name for name in ("open", "exit", "quit") if _is_of_ipython(notebook.get(name))]


def _is_of_ipython(value: object) -> bool:
    code = getattr(value, "__code__", None)
    return type(value).__module__.startswith("IPython") or (code is not None and "IPython" in code.co_filename)


def _code_of_file(make: Callable[..., CodeType], parts: tuple[Any, ...], file: str) -> CodeType:
    return make(*parts).replace(co_filename=file)


def _is_plain(tensor: Any, torch: Any) -> bool:
    is_dense = tensor.layout is torch.strided and not tensor.is_quantized and tensor.device.type != "meta"
    return is_dense and not tensor.__dict__  # attributes that were added to it are pickled by torch


def _reduce_tensor(tensor: Any, torch: Any) -> Any:
    """Only the elements of the tensor itself, even if it is a view into something large."""
    flat = tensor.detach().resolve_conj().resolve_neg().cpu().reshape(-1)
    if flat.stride(0) != 1:
        flat = flat.clone(memory_format=torch.contiguous_format)
    memory = pickle.PickleBuffer(flat.view(torch.uint8).numpy())
    is_parameter = type(tensor) is torch.nn.Parameter
    return _rebuild_tensor, (memory, tensor.dtype, tuple(tensor.shape), tensor.requires_grad, is_parameter)


def _rebuild_tensor(memory: Any, dtype: Any, shape: tuple[int, ...], requires_grad: bool, is_parameter: bool) -> Any:
    import torch

    if memoryview(memory).nbytes:
        own_memory = torch.frombuffer(memory, dtype=torch.uint8).clone()  # so that it can grow
        tensor = own_memory.view(dtype).reshape(shape)
    else:
        tensor = torch.empty(shape, dtype=dtype)
    if is_parameter:
        return torch.nn.Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def _rebuild_storage(content: Any, dtype: Any) -> Any:
    memory = content.untyped_storage()
    typed = sys.modules["torch"].TypedStorage
    return memory if dtype is None else typed(wrap_storage=memory, dtype=dtype, _internal=True)  # without a warning


def _name_the_culprit(function: Callable[..., Any], args: Sequence[object], error: Exception) -> str:
    name = getattr(function, "__name__", repr(function))
    for number, value in enumerate(args):
        if (reason := _why_not(value)) is not None:
            kind = type(value).__name__
            return f"argument {number + 1} after world_size is a {kind}, which cannot be pickled for a rank ({reason})"
    for variable, value in _variables_of(function).items():
        if (reason := _why_not(value)) is not None:
            kind = type(value).__name__
            return (
                f"{name} uses the variable {variable}, a {kind}, which cannot be pickled for a rank ({reason}); "
                f"create it inside {name}"
            )
    return f"{name} cannot be pickled for a rank ({error})"


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
