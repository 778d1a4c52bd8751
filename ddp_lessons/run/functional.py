"""Inside a rank: see the functional collectives, which reach the group without the methods of ProcessGroup.

DTensor and torch.compile's code call them, and whoever imports torch.distributed._functional_collectives.
"""

from __future__ import annotations

from sys import _getframe
from time import perf_counter
from typing import Any

from ddp_lessons.run.groups import described
from ddp_lessons.run.recorder import Call, Group, Recorder, who_called

OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "all_reduce_coalesced": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_coalesced": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all_single": "all_to_all",
    "broadcast": "broadcast",
    "broadcast_": "broadcast",
}


class Noting:
    """Stands for an operator: calls of it are noted, everything else is the operator's own."""

    def __init__(self, recorder: Recorder, name: str, original: Any) -> None:
        from torch.compiler import is_compiling

        self._recorder, self._name, self._original, self._is_compiling = recorder, name, original, is_compiling
        self._arguments = [argument.name for argument in original.default._schema.arguments]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_compiling():  # what is traced is no call yet
            return self._original(*args, **kwargs)
        _, frame = who_called(_getframe(1))
        call = Call(self._name, OPERATIONS[self._name], "", frame, perf_counter())
        try:
            self._take_down(call, dict(zip(self._arguments, args, strict=False), **kwargs))
        except Exception:  # whatever was given: torch itself shall say what is wrong with it
            return self._original(*args, **kwargs)
        self._recorder.note(call)
        answer = self._original(*args, **kwargs)
        call.issued = perf_counter()
        for tensor in answer if isinstance(answer, list | tuple) else [answer]:
            self._recorder.under_way[id(tensor)] = call
        return answer

    def _take_down(self, call: Call, given: dict[str, Any]) -> None:
        group = given["group_name"]
        name = group if isinstance(group, str) else group.group_name
        call.group = self._recorder.unique(name)
        if call.group not in self._recorder.groups:
            self._recorder.groups[call.group] = _described(name)
        call.home = self._recorder.groups[call.group]
        call.measure(next(iter(given.values())), None)
        if "reduce_op" in given:
            call.operator = _operator_number(given["reduce_op"])


class NotingTheWait(Noting):
    def __call__(self, tensor: Any) -> Any:
        if self._is_compiling():
            return self._original(tensor)
        call = self._recorder.under_way.pop(id(tensor), None)
        if call is not None:
            call.waited = perf_counter()
        answer = self._original(tensor)
        if call is not None:
            call.end = perf_counter()
        for other in self._recorder.under_way.values():
            other.work = None  # started without this operator, and perhaps waited for with it
        return answer


def _described(name: str) -> Group:
    from torch._C._distributed_c10d import _resolve_process_group

    return described(_resolve_process_group(name))  # type: ignore[arg-type]


def _operator_number(operator: Any) -> int:
    import torch.distributed as dist

    return int(getattr(dist.ReduceOp, operator.upper())) if isinstance(operator, str) else hash(operator)
