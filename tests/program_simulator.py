"""Plays a program without processes, to know from its steps alone what is wrong with it.

A send ends when its recv was called, a recv when its send was. How long a collective holds a rank is not fixed: a
`strict` machine lets nobody go before all have come, as a program may not count on more; the other one lets each rank
go as soon as any backend could, so that what stands still there stands still everywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from program_steps import Batch, Change, Collective, Hear, Leave, Message, NewGroup, Program, Step, Tell, Wait

_ROOT_GIVES = ("broadcast", "scatter", "broadcast_object_list", "scatter_object_list")
_ROOT_TAKES = ("reduce", "gather", "gather_object")


def faults_of(program: Program, *, strict: bool, hurry: Sequence[int] = ()) -> list[str]:
    """What is wrong with it, nothing if it ends well. Who is first in `hurry` always goes as far as it can."""
    machine = _Machine(program, strict)
    machine.play(hurry or range(program.world_size))
    return machine.faults()


def is_always_wrong(program: Program) -> bool:
    """Also where a recv from anyone takes what comes first."""
    random, ranks = Random(program.seed), range(program.world_size)
    orders = [random.sample(ranks, program.world_size) for _ in range(8 if _takes_from_anyone(program) else 1)]
    return all(faults_of(program, strict=False, hurry=order) for order in orders)


def _takes_from_anyone(program: Program) -> bool:
    return any(step.peer is None for _, _, step in program.all_of(Message))


@dataclass(eq=False)
class _Call:
    """Something begun by one rank that ends when others do their part."""

    rank: int
    step: Message | Collective | NewGroup
    partner: _Call | None = None
    waited: bool = False


@dataclass
class _Meeting:
    """The calls of one collective, or of one group that is made."""

    members: tuple[int, ...]
    calls: dict[int, _Call] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return set(self.calls) >= set(self.members)


class _Machine:
    def __init__(self, program: Program, strict: bool) -> None:
        self.program = program
        self.strict = strict
        self.at = [0] * program.world_size
        self.holding: list[list[_Call]] = [[] for _ in program.steps]
        self.handles: dict[tuple[int, int], list[_Call]] = {}
        self.messages: list[_Call] = []
        self.meetings: dict[object, _Meeting] = {}
        self.meeting_of: dict[_Call, _Meeting] = {}
        self.turns: dict[object, int] = defaultdict(int)
        self.groups: list[set[str]] = [{"world"} for _ in program.steps]
        self.told: set[str] = set()
        self.found: list[str] = []

    def play(self, hurry: Sequence[int]) -> None:
        while any(self.move(rank) for rank in hurry):
            pass

    def move(self, rank: int) -> bool:
        """One step of one rank, if it can make one."""
        if any(not self.may_go_on(call) for call in self.holding[rank]):
            return False
        self.holding[rank] = []
        if self.is_through(rank):
            return False
        step = self.program.steps[rank][self.at[rank]]
        if isinstance(step, Hear) and step.key not in self.told:
            return False
        self.at[rank] += 1
        self.begin(rank, step)
        return True

    def is_through(self, rank: int) -> bool:
        at, steps = self.at[rank], self.program.steps[rank]
        return at == len(steps) or isinstance(steps[at], Leave)

    def begin(self, rank: int, step: Step) -> None:
        if isinstance(step, Tell):
            self.told.add(step.key)
        elif isinstance(step, Change):
            self.found.append(f"rank {rank} changes what it sends")
        elif isinstance(step, NewGroup):
            self.hold(rank, self.make_group(rank, step))
        elif isinstance(step, Wait):
            self.hold(rank, self.handles.get((rank, step.handle), []))
        elif isinstance(step, Message | Batch | Collective):
            calls = self.calls_of(rank, step)
            if step.handle is None:
                self.hold(rank, calls)
            else:
                self.handles[rank, step.handle] = calls

    def hold(self, rank: int, calls: Iterable[_Call]) -> None:
        self.holding[rank] = list(calls)
        for call in self.holding[rank]:
            call.waited = True

    def calls_of(self, rank: int, step: Message | Batch | Collective) -> list[_Call]:
        if isinstance(step, Batch):
            return [call for part in step.parts for call in self.calls_of(rank, part)]
        if step.group not in self.groups[rank]:
            return []
        call = _Call(rank, step)
        if isinstance(step, Message):
            self.post(call, step)
        else:
            self.join(call, (step.group, self.turns[rank, step.group]), self.program.groups[step.group])
            self.turns[rank, step.group] += 1
        return [call]

    def make_group(self, rank: int, step: NewGroup) -> list[_Call]:
        """torch names a group after how many this rank made before it; only its members meet."""
        name = self.turns[rank, "new_group"]
        self.turns[rank, "new_group"] += 1
        self.groups[rank].add(step.name)
        if rank not in step.ranks:
            return []
        call = _Call(rank, step)
        self.join(call, ("new_group", name, step.ranks), step.ranks)
        return [call]

    def join(self, call: _Call, key: object, members: tuple[int, ...]) -> None:
        meeting = self.meeting_of[call] = self.meetings.setdefault(key, _Meeting(members))
        for other in meeting.calls.values():
            if not _alike(call.step, other.step):
                self.found.append(f"rank {call.rank} calls {call.step}, rank {other.rank} {other.step}")
        meeting.calls[call.rank] = call

    def post(self, call: _Call, step: Message) -> None:
        for other in self.messages:
            if other.partner is None and isinstance(other.step, Message) and _meet(call, step, other, other.step):
                call.partner, other.partner = other, call
                ours, theirs = step.content, other.step.content
                if (ours.dtype, ours.elements) != (theirs.dtype, theirs.elements):
                    self.found.append(f"rank {call.rank} has {ours}, rank {other.rank} {theirs}")
                break
        self.messages.append(call)

    def may_go_on(self, call: _Call) -> bool:
        if isinstance(call.step, Message):
            return call.partner is not None
        meeting = self.meeting_of[call]
        if self.strict or isinstance(call.step, NewGroup) or meeting.is_complete:
            return meeting.is_complete
        if call.step.name in _ROOT_GIVES:
            return call.step.root in meeting.calls
        return call.step.name in _ROOT_TAKES and call.step.root != call.rank

    def faults(self) -> list[str]:
        stuck = [rank for rank in range(self.program.world_size) if not self.is_through(rank) or self.holding[rank]]
        unfinished = [f"rank {rank} never gets past step {self.at[rank]}" for rank in stuck]
        alone = [f"nobody meets rank {call.rank} in {call.step}" for call in self.messages if call.partner is None]
        missing = [f"not all come to {m.calls}" for m in self.meetings.values() if not m.is_complete]
        begun = {call for calls in self.handles.values() for call in calls}
        forgotten = [
            f"rank {call.rank} never waits for {call.step}"
            for call in begun
            if not call.waited and not self.may_be_left(call, begun)
        ]
        return self.found + unfinished + alone + missing + forgotten

    def may_be_left(self, call: _Call, begun: set[_Call]) -> bool:
        """Nobody has to wait where nothing is written: for its own message, or a collective that only takes from it."""
        step = call.step
        if isinstance(step, Message):
            return step.is_send
        if not isinstance(step, Collective):
            return False
        if step.name == "barrier":
            return any(other.waited or other not in begun for other in self.meeting_of[call].calls.values())
        is_root = step.root == call.rank
        return is_root if step.name == "broadcast" else step.name in ("reduce", "gather") and not is_root


def _alike(one: Step, other: Step) -> bool:
    if isinstance(one, Collective) and isinstance(other, Collective):
        return _kind(one) == _kind(other)
    return True


def _kind(step: Collective) -> tuple[object, ...]:
    return step.name, step.root, step.reduce_op, step.content.shape, step.content.dtype


def _meet(call: _Call, step: Message, other: _Call, others: Message) -> bool:
    return (
        step.is_send != others.is_send
        and (step.group, step.tag) == (others.group, others.tag)
        and step.peer in (other.rank, None)
        and others.peer in (call.rank, None)
    )
