"""What to do next, for each way in which a rank can fail."""

from __future__ import annotations

import socket

from ddp_lessons.run.launcher import shortages
from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Raised

_NEXT_TO_LOAD = "ranks load modules from files: put it into the notebook's folder, or define it in a cell."
_NEXT_TO_RETURN = "return plain data instead: numbers, tensors, lists, dicts, a state_dict()."
_NEXT_FOR_SIGNAL = {
    "SIGKILL": "when memory runs out, the system kills a process like this: try fewer ranks or smaller data.",
    "SIGSEGV": "compiled code touched memory that is not its own: look at the call on that line.",
    "SIGABRT": "compiled code gave up; its last words say why. Often tensors of different shape or dtype met.",
}
_NEXT_TO_ITSELF = "a rank cannot send to itself, or receive from itself: look at how the other rank is worked out."
_NEXT_SAME_MODEL = "build the same model on every rank: the same layers, sizes and dtypes."
_NEXT_UNUSED = (
    "on some rank a parameter took no part in the loss, and its gradient never came: use every parameter on every "
    "rank, or DistributedDataParallel(..., find_unused_parameters=True)."
)
_NEXT_OLD_GROUP = (
    "it was made in a process group that is gone since a failure: wrap the model again, or make the group again."
)
_NEXT_NO_SUCH_RANK = (
    "the last rank has no rank + 1, and rank 0 no rank - 1: leave that call out there (`if rank + 1 < world_size`), or "
    "go round in a ring: (rank + 1) % world_size."
)
_NEXT_NO_SUCH_ROOT = "src and dst name one of the ranks 0 to world_size - 1: look at how that number is worked out."
_NEXT_NOT_OF_GROUP = (
    "name a rank that is in the group: src and dst count over all ranks of the world, group_src and group_dst within "
    "the group."
)
_NEXT_WHOSE_LIST = (
    "only the rank that dst (of a gather) or src (of a scatter) names passes the list: look at which rank that is, and "
    "let the others pass None."
)
_NEXT_FOR_WORDS = {
    "there is no rank": _NEXT_NO_SUCH_RANK,
    "invalid root rank": _NEXT_NO_SUCH_ROOT,
    "is not part of group": _NEXT_NOT_OF_GROUP,
    "must NOT be specified on non-": _NEXT_WHOSE_LIST,
    "No backend type associated with device type": _NEXT_OLD_GROUP,
    "is not initialized in the world group map": _NEXT_OLD_GROUP,
    "Expected to have finished reduction in the prior iteration": _NEXT_UNUSED,
    "destination rank should not be the same": _NEXT_TO_ITSELF,
    "source rank should not be the same": _NEXT_TO_ITSELF,
    "DDP expects same model across all ranks": _NEXT_SAME_MODEL,
    "appears not to match sizes of the same param": _NEXT_SAME_MODEL,
}


_OUT_OF_MEMORY = (  # in Python, in torch, in C++, and where a thread, or a library, no longer finds a place
    "MemoryError",
    "allocate memory",
    "Unable to allocate",
    "bad_alloc",
    "start new thread",
    "Thread creation failed",
    "failed to map segment",
    "Resource temporarily unavailable",
)


def what_next(how: Raised | Died, rank: int, limits: Limits) -> str:
    told = "\n".join(how.last_words) if isinstance(how, Died) else f"{how.kind}: {how.message}"
    if limits.memory_bytes is not None and any(words in told for words in _OUT_OF_MEMORY):
        return (
            f"the instructor of this machine allows {limits.memory} per rank, beside Python and torch: take smaller "
            "tensors or batches, or ask for more."
        )
    if shortage := shortages.next_step(told):
        return shortage
    if isinstance(how, Died) and how.signal_name:
        return _NEXT_FOR_SIGNAL.get(how.signal_name, "find out who sent that signal.")
    if isinstance(how, Died) and not how.is_seen:
        return "look for a call of os._exit() or os.kill() on that rank, or whether the machine ran out of memory."
    if isinstance(how, Died) and how.exit_code is None:
        return (
            "launch again. If it comes back, this machine or container may have run out of memory, or of the processes "
            "and threads that a user may have (ulimit -u): launch fewer ranks, or close other programs."
        )
    if isinstance(how, Died):
        return "let the function return instead; a rank's process is ended for it."
    if how.kind == "CannotTravel":
        return _NEXT_TO_RETURN if how.message.startswith("returned") else _NEXT_TO_LOAD
    if "default process group twice" in how.message:
        return "launch has joined the group already; a function that joins by itself wants launch(..., join=False)."
    if found := next((advice for words, advice in _NEXT_FOR_WORDS.items() if words in how.message), ""):
        return found
    if "Unable to find address for" in how.message or "loopback interface is not up" in how.message:
        return _about_the_interface(how.message.rpartition(" ")[2])
    if how.kind == "BdbQuit" or (how.kind == "EOFError" and "reading a line" in how.message):
        return "a rank has no keyboard; pass what it needs as an argument of launch."
    return f"repair that line; traceback({rank}) of this exception shows the whole way there."


def _about_the_interface(name: str) -> str:
    """The launcher chooses loopback. Another name comes from the function itself."""
    if name.isalnum() and name not in ("lo", "lo0"):
        there = ", ".join(interface for _, interface in socket.if_nameindex())
        return f"GLOO_SOCKET_IFNAME is {name}, but the interfaces of this machine are {there}: do not set it in launch."
    return "the loopback interface, over which ranks talk, is not up: `ip link set lo up` brings it up."
