"""Inside a rank: tensors in use by a non-blocking call, and whether they were changed before its wait().

torch counts the changes of a tensor. gloo's writes are not counted, so a higher count is a change by the learner. A
change through a view, `.data` or NumPy is not counted here: only a copy of a few elements reveals it, and only if gloo
itself does not write.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

MOST_VALUES = 64  # elements of a tensor that are compared one by one
_MOST_LOOKED_AFTER = 100  # checked at each wait; more are checked only at their own wait
_WRITTEN_BY_TORCH = ("all_reduce", "broadcast", "reduce", "recv")


class LentTensors:
    """The tensors of all running calls. `call.lent` has each with its version, and a copy if it is a view."""

    def __init__(self) -> None:
        self._calls: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._calls)

    def lend(self, call: Any, tensors: Sequence[Any], outputs: Sequence[Any]) -> None:
        written = {_memory(one) for one in outputs} if call.operation not in _WRITTEN_BY_TORCH else set()
        lent = []
        for tensor in tensors:
            is_view = tensor._is_view()
            if _memory(tensor) in written or (is_view and not _tells_by_values(call, tensor)):
                continue
            lent.append((tensor, tensor._version, tensor.detach().clone() if is_view else None))
        if lent:
            call.lent = tuple(lent)
            self._calls[id(call)] = call

    def look(self) -> None:
        """Another call of this rank has ended: a tensor that is unchanged now was not changed before that."""
        now = perf_counter()
        for call in list(self._calls.values()) if len(self._calls) <= _MOST_LOOKED_AFTER else ():
            if not _has_changed(call):
                call.untouched = now

    def settle(self, call: Any) -> None:
        """Its wait() was called."""
        if self._calls.pop(id(call), None) is not None:
            call.remark = "changed" if _has_changed(call) else ""
            call.lent = ()

    def settle_all(self) -> None:
        """The function is over; a tensor without a wait() may have been changed, too."""
        for call in list(self._calls.values()):
            if _has_changed(call) and not _is_send_let_go(call):
                call.remark = "changed"
        self.forget_all()

    def forget(self, call: Any) -> None:
        """Its end is queried in a way that cannot be observed."""
        if self._calls.pop(id(call), None) is not None:
            call.lent = ()

    def forget_all(self) -> None:
        for call in list(self._calls.values()):
            self.forget(call)


def _tells_by_values(call: Any, view: Any) -> bool:
    """A view shares its count with all views of the same tensor."""
    return call.operation not in _WRITTEN_BY_TORCH and view.numel() <= MOST_VALUES


def _has_changed(call: Any) -> bool:
    return any(
        tensor._version != version
        and (copy is None or not bool(((copy == tensor) | (copy != copy)).all()))  # nan differs from itself
        for tensor, version, copy in call.lent
    )


def _is_send_let_go(call: Any) -> bool:
    """Its handle was dropped, so its message may never arrive: this matters to the rank that waits for it."""
    return call.operation == "send" and call.work is not None and call.work() is None


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage()._cdata)
