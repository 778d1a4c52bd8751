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
from typing import Any, TypeAlias

from ddp_lessons.run.recording import functional_collectives, joined_groups
from ddp_lessons.run.recording.callers import is_called_directly, who_called
from ddp_lessons.run.recording.recorder import Call, Recorder, flat, name_of_operator, values_of

# method of ProcessGroup -> its operation, and which argument has the tensors of this rank
_METHODS = {
    "send": ("send", 0),
    "recv": ("recv", 0),
    "recv_anysource": ("recv", 0),
    "broadcast": ("broadcast", 0),
    "allreduce": ("all_reduce", 0),
    "allreduce_coalesced": ("all_reduce", 0),
    "reduce": ("reduce", 0),
    "allgather": ("all_gather", 1),
    "allgather_coalesced": ("all_gather", 1),
    "allgather_into_tensor_coalesced": ("all_gather", 1),
    "all_gather_single": ("all_gather", 1),
    "all_gather_single_coalesced": ("all_gather", 1),
    "_allgather_base": ("all_gather", 1),
    "gather": ("gather", 1),
    "gather_single": ("gather", 1),
    "gather_into_tensor": ("gather", 1),
    "scatter": ("scatter", 1),
    "reduce_scatter": ("reduce_scatter", 1),
    "reduce_scatter_single": ("reduce_scatter", 1),
    "reduce_scatter_single_coalesced": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1),
    "_reduce_scatter_base": ("reduce_scatter", 1),
    "alltoall": ("all_to_all", 1),
    "alltoall_base": ("all_to_all", 1),
    "all_to_all_single": ("all_to_all", 1),
    "barrier": ("barrier", 0),
    "monitored_barrier": ("monitored_barrier", 0),
}
_PARTS_OF_ANOTHER = {"new_group", "new_subgroups", "init_process_group", "destroy_process_group", "split_group"}
Parts: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
_HANDED_ON = ("allreduce", "allreduce_coalesced", "allgather", "broadcast", "barrier")
_FROM_CPP = "DistributedDataParallel"
_WAITING_BY_THEMSELVES = {"send", "recv", "send_object_list", "recv_object_list"}
_ASKING_FOR_THE_END = ("get_future", "get_future_result", "result", "is_success", "exception", "synchronize")

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

    for name, (operation, brought) in _METHODS.items():
        _replace(c10d.ProcessGroup, name, functools.partial(_recorded, operation, brought, name))
    _replace(c10d.Work, "wait", _noting_the_wait)
    _replace(c10d.Work, "is_completed", _noting_completion)
    for name in _ASKING_FOR_THE_END:
        _replace(c10d.Work, name, _noting_interest)
    _replace(distributed_c10d, "_new_group_with_tag", functools.partial(joined_groups.noting_a_new_one, recorder))
    _replace(distributed_c10d, "_process_group_name", functools.partial(joined_groups.noting_the_name, recorder))
    for module in (dist, distributed_c10d):
        _replace(module, "init_process_group", functools.partial(joined_groups.noting_the_first, recorder))
    for name in functional_collectives.OPERATIONS:
        _replace(torch.ops._c10d_functional, name, functools.partial(functional_collectives.Noting, recorder, name))
    for name in functional_collectives.WAITS:
        _replace(
            torch.ops._c10d_functional, name, functools.partial(functional_collectives.NotingTheWait, recorder, name)
        )
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


def _recorded(operation: str, position: int, name: str, original: Any) -> Any:
    """A method of ProcessGroup that records its calls. `name` is for a call that no function of torch made."""
    has_root = operation in ("broadcast", "reduce", "scatter", "gather")
    has_operator = operation in ("reduce", "all_reduce", "reduce_scatter")
    is_message = operation in ("send", "recv")
    is_exchange = operation == "all_to_all"

    @functools.wraps(original)
    def method(group: Any, *args: Any, **kwargs: Any) -> Any:
        begin = perf_counter()
        function, frame = who_called(_getframe(1))
        if function in _PARTS_OF_ANOTHER:
            return original(group, *args, **kwargs)
        call = Call(function or name, operation, recorder.unique(group.group_name), frame, begin)
        recorder.note(call)
        try:
            with functional_collectives.unseen_by_modes():
                take_down(call, group, (*args, *kwargs.values()) if kwargs else args)
        except Exception:  # any argument: let torch itself report what is wrong with it
            pass
        if is_message and (refusal := joined_groups.no_such_peer(call)):
            call.error = f"ValueError: {refusal}"
            raise ValueError(refusal)
        if name == "monitored_barrier":  # it waits before it returns
            call.waited = begin
        try:
            work = original(group, *args, **kwargs)
        except BaseException as error:
            call.error = f"{type(error).__name__}: {error}"
            raise
        call.issued = perf_counter()
        recorder.gap_clock.free(call.issued)
        if work is None:
            call.end = call.issued
        elif name == _FROM_CPP:  # which waits in C++, too
            _note_end_from_afar(call, work, args)
        else:
            recorder.under_way[id(work)] = call
            if is_message:
                call.is_blocking = function in _WAITING_BY_THEMSELVES
                if not call.is_blocking:
                    _expect_a_wait(call, work, args[0], ())
            elif getattr(kwargs.get("opts", args[-1] if args else None), "asyncOp", False):
                _note_end_from_afar(call, work, args)
                is_counted = name.endswith("coalesced") or name_of_operator(call.operator) == "avg"  # by torch itself
                is_lent = call.tensors and not is_counted
                _expect_a_wait(call, work, *(flat(args[place]) for place in (position, 0)) if is_lent else ((), ()))
            else:
                call.is_blocking = bool(function)  # else a group's own method was called, which gives a Work
        return work

    def take_down(call: Call, group: Any, given: tuple[Any, ...]) -> None:
        """Only numbers: keeping torch's objects would cost more than everything else."""
        if call.group not in recorder.groups:
            recorder.groups[call.group] = joined_groups.described(group)
        call.home = recorder.groups[call.group]
        if operation in ("barrier", "monitored_barrier"):
            return
        brought = given[position]
        if type(brought) is list and len(brought) == 1 and type(brought[0]) is not list:  # nearly always
            tensor = brought[0]
            call.shape, call.dtype, call.bytes, call.tensors = tensor.shape, tensor.dtype, tensor.nbytes, 1
        else:
            call.measure(brought, given[0])
        if is_message:
            call.tag = given[-1]
            call.peer = given[1] if len(given) == 3 else None  # a recv from any rank has only a tag
        if is_exchange:
            call.parts = parts_of(len(call.home.ranks), *given)
        if call.home.is_mixed:
            call.is_on_gpu = any(tensor.is_cuda for tensor in flat(given[0]))
        options = given[position + 1] if len(given) > position + 1 else None
        if has_root:
            call.root = getattr(options, "rootRank", options)
        if has_operator:
            operator = given[-1] if has_root and isinstance(options, int) else options  # reduce(tensor, root, op)
            call.operator = hash(getattr(operator, "reduceOp", operator)) if operator is not None else 0
        if recorder.keeps_values:
            call.values = values_of(given[position]) if operation != "recv" else None
            call.outputs = given[0] if operation != "send" else None

    return method


def _noting_the_wait(original: Any) -> Any:
    @functools.wraps(original)
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        call = recorder.under_way.pop(id(work), None)
        if call is None:
            return original(work, *args, **kwargs)
        call.work = None
        recorder.lent.settle(call)
        call.waited = perf_counter()
        recorder.gap_clock.held(call.waited)
        try:
            answer = original(work, *args, **kwargs)
        except BaseException as error:
            call.error = f"{type(error).__name__}: {error}"
            raise
        finally:
            recorder.gap_clock.free(perf_counter())
        _complete(call, work)
        if recorder.lent:
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


def _expect_a_wait(call: Call, work: Any, tensors: Any, outputs: Any) -> None:
    """A non-blocking call needs a wait(), and its tensors must not change before that."""
    if not is_called_directly(_getframe(2)):
        return  # torch's own code has other ways to wait
    call.work = weakref.ref(work)
    with contextlib.suppress(Exception):  # other kinds of tensors, whose changes cannot be observed
        recorder.lent.lend(call, tensors, outputs)


def _complete(call: Call, work: Any) -> None:
    if call.end is None:
        call.end = perf_counter()
    if call.outputs is not None:
        call.received, call.outputs = values_of(call.outputs), None
    if call.peer is None and call.operation == "recv":
        call.peer = work._source_rank()


def _note_end_from_afar(call: Call, work: Any, given: tuple[Any, ...]) -> None:
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
        operation, position = _METHODS[name]
        original = getattr(process_group, name)
        method = _recorded(operation, position, _FROM_CPP, getattr(original, "__wrapped__", original))
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


def parts_of(ranks: int, outputs: Any, inputs: Any, expected: Any = (), sent: Any = (), *rest: Any) -> Parts:
    """How many bytes an all_to_all sends to each rank, and expects from each."""
    if isinstance(inputs, list):
        return tuple(one.nbytes for one in inputs), tuple(one.nbytes for one in outputs)
    return _bytes_by_rank(ranks, inputs, sent), _bytes_by_rank(ranks, outputs, expected)


def _bytes_by_rank(ranks: int, tensor: Any, rows: Sequence[int]) -> tuple[int, ...]:
    if not rows:  # even split
        return (tensor.nbytes // ranks,) * ranks
    of_a_row = tensor.nbytes // max(1, tensor.shape[0])
    return tuple(of_a_row * int(count) for count in rows)
