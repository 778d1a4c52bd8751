"""Random distributed programs that are correct by construction.

A program is made turn by turn, in one order for all ranks. A blocking step waits only for what the others do in the
same turn or before, and calls that go on in the background are begun before their turn ends. So whichever rank is
furthest behind can always move, whatever the timing: no program can stand still, and none counts on buffers.

Try many:  python tests/random_programs.py --programs 2000 --seed 5
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from old_torch import HAS_ALL_TO_ALL
from program_collectives import REDUCE_OPS
from program_steps import (
    WORLD,
    Batch,
    Collective,
    Compute,
    Content,
    Hear,
    Message,
    NewGroup,
    Program,
    Sleep,
    Step,
    Tell,
    Wait,
)

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int32", "int64")
WITH_ROOT = (
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
)
WITH_REDUCE_OP = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_single")
ONLY_BLOCKING = (
    "monitored_barrier",
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
)
WITHOUT_TENSOR = ("barrier", *ONLY_BLOCKING)
COLLECTIVES = (
    *("all_reduce", "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_single", "gather", "scatter"),
    *("reduce_scatter", "reduce_scatter_single", *(["all_to_all"] if HAS_ALL_TO_ALL else [])),
    *("all_to_all_single", "all_to_all_uneven"),
    *WITHOUT_TENSOR,
)


def random_program(seed: int, *, unseen_waits: bool = True) -> Program:
    """The same program for the same seed. Unseen waits: for the store, a thread, a future, or by asking again."""
    return _Maker(seed, unseen_waits).program()


def reduce_ops_for(dtype: str) -> list[str]:
    """Those that give an exact answer, so that it can be compared."""
    if dtype in INTEGERS:
        return [name for name in REDUCE_OPS if name != "AVG"]
    exact = ["SUM", "MIN", "MAX", "AVG"]
    return [*exact, "PRODUCT"] if dtype in ("float32", "float64") else exact


class _Maker:
    def __init__(self, seed: int, unseen_waits: bool) -> None:
        self.seed = seed
        self.unseen_waits = unseen_waits
        self.random = Random(seed)
        self.world_size = self.random.choice((2, 2, 3, 3, 4, 4, 4, 5, 6, 8))
        self.ranks = range(self.world_size)
        self.steps: list[list[Step]] = [[] for _ in self.ranks]
        self.groups = {WORLD: tuple(self.ranks)}
        self.under_way: list[dict[int, bool]] = [{} for _ in self.ranks]  # handle -> tells of itself when it is over
        self.handles = itertools.count()
        self.turn = 0
        self.large = self.random.random() < 0.06  # the next tensor is
        self.slow = self.random.random() < 0.06  # the next pause is
        kinds: list[tuple[Callable[[], None], int]] = [
            (self.pair, 5),
            (self.several_under_way, 4),
            (self.from_anyone, 2),
            (self.ring, 2),
            (self.exchange, 1),
            (self.collective, 9),
            (self.new_groups, 2),
            (self.pause, 3),
            (self.settle, 3),
            (self.signal, 1 if unseen_waits else 0),
        ]
        self.kinds = [kind for kind, _ in kinds]
        self.weights = [weight for _, weight in kinds]

    def program(self) -> Program:
        for _ in range(self.random.randint(6, 18)):
            (kind,) = self.random.choices(self.kinds, self.weights)
            kind()
            self.turn += 1
        for rank in self.ranks:
            self.wait_for_some(rank, len(self.under_way[rank]))
        return Program(self.seed, tuple(tuple(steps) for steps in self.steps), self.groups)

    def content(self, dtypes: Sequence[str] = (*FLOATS, *INTEGERS, "bool")) -> Content:
        dtype = self.random.choice(dtypes)
        if self.large:
            self.large = False
            return Content((self.random.randint(1_000_000, 10_000_000 // self.world_size),), "float32")
        elements = int(10 ** self.random.choice((self.random.uniform(0, 1.5), self.random.uniform(0, 4.5))))
        shape = self.random.choice(((elements,), (elements, 2), (1, elements, 1)))
        return Content(shape, dtype, sliced=self.random.random() < 0.2)

    def a_group(self, at_least: int = 2) -> str:
        return self.random.choice([name for name, ranks in self.groups.items() if len(ranks) >= at_least])

    def two_of(self, group: str) -> tuple[int, int]:
        source, target = self.random.sample(self.groups[group], 2)
        return source, target

    def handle(self, rank: int, tells: bool = False) -> int:
        handle = next(self.handles)
        self.under_way[rank][handle] = tells
        return handle

    def message(self, rank: int, how: str, peer: int | None, tag: int, group: str, content: Content) -> Message:
        handle = self.handle(rank) if how in ("isend", "irecv", "thread") else None
        return Message(self.turn, how, peer, tag, group, content, handle)

    def pair(self) -> None:
        """A send and its recv, each blocking or not."""
        group = self.a_group()
        source, target = self.two_of(group)
        how = self.random.choice(("send", "send", "isend", "thread" if self.unseen_waits else "isend"))
        # the order of threads is nobody's promise, so a thread's message has a tag of its own
        tag = 1000 + self.turn if how == "thread" else self.random.choice((0, 0, 0, 1, 7))
        content = self.content()
        takes = replace(content, shape=(content.elements,)) if self.random.random() < 0.2 else content
        send = self.message(source, how, target, tag, group, content)
        self.steps[source].append(replace(send, delay=self.seconds()) if how == "thread" else send)
        how = self.random.choice(("recv", "recv", "irecv"))
        self.steps[target].append(self.message(target, how, source, tag, group, takes))

    def several_under_way(self) -> None:
        """Messages between any ranks, begun in any order. One side at most is blocking, and that comes later."""
        begun: list[list[Step]] = [[] for _ in self.ranks]
        blocking: list[list[Step]] = [[] for _ in self.ranks]
        for number in range(self.random.randint(2, 5)):
            group = self.a_group()
            source, target = self.two_of(group)
            tag, content = 100 * (self.turn + 1) + number, self.content()
            hows = self.random.choice((("isend", "irecv"), ("send", "irecv"), ("isend", "recv")))
            for rank, how, peer in zip((source, target), hows, (target, source), strict=True):
                place = blocking if how in ("send", "recv") else begun
                place[rank].append(self.message(rank, how, peer, tag, group, content))
        for rank in self.ranks:
            self.random.shuffle(begun[rank])
            self.random.shuffle(blocking[rank])
            self.steps[rank] += begun[rank] + blocking[rank]

    def from_anyone(self) -> None:
        """The messages are alike and have a tag of their own: in which order they come makes no difference."""
        group = self.a_group()
        target, *others = self.random.sample(self.groups[group], len(self.groups[group]))
        sources = others[: self.random.randint(1, len(others))]
        tag, content = 10_000 + self.turn, self.content()
        times = self.random.choice((1, 1, 2))
        for source in sources:
            how = self.random.choice(("send", "isend"))
            self.steps[source] += [self.message(source, how, target, tag, group, content) for _ in range(times)]
        how = self.random.choice(("recv", "recv", "irecv"))
        for _ in range(times * len(sources)):
            self.steps[target].append(self.message(target, how, None, tag, group, content))

    def exchange(self) -> None:
        """batch_isend_irecv: each to all others, in any order."""
        group, content = self.a_group(), self.content()
        tag, ranks = 30_000 + self.turn, self.groups[group]
        for rank in ranks:
            others = [other for other in ranks if other != rank]
            parts = [
                Message(self.turn, how, other, tag, group, content) for other in others for how in ("isend", "irecv")
            ]
            self.random.shuffle(parts)
            self.steps[rank].append(Batch(self.turn, tuple(parts), self.handle(rank)))

    def ring(self) -> None:
        """batch_isend_irecv: each to the next, from the one before."""
        group = self.a_group()
        order = self.random.sample(self.groups[group], len(self.groups[group]))
        content, tag = self.content(), self.random.choice((0, 20_000 + self.turn))
        for before, rank, after in zip([order[-1], *order], order, [*order[1:], order[0]], strict=False):
            send = Message(self.turn, "isend", after, tag, group, content)
            receive = Message(self.turn, "irecv", before, tag, group, content)
            parts = (send, receive) if self.random.random() < 0.5 else (receive, send)
            self.steps[rank].append(Batch(self.turn, parts, self.handle(rank)))

    def collective(self) -> None:
        group, name = self.a_group(at_least=1), self.random.choice(COLLECTIVES)
        reduces = name in WITH_REDUCE_OP
        content = Content()
        if name not in WITHOUT_TENSOR:
            content = self.content((*FLOATS, *INTEGERS) if reduces else (*FLOATS, *INTEGERS, "bool"))
        root = self.random.choice(self.groups[group]) if name in WITH_ROOT else None
        reduce_op = self.random.choice(reduce_ops_for(content.dtype)) if reduces else None
        is_async = name not in ONLY_BLOCKING and self.random.random() < 0.35
        tells = not name.startswith("reduce_scatter")  # gloo does that one in two parts, the second in wait()
        for rank in self.groups[group]:
            handle = self.handle(rank, tells) if is_async else None
            self.steps[rank].append(Collective(self.turn, name, group, content, root, reduce_op, handle))

    def new_groups(self) -> None:
        """One or two after each other by all ranks; or each rank makes the one that it is in."""
        if self.random.random() < 0.3 and self.world_size > 2 and set(self.groups) == {WORLD}:
            # torch names a group after how many the rank made before: with these first, all ranks count alike
            shuffled = self.random.sample(self.ranks, self.world_size)
            cut = self.random.randint(1, self.world_size - 1)
            parts = (tuple(sorted(shuffled[:cut])), tuple(sorted(shuffled[cut:])))
            for name, part in zip((f"{self.turn}a", f"{self.turn}b"), parts, strict=True):
                self.groups[name] = part
                for rank in part:
                    self.steps[rank].append(NewGroup(self.turn, name, part, local=True))
            return
        for letter in "ab"[: self.random.randint(1, 2)]:
            part = tuple(sorted(self.random.sample(self.ranks, self.random.randint(1, self.world_size))))
            self.groups[f"{self.turn}{letter}"] = part
            for rank in self.ranks:
                self.steps[rank].append(NewGroup(self.turn, f"{self.turn}{letter}", part))

    def pause(self) -> None:
        for rank in self.random.sample(self.ranks, self.random.randint(1, 2)):
            if self.random.random() < 0.5:
                self.steps[rank].append(Sleep(self.turn, self.seconds()))
            else:
                self.steps[rank].append(Compute(self.turn, int(20_000_000 * self.seconds())))

    def seconds(self) -> float:
        """Mostly short; once in a slow program, longer than anybody could take for a standstill."""
        longest = 1.2 if self.slow else 0.03
        self.slow = False
        return round(self.random.uniform(longest / 2, longest), 4)

    def signal(self) -> None:
        source, target = self.two_of(WORLD)
        self.steps[source].append(Tell(self.turn, f"signal {self.turn}"))
        self.steps[target].append(Hear(self.turn, f"signal {self.turn}"))

    def settle(self) -> None:
        for rank in self.ranks:
            self.wait_for_some(rank, self.random.randint(0, len(self.under_way[rank])))

    def wait_for_some(self, rank: int, count: int) -> None:
        handles = self.random.sample(sorted(self.under_way[rank]), count)
        for handle in handles:
            tells = self.under_way[rank].pop(handle)
            hows = ("wait", "wait", "wait", "poll", "future") if tells and self.unseen_waits else ("wait",)
            how = self.random.choice(hows)
            self.steps[rank].append(Wait(self.turn, handle, how))


if __name__ == "__main__":
    from program_trials import main

    main()
