"""An exercise is one declaration: the solution, the trials, and mistakes as programs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ddp_lessons.check.differences import NothingDone

if TYPE_CHECKING:
    from ddp_lessons.check.report import Report
    from ddp_lessons.check.runs import Case
    from ddp_lessons.run.nodes.hosts import Nodes

Program = Callable[..., Any]
Fields = Mapping[str, Any]  # what matters of one call on one rank, by name
MESSAGES = ("send", "recv", "isend", "irecv", "batch_isend_irecv")


@dataclass(frozen=True)
class Trial:
    """One call on every rank. `make(rank, world_size, chance)` returns the arguments; `chance` differs by rank."""

    make: Callable[[int, int, torch.Generator], tuple[Any, ...]]
    trait: str = ""  # what is new in it: "a tensor with one element"; "" for the plain first one
    smallest_world: int = 1
    largest_world: int = 8
    number: int = 0  # its place among the trials of the exercise

    def arguments(self, rank: int, world_size: int) -> tuple[Any, ...]:
        with torch.random.fork_rng(devices=[]):  # leave the notebook's random state unchanged
            return self.make(rank, world_size, torch.Generator().manual_seed(1000 * self.number + rank))


@dataclass(frozen=True)
class Mistake:
    """A wrong program, and the sentence that reports it; {rank} in it is the first rank with a wrong answer."""

    program: Program
    sentence: str


@dataclass(frozen=True)
class Budget:
    """What may be communicated. All of a launch's data goes through recorded calls, so too little is suspicious too."""

    calls: tuple[str, ...] = ()  # the only ones allowed; (): all
    most: Callable[[Case], int] | None = None  # None: no limit; of bytes, 64 more are small change
    least: float = 0.5  # of what the solution's ranks communicate together
    measured: str = "bytes sent by the busiest rank"  # or "... by all ranks together", "messages of the busiest rank"
    may_send: Callable[[int, int, set[int]], bool] | None = None  # may a rank that sends, in a world, send to these?
    too_much: str = ""  # what to write instead


def returned(program: Program, *arguments: Any) -> Fields:
    """What the function returns; if that is None, its first argument afterwards."""
    given = arguments[0]
    before = given.clone() if isinstance(given, Tensor) else None
    answer = program(*arguments)
    if answer is not None or before is None:
        return {"answer": answer}
    return {"answer": NothingDone(given) if torch.equal(given, before) else given}


@dataclass(eq=False)
class Exercise:
    """Calling it judges an answer: `check.swap(swap)`.

    `call(program, *arguments)` runs in each rank and returns what matters by name; an answer is right if these
    fields equal the solution's, up to a `tolerance` in floats. Where a field depends on all ranks, `together` works
    it out. `hints` has a sentence for each field, or for those that begin so, if no known mistake explains it.
    """

    task: str
    solution: Program
    trials: Sequence[Trial]
    mistakes: Sequence[Mistake] = ()
    call: Callable[..., Fields] = returned
    together: Callable[[Sequence[Fields]], Sequence[Fields]] = list
    hints: Mapping[str, str] = field(default_factory=dict)
    budget: Budget = Budget()
    world_sizes: tuple[int, ...] = (2, 3, 4, 1, 5)  # most mistakes show with two; one rank comes late
    tolerance: float = 0.0
    parameters: tuple[str, ...] = ()  # of the learner's function; (): those of the solution
    methods: tuple[str, ...] = ()  # of a class: those that the learner writes
    result: str = "the answer"  # what to return, in words
    begins_silent: bool = False  # it is given with functions to fill in, and says nothing until then
    wraps_models: bool = False  # in DistributedDataParallel, whose imports take seconds
    name: str = ""

    def __post_init__(self) -> None:
        self.__doc__ = self.task
        self.trials = [replace(one, number=number) for number, one in enumerate(self.trials)]
        self.parameters = self.parameters or tuple(inspect.signature(self.solution).parameters)

    def as_answer(self, program: Program) -> Any:
        """The answer that a learner with this program hands in."""
        return program

    def __call__(self, answer: Any, *, on: Nodes | None = None) -> Report:
        from ddp_lessons.check.dashboard import counted

        return counted(self.name, answer, on, lambda: self.judged(answer))

    def judged(self, answer: Any) -> Report:
        """The report, which is recorded nowhere."""
        from ddp_lessons.check.judgment import examine

        return examine(self, answer)
