"""Inside a rank: observe functional collectives, which use the group without the methods of ProcessGroup.

DTensor, torch.compile's code, and users of torch.distributed._functional_collectives call them.
"""

from __future__ import annotations

from sys import _getframe
from time import perf_counter
from typing import Any

from ddp_lessons.run.recording.callers import who_called
from ddp_lessons.run.recording.joined_groups import described
from ddp_lessons.run.recording.recorder import Call, Recorder

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
WAITS = ("wait_tensor", "wait_tensors")


class Noting:
    """A proxy of an operator: its calls are recorded, everything else is the operator's own."""

    def __init__(self, recorder: Recorder, name: str, original: Any) -> None:
        from torch.compiler import is_compiling

        self._recorder, self._name, self._original, self._is_compiling = recorder, name, original, is_compiling
        self._arguments = [argument.name for argument in original.default._schema.arguments]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def __eq__(self, other: object) -> bool:
        """Hash like the operator itself: torch keeps tables of operators, such as those of CommDebugMode."""
        return self._original is (other._original if isinstance(other, Noting) else other)

    def __hash__(self) -> int:
        return hash(self._original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_compiling():  # tracing is not a call
            return self._original(*args, **kwargs)
        _, frame = who_called(_getframe(1))
        call = Call(self._name, OPERATIONS[self._name], "", frame, perf_counter())
        try:
            self._take_down(call, dict(zip(self._arguments, args, strict=False), **kwargs))
        except Exception:  # any argument: let torch itself report what is wrong with it
            return self._original(*args, **kwargs)
        self._recorder.note(call)
        try:
            answer = self._original(*args, **kwargs)
        except BaseException as error:
            call.failed(error)
            raise
        call.issued = perf_counter()
        self._recorder.gap_clock.free(call.issued)
        works_in_place = self._name.endswith("_")  # otherwise the memory is new, and its calls are of older tensors
        for memory in dict.fromkeys(map(_memory_of, _each(answer))):
            earlier = self._recorder.by_memory.get(memory, []) if works_in_place else []
            self._recorder.by_memory[memory] = [*earlier, call]
        return answer

    def _take_down(self, call: Call, given: dict[str, Any]) -> None:
        group, operator = given["group_name"], given.get("reduce_op")
        name = group if isinstance(group, str) else group.group_name
        call.group = self._recorder.unique(name)
        if call.group not in self._recorder.groups:
            self._recorder.groups[call.group] = described(_group_of(name))
        call.home = self._recorder.groups[call.group]
        call.measure(next(iter(given.values())))
        call.root = given.get("src")
        call.operator = _operator_number(operator) if operator is not None else None


class NotingTheWait(Noting):
    def __call__(self, tensor: Any) -> Any:
        """For one tensor or several. Torch waits for all calls started on their memory, even on other parts of it."""
        if self._is_compiling():
            return self._original(tensor)
        recorder = self._recorder
        started = [call for one in _each(tensor) for call in recorder.by_memory.pop(_memory_of(one), ())]
        calls = [call for call in started if call.end is None]  # a call with several tensors may be over with the first
        call = calls[0] if calls else None  # a blocked thread is found by this variable
        waited = perf_counter()
        recorder.gap_clock.held(waited)
        for one in calls:
            one.waited = waited
        try:
            answer = self._original(tensor)
        except BaseException as error:
            for one in calls:
                one.failed(error)
            raise
        end = perf_counter()
        recorder.gap_clock.free(end)
        for one in calls:
            one.end = end
        for other in recorder.under_way.values():
            other.work = None  # started without this operator, but maybe waited for with it
            recorder.lent.forget(other)
        del call
        return answer


def _each(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


def _memory_of(tensor: Any) -> int:
    """A number for the memory of a tensor: autograd passes it on to other Python objects."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (AttributeError, NotImplementedError):  # not a tensor, or one without its own memory
        return id(tensor)


def _group_of(name: str) -> Any:
    from torch._C._distributed_c10d import _resolve_process_group

    return _resolve_process_group(name)  # type: ignore[arg-type]


def _operator_number(operator: Any) -> int:
    from torch.distributed import ReduceOp

    return int(getattr(ReduceOp, operator.upper())) if isinstance(operator, str) else hash(operator)
