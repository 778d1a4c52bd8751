"""Inside a rank: tensors in use by a non-blocking call, and whether they were changed before its wait().

torch counts the changes of a tensor. gloo's writes are not counted, so a higher count is a change by the learner. A
view shares its count with all views of the same tensor: only a copy of a few elements reveals a change of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_lessons.run.recording.recorder import Call

MOST_VALUES = 64  # elements of a tensor that are compared one by one
_MOST_LOOKED_AFTER = 100  # checked at each wait; more are checked only at their own wait
_WRITTEN_BY_TORCH = ("all_reduce", "broadcast", "reduce", "recv")


class LentTensors:
    """The tensors of all running calls. `call.lent` has each with its version, and a copy if it is a view."""

    def __init__(self) -> None:
        self._calls: dict[int, Call] = {}

    def lend(self, call: Call, tensors: Sequence[Any], outputs: Sequence[Any]) -> None:
        is_written = call.operation in _WRITTEN_BY_TORCH
        written = set() if is_written else {_memory(one) for one in outputs}
        for tensor in tensors:
            is_view = tensor._is_view()
            if _memory(tensor) not in written and not (is_view and (is_written or tensor.numel() > MOST_VALUES)):
                call.lent += ((tensor, tensor._version, tensor.detach().clone() if is_view else None),)
                self._calls[id(call)] = call

    def look(self) -> None:
        """Another call of this rank has ended: a tensor that is unchanged now was not changed before that."""
        now = perf_counter()
        for call in list(self._calls.values()) if len(self._calls) <= _MOST_LOOKED_AFTER else ():
            if not _has_changed(call):
                call.untouched = now

    def settle(self, call: Call) -> None:
        """Its wait() was called, or the function is over."""
        if self._calls.pop(id(call), None) is not None:
            call.remark = "changed" if _has_changed(call) else ""
            call.lent = ()

    def settle_all(self) -> None:
        for call in list(self._calls.values()):
            # a send whose handle was dropped may never arrive: this matters to the rank that waits for it
            if call.operation == "send" and call.work is not None and call.work() is None:
                self.forget(call)
            else:
                self.settle(call)

    def forget(self, call: Call) -> None:
        """Its end is queried in a way that cannot be observed."""
        if self._calls.pop(id(call), None) is not None:
            call.lent = ()

    def forget_all(self) -> None:
        for call in list(self._calls.values()):
            self.forget(call)


def _has_changed(call: Call) -> bool:
    return any(
        tensor._version != version
        and (copy is None or not bool(((copy == tensor) | (copy != copy)).all()))  # nan differs from itself
        for tensor, version, copy in call.lent
    )


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)
