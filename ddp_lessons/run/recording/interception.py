"""Inside a rank: observe every call of torch.distributed, whatever code makes it and by whatever name.

All of torch's Python functions, and all code built on them, call the methods of two classes written in C++:
ProcessGroup, which starts an operation, and Work, which waits for it. These methods are replaced once, before any
function of a learner runs. DistributedDataParallel calls its group from C++ and would be missed: it gets a Python
stand-in, which passes each call on to the group.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence
from sys import _getframe
from time import perf_counter
from typing import Any

from ddp_lessons.record.event import POINT_TO_POINT
from ddp_lessons.run.recording import functional_collectives, joined_groups
from ddp_lessons.run.recording.callers import is_called_directly, who_called
from ddp_lessons.run.recording.recorder import Call, Recorder, flat, name_of_operator, values_of

# operation -> the methods of ProcessGroup that start it, in older and newer releases of torch
_METHODS = {
    "send": ("send",),
    "recv": ("recv", "recv_anysource"),
    "broadcast": ("broadcast",),
    "all_reduce": ("allreduce", "allreduce_coalesced"),
    "reduce": ("reduce",),
    "all_gather": (
        "allgather",
        "_allgather_base",
        "allgather_coalesced",
        "allgather_into_tensor_coalesced",
        "all_gather_single",
        "all_gather_single_coalesced",
    ),
    "gather": ("gather", "gather_single", "gather_into_tensor"),
    "scatter": ("scatter",),
    "reduce_scatter": (
        "reduce_scatter",
        "_reduce_scatter_base",
        "reduce_scatter_tensor_coalesced",
        "reduce_scatter_single",
        "reduce_scatter_single_coalesced",
    ),
    "all_to_all": ("alltoall", "alltoall_base", "all_to_all_single"),
    "barrier": ("barrier",),
    "monitored_barrier": ("monitored_barrier",),
}
_OUTPUTS_FIRST = ("all_gather", "gather", "scatter", "reduce_scatter", "all_to_all")  # then what the rank passes
_WITH_ROOT = ("broadcast", "reduce", "scatter", "gather")
_WITH_OPERATOR = ("reduce", "all_reduce", "reduce_scatter")
_PARTS_OF_ANOTHER = {"new_group", "new_subgroups", "init_process_group", "destroy_process_group", "split_group"}
_WAITING_BY_THEMSELVES = {"send", "recv", "send_object_list", "recv_object_list"}
_ASKING_FOR_THE_END = ("get_future", "get_future_result", "result", "is_success", "exception", "synchronize")
_HANDED_ON = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allgather": "all_gather",
    "broadcast": "broadcast",
    "barrier": "barrier",
}
_FROM_CPP = "DistributedDataParallel"

recorder = Recorder()
_originals: list[tuple[Any, str, Any]] = []
_stand_ins: dict[str, Any] = {}


def install() -> None:
    """Record from now on. Call it after torch.distributed is imported and before it is used."""
    import torch
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d
    from torch.distributed import distributed_c10d

    import ddp_lessons.older_torch  # noqa: F401  before a learner's function calls a collective by its newer name

    for operation, names in _METHODS.items():
        for name in names:
            _replace(c10d.ProcessGroup, name, functools.partial(_recorded, operation, name))
    _replace(c10d.Work, "wait", _noting_the_wait)
    _replace(c10d.Work, "is_completed", _noting_completion)
    for name in _ASKING_FOR_THE_END:
        _replace(c10d.Work, name, _noting_interest)
    _replace(distributed_c10d, "_new_group_with_tag", functools.partial(joined_groups.noting_a_new_one, recorder))
    _replace(distributed_c10d, "_process_group_name", functools.partial(joined_groups.noting_the_name, recorder))
    for module in (dist, distributed_c10d):
        _replace(module, "init_process_group", functools.partial(joined_groups.noting_the_first, recorder))
    operators = torch.ops._c10d_functional
    for name in functional_collectives.OPERATIONS:
        _replace(operators, name, functools.partial(functional_collectives.Noting, recorder, name))
    for name in functional_collectives.WAITS:
        _replace(operators, name, functools.partial(functional_collectives.NotingTheWait, recorder, name))
    for name in ("Reducer", "_broadcast_coalesced", "_verify_params_across_processes"):
        _replace(dist, name, _with_stand_in)


def uninstall() -> None:
    """Undo it: restore torch's own methods."""
    while _originals:
        setattr(*_originals.pop())


def forget_groups() -> None:
    """Forget all groups: the next ones get the same names and count their calls from 0."""
    recorder.forget()
    _stand_ins.clear()


def _replace(owner: Any, name: str, wrap: Callable[[Any], Any]) -> None:
    original = getattr(owner, name, None)
    if original is not None:  # torch renames some of them between releases
        _originals.append((owner, name, vars(owner)[name]))
        setattr(owner, name, wrap(original))


def _recorded(operation: str, name: str, original: Any) -> Any:
    """A method of ProcessGroup that records its calls. `name` is for a call that no function of torch made."""
    is_message = operation in POINT_TO_POINT

    @functools.wraps(original)
    def method(group: Any, *args: Any, **kwargs: Any) -> Any:
        begin = perf_counter()
        function, frame = who_called(_getframe(1))
        if function in _PARTS_OF_ANOTHER:
            return original(group, *args, **kwargs)
        call = Call(function or name, operation, recorder.unique(group.group_name), frame, begin)
        recorder.note(call)
        given = (*args, *kwargs.values()) if kwargs else args
        try:  # noqa: SIM105  suppress() takes longer
            _take_down(call, group, given)
        except Exception:  # any argument: let torch itself report what is wrong with it
            pass
        if is_message and (refusal := joined_groups.no_such_peer(call)):
            call.error = f"ValueError: {refusal}"
            raise ValueError(refusal)
        if operation == "monitored_barrier":  # it waits before it returns
            call.waited, call.patience_seconds = begin, joined_groups.shortest_limit(given)
        try:
            work = original(group, *args, **kwargs)
        except BaseException as error:
            call.failed(error)
            raise
        call.issued = perf_counter()
        recorder.gap_clock.free(call.issued)
        if work is None:
            call.end = call.issued
        elif name == _FROM_CPP:  # which waits in C++, too
            _note_end_from_afar(call, work, given)
        else:
            recorder.under_way[id(work)] = call
            is_asynchronous = function not in _WAITING_BY_THEMSELVES if is_message else _is_asynchronous(given)
            if is_asynchronous:
                _expect_the_end(call, name, work, given)
            else:  # a group's own method, which no function of torch called, doesn't wait
                call.is_blocking = bool(function)
        return work

    return method


def _take_down(call: Call, group: Any, given: Sequence[Any]) -> None:
    """Only numbers: keeping torch's objects would cost more than everything else."""
    home = recorder.groups.get(call.group)
    if home is None:
        home = recorder.groups[call.group] = joined_groups.described(group)
    call.home, operation = home, call.operation
    if operation in ("barrier", "monitored_barrier"):
        return
    position = int(operation in _OUTPUTS_FIRST)
    brought = given[position]
    if type(brought) is list and len(brought) == 1 and type(brought[0]) is not list:  # nearly always
        tensor = brought[0]
        call.shape, call.dtype, call.bytes, call.tensors = tensor.shape, tensor.dtype, tensor.nbytes, 1
    else:
        call.measure(brought, given[0])
    options = given[position + 1] if len(given) > position + 1 else None
    if operation in POINT_TO_POINT:
        call.tag = given[-1]
        call.peer = given[1] if len(given) == 3 else None  # a recv from any rank has only a tag
    elif operation == "all_to_all":
        call.parts = _parts_of(len(home.ranks), *given)
    elif operation in _WITH_ROOT:
        call.root = getattr(options, "rootRank", options)
    if operation in _WITH_OPERATOR:
        operator = given[-1] if type(options) is int else options  # reduce(tensor, root, op)
        call.operator = hash(getattr(operator, "reduceOp", operator)) if operator is not None else 0
    if home.is_mixed:
        call.is_on_gpu = any(tensor.is_cuda for tensor in flat(given[0]))
    if recorder.keeps_values:
        call.values = values_of(brought) if operation != "recv" else None
        call.outputs = given[0] if operation != "send" else None


def _parts_of(
    ranks: int, outputs: Any, inputs: Any, expected: Sequence[int] = (), sent: Sequence[int] = (), *rest: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many bytes an all_to_all sends to each rank, and expects from each."""
    if isinstance(inputs, list):
        return tuple(one.nbytes for one in inputs), tuple(one.nbytes for one in outputs)
    return _bytes_by_rank(ranks, inputs, sent), _bytes_by_rank(ranks, outputs, expected)


def _bytes_by_rank(ranks: int, tensor: Any, rows: Sequence[int]) -> tuple[int, ...]:
    if not rows:  # even split
        return (tensor.nbytes // ranks,) * ranks
    of_a_row = tensor.nbytes // max(1, tensor.shape[0])
    return tuple(of_a_row * int(count) for count in rows)


def _is_asynchronous(given: Sequence[Any]) -> bool:
    return bool(given) and getattr(given[-1], "asyncOp", False)


def _expect_the_end(call: Call, name: str, work: Any, given: Sequence[Any]) -> None:
    """A non-blocking call needs a wait(), and its tensors must not change before that."""
    tensors, outputs = flat(given[0]) if given else [], []
    if call.operation not in POINT_TO_POINT:
        _note_end_from_afar(call, work, given)
        if not call.tensors or name.endswith("coalesced") or name_of_operator(call.operator) == "avg":
            tensors = []  # torch itself counts what it does to these
        elif call.operation in _OUTPUTS_FIRST:
            tensors, outputs = flat(given[1]), tensors
        else:
            outputs = tensors
    if not is_called_directly(_getframe(2)):
        return  # torch's own code has other ways to wait
    call.work = weakref.ref(work)
    with contextlib.suppress(Exception):  # other kinds of tensors, whose changes cannot be observed
        recorder.lent.lend(call, tensors, outputs)


def _noting_the_wait(original: Any) -> Any:
    @functools.wraps(original)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        call = recorder.under_way.pop(id(work), None)  # a blocked thread is found by this variable
        if call is None:
            return original(work, *args, **kwargs)
        call.work = None
        recorder.lent.settle(call)
        if args or kwargs:
            call.patience_seconds = joined_groups.shortest_limit((*args, *kwargs.values()))
        call.waited = perf_counter()
        recorder.gap_clock.held(call.waited)
        try:
            answer = original(work, *args, **kwargs)
        except BaseException as error:
            call.failed(error)
            raise
        finally:
            recorder.gap_clock.free(perf_counter())
        _complete(call, work)
        recorder.lent.look()
        return answer

    return wait


def _noting_completion(original: Any) -> Any:
    @functools.wraps(original)
    def is_completed(work: Any) -> Any:
        answer = original(work)
        if answer and (call := recorder.under_way.get(id(work))) is not None:
            recorder.lent.settle(call)
            call.work = None
            _complete(call, work)  # it may still be waited for
        return answer

    return is_completed


def _noting_interest(original: Any) -> Any:
    """Other ways to query the end, which do not need a wait()."""

    @functools.wraps(original)
    def asked(work: Any, *args: Any, **kwargs: Any) -> Any:
        if (call := recorder.under_way.get(id(work))) is not None:
            call.work = None
            recorder.lent.forget(call)
        return original(work, *args, **kwargs)

    return asked


def _complete(call: Call, work: Any) -> None:
    if call.end is None:
        call.end = perf_counter()
    if call.outputs is not None:
        call.received, call.outputs = values_of(call.outputs), None
    if call.peer is None and call.operation == "recv":
        call.peer = work._source_rank()


def _note_end_from_afar(call: Call, work: Any, given: Sequence[Any]) -> None:
    """torch's own thread reports the end of a call that runs in the background."""
    if given and any(tensor.is_cuda for tensor in flat(given[0])):
        return  # on a GPU the future is done as soon as the work is queued

    def note(_: object) -> None:
        _complete(call, work)  # the end does not mean that wait() was called: call.work stays as it is
        recorder.seen_from_afar.pop(id(call), None)

    recorder.seen_from_afar[id(call)] = call
    try:
        work.get_future().add_done_callback(note)
    except RuntimeError:  # not every backend has futures
        recorder.seen_from_afar.pop(id(call))


def _with_stand_in(original: Any) -> Any:
    """A C++ function that gets a group among its arguments, and calls it unobserved."""
    from torch._C._distributed_c10d import ProcessGroup

    def replaced(value: object) -> object:
        if type(value) is not ProcessGroup:
            return value
        known = _stand_ins.get(value.group_name)
        if known is None or known.group is not value:
            # kept here, because C++ keeps only its own part of the object
            known = _stand_ins[value.group_name] = _stand_in_class(ProcessGroup)(value)
        return known

    @functools.wraps(original, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        return original(*map(replaced, args), **{name: replaced(value) for name, value in kwargs.items()})

    return call


@functools.cache
def _stand_in_class(process_group: Any) -> Any:
    import torch

    def handing_on(name: str) -> Any:
        original = getattr(process_group, name)
        method = _recorded(_HANDED_ON[name], _FROM_CPP, getattr(original, "__wrapped__", original))
        # a compiled model's buckets come here, too, and must not be traced
        return torch.compiler.disable(lambda self, *args: method(self.group, *args))

    class StandIn(process_group):  # type: ignore[misc]
        def __init__(self, group: Any) -> None:
            super().__init__(group.rank(), group.size())
            self.group = group

        def getBackendName(self) -> str:
            return "recorded"  # with a known name torch would look for that backend's C++ object

    for name in _HANDED_ON:
        if hasattr(process_group, name):
            setattr(StandIn, name, handing_on(name))
    return StandIn
