"""Ranks that stay alive between cells: `ranks["x"]` reads their variable, `ranks["x"] = 3` sets it on all of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ddp_lessons.record.line_names import name_place
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import told_by_rank
from ddp_lessons.run.nodes.hosts import Nodes
from ddp_lessons.run.rank import run_cell
from ddp_lessons.run.wire.messages import CELL_OF_RANKS
from ddp_lessons.run.workers import Workers

T = TypeVar("T")
_PATIENCE_SECONDS = 60.0
_numbers = itertools.count(1)
_UNKNOWN_NAME = re.compile(r"(raised NameError: name '(\w+)' is not defined.*?Next: )", re.S)
_OF_CELLS = (  # the words of a failed launch, and those for a cell
    (r"launch\(\.\.\., timeout_seconds=([\d.]+)\)", r"%%ranks --timeout \1"),
    ("as an argument to launch", 'with ranks["name"] = value'),
    ("let the function return instead; launch ends the rank's process", "let the cell run to its end instead"),
    ("then launch again", "then run %ranks restart"),
    (_UNKNOWN_NAME, r'\1if the notebook has \2, copy it to the ranks with ranks["\2"] = \2; otherwise, '),
)


class Refused(Exception):
    """A notebook shows only the message."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class NoRanks(Refused):
    pass


class StandingRanks:
    """Ranks that start when they are first needed."""

    def __init__(self) -> None:
        self._workers: Workers | None = None
        self.results: Results[Any] | None = None  # of the last cell, for `show` and `results.lines`
        self.failure: WorkerFailed | WorkersStuck | None = None  # the last one
        self.on: Nodes | None = None  # where they run; None for this machine

    @property
    def world_size(self) -> int:
        """The number of ranks: 0 before the first cell and after `%ranks stop`."""
        return self._workers.world_size if self._workers is not None else 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each rank; "" is this machine."""
        return self._workers.nodes if self._workers is not None else ()

    def start(self, world_size: int, on: Nodes | None = None) -> None:
        """Start this many new ranks; stop the old ones, with all their variables."""
        if self._workers is not None:
            self._workers.close()
        new = Workers(world_size, timeout_seconds=_PATIENCE_SECONDS, standing=True, on=on)
        self._workers, self.results, self.failure, self.on = new, None, None, on

    def stop(self) -> None:
        workers, self._workers, self.results, self.on = self._workers, None, None, None
        if workers is not None:
            workers.close()

    def run(
        self, source: str, only: Collection[int] | None = None, *, timeout_seconds: float | None, quiet: bool
    ) -> list[list[run_cell.Shown]]:
        """Run the source of a cell on all ranks, or on some. Returns what each of them shows."""
        file = f"{CELL_OF_RANKS}{next(_numbers)}>"
        _check_grammar(source, file)
        options: dict[str, Any] = {"only": only, "timeout_seconds": timeout_seconds, "quiet": quiet}
        self.results = None
        try:
            self.results = self._there().run(run_cell.run_cell, source, file, **options)
        except (WorkerFailed, WorkersStuck) as failure:
            self.results, self.failure = failure.results, failure
            failure.args = (_for_cells(str(failure)),)
            raise
        return [shown if shown is not NO_VALUE else [] for shown in self.results]

    def debug(self, rank: int) -> None:
        """Open the debugger where this rank raised an exception."""
        if self._there().run(run_cell.post_mortem, only=[rank], quiet=True)[rank] is False:
            print(f"rank {rank} has raised no exception")

    def names(self) -> list[dict[str, str]]:
        """The variables of each rank, with their types."""
        return list(self._ask(run_cell.names_held))

    def completions(self, text: str) -> list[str]:
        """Completions of this text, from the variables of rank 0; none while the ranks are busy."""
        try:
            return list(self._ask(run_cell.completions, text, only=[0])[0])
        except Exception:
            return []

    def __getitem__(self, expression: str) -> list[Any]:
        """The value on each rank."""
        _check_grammar(expression, "<expression>", "eval")
        found = self._ask(run_cell.get, expression)
        faults = {rank: value.words for rank, value in enumerate(found) if isinstance(value, run_cell.Fault)}
        if faults:
            raise Refused(f"{told_by_rank(faults, '; ')}. Next: list the variables of each rank with %ranks status")
        return list(found)

    def __setitem__(self, name: str, value: object) -> None:
        """Set this variable to the same value or function on every rank."""
        try:
            self._ask(run_cell.put, name, value)
        except TypeError as refusal:
            raise Refused(str(refusal).replace("argument 2 after world_size", f'ranks["{name}"]')) from None

    def __len__(self) -> int:
        return self.world_size

    def __repr__(self) -> str:
        return f"<{self.world_size} persistent ranks>"

    def _ask(self, function: Callable[..., T], *args: object, only: Collection[int] | None = None) -> Results[T]:
        return self._there().run(function, *args, only=only, quiet=True)

    def _there(self) -> Workers:
        if self._workers is None:
            raise NoRanks("no ranks are running. To start four, begin a cell with %%ranks 4")
        if self._workers.why_closed:
            raise NoRanks(
                f"the ranks were stopped: {self._workers.why_closed}. Next: start new ones with %ranks restart"
            )
        return self._workers


def _for_cells(text: str) -> str:
    """A failure in the words of `%%ranks`."""
    for of_launch, of_cells in _OF_CELLS:
        text = re.sub(of_launch, of_cells, text, count=1)
    return text


def _check_grammar(source: str, file: str, mode: str = "exec") -> None:
    """Find syntax errors before the ranks run the cell. (IPython would show them with the stack of this package.)"""
    try:
        compile(source, file, mode)
    except SyntaxError as error:
        number = error.lineno or 0
        text = "".join(source.splitlines()[number - 1 : number]).rstrip()  # not all of these errors have a text
        place = f"{name_place(file, number)}:   " if mode == "exec" else ""
        column = len(place) + (error.offset or 1) - 1 - (len(text) - len(text.lstrip()))
        raise Refused(f"{type(error).__name__}: {error.msg}\n    {place}{text.lstrip()}\n    {' ' * column}^") from None
