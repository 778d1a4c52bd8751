"""Inside a rank: what is recorded of each call of torch.distributed, from start to end.

Recording must cost almost nothing, so that it can always be on: a call stores plain attributes of its tensors, and what
takes longer (names of operators, global ranks) is computed when the records leave the rank.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import JOINING_VARIABLES, Gap, MeetingPoint, Recorded, Standing, meeting_point
from ddp_lessons.run.recording.lent_tensors import MOST_VALUES, LentTensors
from ddp_lessons.run.wire.messages import HEAVY_IMPORTS

MOST_CALLS = 100_000
NO_LIMIT = float("inf")
_DROPPED_AT_ONCE = 1000
_SECONDS_FOR_LATE_ENDS = 0.05
_SHORTEST_GAP_SECONDS = 1e-4  # shorter ones are not measured: reading the clock takes up to three microseconds
_AS_STORED = (
    *("call", "operation", "group", "tag", "tensors", "bytes", "values", "received"),
    *("begin", "issued", "waited", "end", "error", "parts", "is_blocking"),
)


@dataclass(frozen=True)
class Group:
    """What is stored about a group when it is first used."""

    ranks: tuple[int, ...]  # of the world
    backend: str  # for tensors on the CPU, and for those on a GPU
    backend_on_gpu: str
    patience_seconds: float

    @property
    def is_mixed(self) -> bool:
        return self.backend != self.backend_on_gpu


NO_GROUP = Group((), "", "", NO_LIMIT)


class Call:
    """One call while it runs. Common values are class attributes, which is faster."""

    code: CodeType | None = None
    instruction: int = 0
    peer: int | None = None  # in the numbers of the group, as are roots
    root: int | None = None
    operator: int | None = None  # torch's number of SUM, MAX and so on: their hash, at a tenth of the cost
    new_ranks: tuple[int, ...] = ()  # the ranks of a new group
    tag: int = 0
    shape: tuple[int, ...] = ()
    tensors: int = 0
    dtype: Any = None
    bytes: int = 0
    values: tuple[float, ...] | None = None
    received: tuple[float, ...] | None = None
    outputs: Any = None
    waited: float | None = None
    end: float | None = None
    error: str = ""
    is_on_gpu: bool = False
    is_blocking: bool = False
    home: Group = NO_GROUP
    patience_seconds: float = NO_LIMIT  # after which torch itself ends this call
    work: Any = None  # a weak reference to the handle of a non-blocking call, until its end is queried
    lent: tuple[tuple[Any, int, Any], ...] = ()  # tensors of a non-blocking call, if a change can be detected
    untouched: float | None = None  # at this moment it was still unchanged
    remark: str = ""
    parts: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # bytes to and from each rank, if these may differ

    def __init__(self, call: str, operation: str, group: str, frame: FrameType | None, begin: float) -> None:
        self.call = call
        self.operation = operation
        self.group = group
        if frame is not None:
            self.code, self.instruction = frame.f_code, frame.f_lasti
        self.thread = threading.current_thread()
        self.begin = self.issued = begin

    def failed(self, error: BaseException) -> None:
        self.error = f"{type(error).__name__}: {error}"

    def measure(self, brought: Any, outputs: Any = None) -> None:
        """Store the tensors that this rank passes; if there are none, the shape of what it receives."""
        tensors = flat(brought)
        self.tensors = len(tensors)
        self.bytes = sum([tensor.nbytes for tensor in tensors])
        for first in (tensors or flat(outputs))[:1]:
            self.shape, self.dtype = first.shape, first.dtype

    @property
    def ranks(self) -> tuple[int, ...]:
        return self.new_ranks or self.home.ranks

    @property
    def meeting_point(self) -> MeetingPoint:
        return meeting_point(self.operation, self.group, self.ranks, _global_rank(self.ranks, self.peer), self.tag)


class GapClock:
    """How long the main thread had a core between its calls. Call `held` when a call blocks it, `free` when it goes on.

    A thread that sleeps, waits for data, or has to share the core, does not have it. Only the main thread's clock is
    read: gloo's threads handle messages while a rank sleeps.
    """

    def __init__(self, most: int) -> None:
        self._gaps: deque[Gap] = deque(maxlen=most)
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """The main thread is about to run the function."""
        self._gaps.clear()
        self._main = threading.get_ident()
        self._since, self._clock = now, time.thread_time()

    def held(self, now: float) -> None:
        if now - self._since >= _SHORTEST_GAP_SECONDS and threading.get_ident() == self._main:
            clock = time.thread_time()
            self._gaps.append((self._since, now, clock - self._clock))
            self._since, self._clock = now, clock

    def free(self, now: float) -> None:
        if now - self._since >= _SHORTEST_GAP_SECONDS and threading.get_ident() == self._main:
            self._since, self._clock = now, time.thread_time()

    def gaps(self, now: float) -> tuple[Gap, ...]:
        """The newest gaps, including the current one. Any thread may call it."""
        since, before = self._since, self._clock
        clock = self.main_seconds()
        return (*self._gaps, *([] if clock is None else [(since, now, clock - before)]))

    def main_seconds(self) -> float | None:
        """The seconds that the main thread had a core. None on macOS, which can't read the clock of another thread."""
        if threading.get_ident() == self._main:
            return time.thread_time()
        if not hasattr(time, "pthread_getcpuclockid"):
            return None
        return time.clock_gettime(time.pthread_getcpuclockid(self._main))


class Recorder:
    """The newest calls of this rank since the function started."""

    def __init__(self) -> None:
        self.keeps_values = False
        self.began = 0.0
        self.gap_clock = GapClock(MOST_CALLS)
        self.calls: deque[Call] = deque()
        self.count = 0
        self.before: Counter[MeetingPoint] = Counter()  # calls that are no longer kept
        self.under_way: dict[int, Call] = {}  # by the id of its Work
        self.by_memory: dict[int, list[Call]] = {}  # of functional collectives, which return tensors and no Work
        self.seen_from_afar: dict[int, Call] = {}  # another thread reports the end of these
        self.lent = LentTensors()
        self.groups: dict[str, Group] = {}  # by name
        self.unnamed: Call | None = None  # the newest group that is being created
        self.home = ""  # the world that the launch itself joined
        self.worlds: dict[str, tuple[int, int]] = {}  # all worlds joined, in order: the rank in it, and its size
        self.variables: tuple[tuple[str, str], ...] = ()  # JOINING_VARIABLES when the function started

    def forget(self) -> None:
        """All groups are gone, with their calls."""
        self._forget_calls()
        self.before.clear()
        self.groups.clear()
        self.worlds.clear()

    def begin(self, keeps_values: bool) -> None:
        self.keeps_values = keeps_values
        self.before.update(_meeting_points(self.calls))
        self._forget_calls()
        self.variables = tuple((name, os.environ[name]) for name in JOINING_VARIABLES if name in os.environ)
        self.began = time.perf_counter()
        self.gap_clock.begin(self.began)

    def _forget_calls(self) -> None:
        for calls in (self.calls, self.under_way, self.by_memory, self.seen_from_afar):
            calls.clear()
        self.lent.forget_all()
        self.count = 0

    def note(self, call: Call) -> None:
        """Keep a call. Beyond the limit, only their number is kept."""
        self.gap_clock.held(call.begin)
        self.calls.append(call)
        self.count += 1
        if len(self.calls) > MOST_CALLS + _DROPPED_AT_ONCE:
            self.before.update(_meeting_points([self.calls.popleft() for _ in range(_DROPPED_AT_ONCE)]))

    def finish(self) -> Recorded:
        """All calls, after the function. Another thread may report an end a moment later."""
        patience_ends = time.perf_counter() + _SECONDS_FOR_LATE_ENDS
        while self.seen_from_afar and time.perf_counter() < patience_ends:
            time.sleep(0.001)
        self.lent.settle_all()
        return self.recorded()

    def recorded(self, newest: int = MOST_CALLS, standing: Standing | None = None) -> Recorded:
        """The records so far, as plain data. Any thread may call it."""
        kept, count, before, until = list(self.calls), self.count, Counter(self.before), time.perf_counter()
        older, calls = kept[: max(0, len(kept) - newest)], kept[-newest:]
        before.update(_meeting_points(older))
        return Recorded(
            self.began,
            tuple(map(told, calls)),
            dropped=max(0, count - len(calls)),
            until=until,
            before=tuple(before.items()),
            standing=standing,
            is_out_of_sight=self.is_out_of_sight,
            heavy_imports=tuple(name for name in HEAVY_IMPORTS if name in sys.modules),
            worlds=tuple((world, *place) for world, place in list(self.worlds.items())),
            gaps=self.gap_clock.gaps(until)[-newest:],
            variables=self.variables,
        )

    @property
    def is_out_of_sight(self) -> bool:
        """It makes calls that are not recorded: then nothing can be concluded."""
        compiled = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})  # it may be partly imported
        return bool(compiled.get("frames"))

    def name_of_world(self, place: str) -> str:
        """The name of a world joined at this address; ranks may join there again after they left it."""
        again = sum(world.partition(" again")[0] == place for world in self.worlds)
        return place if not again else f"{place} again {again}"

    def unique(self, group_name: str) -> str:
        """Torch reuses the names of groups in each world."""
        world = next(reversed(self.worlds), self.home)
        return group_name if world == self.home else f"{group_name}, world {world}"


def told(call: Call) -> Event:
    """As plain data, which may leave this process."""
    file, line, function = _place(call.code, call.instruction)
    return Event(
        rank=-1,  # the notebook knows which rank it is
        group_ranks=call.ranks,
        peer=_global_rank(call.ranks, call.peer),
        root=_global_rank(call.ranks, call.root),
        reduce_op=name_of_operator(call.operator),
        shape=tuple(call.shape),
        dtype=_name_of_dtype(call.dtype),
        file=file,
        line=line,
        function=function,
        thread=call.thread.name,
        backend=call.home.backend_on_gpu if call.is_on_gpu else call.home.backend,
        remark=_remark(call),
        untouched=call.untouched if call.remark == "changed" else None,
        **{name: getattr(call, name) for name in _AS_STORED},
    )


def _remark(call: Call) -> str:
    """What is wrong with a non-blocking call, as far as its own rank can see."""
    if call.remark or call.work is None or call.error:
        return call.remark
    return "let go" if call.work() is None else "not waited for"


def _meeting_points(calls: Iterable[Call]) -> list[MeetingPoint]:
    return [call.meeting_point for call in calls if call.waited is not None or not call.error]


def values_of(some: Any) -> tuple[float, ...] | None:
    """The elements of small tensors, one after the other."""
    tensors = flat(some)
    if not tensors or sum(tensor.numel() for tensor in tensors) > MOST_VALUES:
        return None
    return tuple(number for tensor in tensors for number in tensor.detach().flatten().tolist())


def flat(some: Any) -> list[Any]:
    """Torch takes a tensor, a list of tensors, or a list of lists."""
    if type(some) is not list:
        return list(some) if isinstance(some, tuple) else [some] if hasattr(some, "nbytes") else []
    if some and isinstance(some[0], (list, tuple)):
        return [tensor for inner in some for tensor in inner]
    return some


@functools.cache
def _place(code: CodeType | None, instruction: int) -> tuple[str, int, str]:
    """File, line and function."""
    if code is None:
        return "", 0, ""
    lines = (line for begin, end, line in code.co_lines() if begin <= instruction < end)
    return code.co_filename, next(lines, None) or 0, code.co_name


@functools.cache
def _name_of_dtype(dtype: object) -> str:
    return "" if dtype is None else str(dtype).removeprefix("torch.")


@functools.cache
def name_of_operator(number: int | None) -> str | None:
    operators: Any = sys.modules["torch.distributed"].ReduceOp.RedOpType
    return None if number is None else str(operators(number).name).lower()


def _global_rank(ranks: tuple[int, ...], number: int | None) -> int | None:
    return ranks[number] if number is not None and 0 <= number < len(ranks) else number
