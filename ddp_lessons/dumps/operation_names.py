"""What the Flight Recorder's names mean: operations, dtypes, and the line of the user's code in a stack."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ddp_lessons.run.diagnosis.wording import DDP

# as the course names them; whatever is not here keeps torch's name
_OPERATIONS = {
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "allreduce_coalesced": "all_reduce",
    "all_reduce_barrier": "barrier",
    "_all_gather_base": "all_gather",
    "all_gather_single": "all_gather",
    "all_gather_v": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "allgather_coalesced": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_single": "reduce_scatter",
    "reduce_scatter_v": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "reduce_scatter_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "all_to_all_v_single": "all_to_all",
}
_RUN_TOGETHER = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "_allgather_base": "all_gather",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all",
    "recvanysource": "recv",
}
COALESCED = "coalesced"  # closes a batch of calls
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
_BITS = re.compile(r"(\d+)")
_PEER = re.compile(r"\d+(?:->|<-)(\d+|\?)")
_TORCH = re.compile(r"[/\\](site-packages|dist-packages)[/\\]torch[/\\]|^(<frozen|torch[/\\])")
_INSTALLED = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python3\.\d+t?)[/\\]")
_WHOSE_CALLS = re.compile(r"torch[/\\]distributed[/\\]distributed_c10d\.py$")
_OF_DDP = re.compile(r"torch[/\\](nn[/\\]parallel[/\\]distributed|autograd[/\\]graph)\.py$")


class Named(NamedTuple):
    """What stands in a profiling name, as in "nccl:send 0->1"."""

    library: str
    operation: str
    peer: int | None  # by its number in the group; None: any rank, or no message


class Place(NamedTuple):
    """A line of the user's code, and the function of torch that it called ("" if unknown)."""

    file: str
    line: int
    function: str
    call: str


def read_name(profiling_name: str) -> Named:
    library, _, name = profiling_name.rpartition(":")
    operation, _, meta = name.partition(" ")
    peer = _PEER.match(meta)
    number = int(peer[1]) if peer is not None and peer[1] != "?" else None
    return Named(library, read_operation(operation), number)


def read_operation(name: str) -> str:
    """As the course names it, in whatever spelling: ALLREDUCE, _allgather_base."""
    plain = name.lower()
    return _OPERATIONS.get(plain, _RUN_TOGETHER.get(plain, plain))


def read_dtype(name: str) -> str:
    return _DTYPES.get(name, name.lower())


def bytes_of(dtype: str, shapes: Sequence[Sequence[int]]) -> int:
    bits = _BITS.search(dtype)
    return sum(map(math.prod, shapes)) * (int(bits[1]) // 8 if bits is not None else 1)


def read_stack(frames: Sequence[Mapping[str, Any]]) -> Place:
    """Of a stack, innermost frame first. Code that is installed counts only if there is no other."""
    call, place = "", None
    for frame in frames:
        file, name = str(frame["filename"]), str(frame["name"])
        if _TORCH.search(file):
            if place is None:
                call = _called(call, file, name)
        elif not _is_between(file) and (place is None or is_installed(place.file) > is_installed(file)):
            place = Place(file, int(frame["line"]), name, call)
    return place or Place("", 0, "", call)


def _called(call: str, file: str, name: str) -> str:
    """The outermost function of torch.distributed, or DDP, which makes its calls in C++."""
    if call == "" and _OF_DDP.search(file):
        return DDP
    is_public = _WHOSE_CALLS.search(file) and not name.startswith("_") and name != "wrapper"
    return name if is_public and call != DDP else call


def is_installed(file: str) -> bool:
    """Of a package or of Python itself, on whatever machine."""
    return _INSTALLED.search(file) is not None


def _is_between(file: str) -> bool:
    """Decorators of torch's functions; no line that anybody wrote called torch there."""
    return file.endswith(("typing_extensions.py", "contextlib.py", "functools.py"))
