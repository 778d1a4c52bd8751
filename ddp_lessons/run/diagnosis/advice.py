"""What to do next, for each way in which a rank can fail."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from types import MappingProxyType

from ddp_lessons.run.diagnosis.missing_on_nodes import command_there, what_is_missing_there
from ddp_lessons.run.launcher import shortages
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Raised

_NEXT_TO_LOAD = (
    "save the module in the notebook's folder, or define the function or class in a cell. Ranks can import a module "
    "only from a file."
)
_NEXT_TO_RETURN = "return plain data instead: numbers, tensors, lists, dicts, a state_dict()."
_NEXT_FOR_SIGNAL = {
    "SIGKILL": "use fewer ranks, smaller batches or less data: when memory runs out, the kernel's OOM killer ends a "
    "process with SIGKILL (`dmesg` shows it).",
    "SIGBUS": "free up space in /dev/shm and in the temporary folder: writing to full shared memory causes a "
    "bus error.",
    "SIGSEGV": "check the shapes, dtypes and devices of the tensors on that line: a segmentation fault is an invalid "
    "memory access in native code.",
    "SIGABRT": "read the last lines on stderr: native code aborted, often because shapes or dtypes differ by rank.",
}
_NEXT_TO_ITSELF = "check how the other rank's number is computed: a rank cannot send to itself or receive from itself."
_NEXT_SAME_MODEL = "build the same model on every rank: the same layers, sizes and dtypes."
_NEXT_UNUSED = (
    "use every parameter in the loss on every rank, or pass find_unused_parameters=True to DistributedDataParallel."
)
_NEXT_NO_BACKEND = (
    'move the tensor to the GPU, or pass backend="cpu:gloo,cuda:nccl": a group made with backend="nccl" takes only GPU '
    "tensors. If an earlier run on these ranks failed, wrap the model again, or create the group again."
)
_NEXT_OLD_GROUP = "wrap the model again, or create the group again: its process group was destroyed after a failure."
_NEXT_NO_ALL_TO_ALL = "use all_to_all_single, or install torch 2.12 or newer: before it, gloo has no all_to_all."
_NEXT_NO_SUCH_RANK = (
    "skip that call where there is no neighbor (`if rank + 1 < world_size`), or use a ring: (rank + 1) % world_size."
)
_NEXT_NO_SUCH_ROOT = "pass a rank from 0 to world_size - 1 as src or dst; check how that number is computed."
_NEXT_NOT_OF_GROUP = (
    "pass a rank of the group: src and dst are global ranks, group_src and group_dst are ranks within the group."
)
_NEXT_WHOSE_LIST = "pass the list only on the rank given as dst (gather) or src (scatter), and None on all other ranks."
_NEXT_PORT = "use a free port: set another MASTER_PORT (or init_method), or end the process that uses this one."
_NEXT_UNREACHABLE = (
    "check that rank 0 is running and that all ranks have the same MASTER_ADDR and MASTER_PORT (or init_method). No "
    "process is listening at this address."
)
_NEXT_CLIENTS = "start all world_size ranks, and let each of them join: some did not reach the rendezvous in time."
_NEXT_BARRIER = (
    "make sure that the ranks named in the error reach monitored_barrier, or call monitored_barrier with a longer "
    "timeout."
)
_NEXT_NO_GPU = "use the CPU: torch finds no usable GPU here. Create tensors without .cuda() and device='cuda'."
_NEXT_NO_NCCL = 'use backend="gloo": NCCL needs an NVIDIA GPU for each rank.'
_NEXT_PICKLE = (
    "define the function or class at the top level of a module: pickle cannot serialize a lambda, or what is defined "
    "inside a function."
)
_NEXT_IMPORT = (
    "put the function into a .py file and import it: a spawned process cannot see the functions of a notebook."
)
_NEXT_GPU_MEMORY = (
    "use a smaller batch or model, or one GPU per rank (`nvidia-smi` shows which processes use its memory)."
)
_NEXT_MEMORY = "use smaller tensors or batches, or fewer ranks: each rank needs memory for its own copies."
_NEXT_LOADER = "use num_workers=0, so that the rank itself raises the error. A killed worker often ran out of memory."
_NEXT_NO_PROMPT = "remove breakpoint(), or run this where a person can answer: in JupyterLab, IPython or a terminal."
_NEXT_FOR_WORDS = {
    "breakpoint() cannot ask": _NEXT_NO_PROMPT,
    "breakpoint() works only in the rank": "use num_workers=0, or call breakpoint() in the rank itself.",
    "EADDRINUSE": _NEXT_PORT,
    "Address already in use": _NEXT_PORT,
    "while trying to connect to": _NEXT_UNREACHABLE,
    "failed to connect to any network address": _NEXT_UNREACHABLE,
    "waiting for clients": _NEXT_CLIENTS,
    "failed to pass monitoredBarrier": _NEXT_BARRIER,
    "timed out in monitoredBarrier": _NEXT_BARRIER,
    "Torch not compiled with CUDA enabled": _NEXT_NO_GPU,
    "Found no NVIDIA driver": _NEXT_NO_GPU,
    "No CUDA GPUs are available": _NEXT_NO_GPU,
    "NCCL is only supported with GPUs": _NEXT_NO_NCCL,
    "requires at least one CUDA device": _NEXT_NO_NCCL,
    "doesn't have NCCL built in": _NEXT_NO_NCCL,
    "Can't pickle": _NEXT_PICKLE,
    "Can't get local object": _NEXT_PICKLE,
    "Can't get attribute": _NEXT_IMPORT,
    "CUDA out of memory": _NEXT_GPU_MEMORY,
    "DataLoader worker (pid": _NEXT_LOADER,
    "there is no rank": _NEXT_NO_SUCH_RANK,
    "invalid root rank": _NEXT_NO_SUCH_ROOT,
    "is not part of group": _NEXT_NOT_OF_GROUP,
    "must NOT be specified on non-": _NEXT_WHOSE_LIST,
    "gloo does not support alltoall": _NEXT_NO_ALL_TO_ALL,
    "No backend type associated with device type": _NEXT_NO_BACKEND,
    "is not initialized in the world group map": _NEXT_OLD_GROUP,
    "destination rank should not be the same": _NEXT_TO_ITSELF,
    "source rank should not be the same": _NEXT_TO_ITSELF,
    "DDP expects same model across all ranks": _NEXT_SAME_MODEL,
    "appears not to match sizes of the same param": _NEXT_SAME_MODEL,
}


_OF_TORCH = ("DistNetworkError", "DistStoreError", "DistBackendError")
_UNUSED = "Expected to have finished reduction in the prior iteration"
_WITHOUT_GRADIENT = re.compile(r"Parameter(s| indices) which did not receive grad for rank \d+: ([^\n]+)")
_OUT_OF_MEMORY = (  # in Python, torch and C++, and what a thread or a library says when it cannot start
    "MemoryError",
    "allocate memory",
    "Unable to allocate",
    "bad_alloc",
    "start new thread",
    "Thread creation failed",
    "failed to map segment",
    "Resource temporarily unavailable",
)


def what_next(how: Raised | Died, rank: int, limits: Limits, nodes: Mapping[str, str] = MappingProxyType({})) -> str:
    """`nodes`: the other machines on which it happened, each with the command that runs Python there."""
    if isinstance(how, Raised) and (missing := what_is_missing_there(how, nodes)):
        return missing
    told = "\n".join(how.last_words) if isinstance(how, Died) else f"{how.kind}: {how.message}"
    is_out_of_memory = "CUDA out of memory" not in told and any(words in told for words in _OUT_OF_MEMORY)
    if limits.memory_bytes is not None and is_out_of_memory:
        return (
            f"use smaller tensors or batches: the limit on this machine, set by the instructor, is {limits.memory} "
            "per rank, not counting Python and torch."
        )
    if shortage := shortages.next_step(told, how.traceback if isinstance(how, Raised) else ""):
        return shortage
    if is_out_of_memory:
        return _NEXT_MEMORY
    if isinstance(how, Died) and how.signal_name:
        return _NEXT_FOR_SIGNAL.get(how.signal_name, "find out which process sent that signal.")
    if isinstance(how, Died) and not how.is_seen:
        return "look for os._exit() or os.kill() on that rank, or check whether the machine ran out of memory."
    if isinstance(how, Died) and how.lost_node:
        return f"check whether {how.lost_node} is up and its network works, then launch again."
    if isinstance(how, Died) and how.exit_code is None and "ImportError" in told and nodes:
        node, python = next(iter(nodes.items()))
        return f"run {command_there(node, python, 'torch.utils.collect_env')}: it imports torch, too."
    if isinstance(how, Died) and how.exit_code is None:
        return (
            "launch again. If it happens again, launch fewer ranks or close other programs: this machine or container "
            "may be out of memory, or at its limit of processes and threads (ulimit -u)."
        )
    if isinstance(how, Died):
        return "let the function return instead; launch ends the rank's process."
    if how.kind == "CannotTravel":
        return _NEXT_TO_RETURN if how.message.startswith("returned") else _NEXT_TO_LOAD
    if how.kind == "Mismatch":
        return "compare the two calls: all ranks must make the same calls, with the same shapes, dtypes, ops and roots."
    if "default process group twice" in how.message:
        return "remove init_process_group, since launch has joined the group already; or use launch(..., join=False)."
    if _UNUSED in how.message:
        return _about_unused_parameters(how.message)
    if "Connection refused" in how.message and how.kind in ("RuntimeError", *_OF_TORCH):
        return _NEXT_UNREACHABLE
    if found := next((advice for words, advice in _NEXT_FOR_WORDS.items() if words in how.message), ""):
        return found
    if "Unable to find address for" in how.message or "loopback interface is down" in how.message:
        return _about_the_interface(how.message.rpartition(" ")[2])
    if how.kind == "BdbQuit" or (how.kind == "EOFError" and "reading a line" in how.message):
        return "pass what it needs as an argument of launch; a rank has no keyboard."
    return f"fix that line; `error.traceback({rank})` shows the full stack."


def _about_unused_parameters(message: str) -> str:
    """Torch gives their names only in debug mode, else their positions in model.parameters()."""
    found = dict(_WITHOUT_GRADIENT.findall(message))
    if "s" in found:
        return f"{_NEXT_UNUSED} No gradient for: {found['s'].strip()}."
    if " indices" not in found:
        return _NEXT_UNUSED
    numbers = found[" indices"].replace("...", " ...").split()
    return (
        f"{_NEXT_UNUSED} No gradient for number {', '.join(numbers)} of list(model.named_parameters()), counted from "
        "0; with TORCH_DISTRIBUTED_DEBUG=INFO torch gives the names."
    )


def _about_the_interface(name: str) -> str:
    """The launcher uses loopback. Another name was set by the function itself."""
    if name.isalnum() and name not in ("lo", "lo0"):
        there = ", ".join(interface for _, interface in socket.if_nameindex())
        return (
            f"do not set GLOO_SOCKET_IFNAME in the function that you launch: it names {name}, but this machine has the "
            f"interfaces {there}."
        )
    return "run `ip link set lo up`: the loopback interface, which connects the ranks, is down."
