"""`%%ranks` runs a cell on persistent ranks, `%ranks` manages them: a thin layer over `StandingRanks`.

`%load_ext ddp_lessons` loads it, and also defines `ranks` in the notebook.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from ddp_lessons.run.debugging.keyboard import why_no_prompt
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.run.launcher.launch_arguments import checked_nodes, checked_timeout, checked_world_size
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.nodes.hosts import NodeLost
from ddp_lessons.run.output.shown_values import bundle_of
from ddp_lessons.run.persistent.persistent_ranks import StandingRanks
from ddp_lessons.run.processes.process_pool import pool
from ddp_lessons.run.processes.process_sources import start_method

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

_WORLD_AT_FIRST = 4
_SOME = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*,?")
_AROUND_COMMAS = re.compile(r"\s*,\s*")
_LAST_WORD = re.compile(r"[\w.]*$")
_ACTIONS = ("status", "stop", "restart", "debug")


@magics_class
class RanksMagics(Magics):
    def __init__(self, shell: Any, ranks: StandingRanks) -> None:
        super().__init__(shell)
        self._ranks = ranks
        self._pythons_debug = shell.find_line_magic("debug")

        self.matchers = _matchers(self._completions)

    @magic_arguments()
    @argument("who", nargs="*", help="4: on four ranks, which start if there are none yet; 0,2 or 1-3: on some of them")
    @argument("--on", metavar="NAME", help="the nodes to start on: a variable, as cluster = Hosts('alpha', 'beta')")
    @argument("--timeout", type=float, metavar="SECONDS", help="time limit of the cell (60)")
    @argument("--quiet", action="store_true", help="show neither their output nor their values")
    @cell_magic
    def ranks(self, line: str, cell: str) -> None:
        """Run the cell on ranks that keep their variables."""
        __tracebackhide__ = True
        asked = parse_argstring(self.ranks, line)
        with _refused_in_a_sentence():
            checked_timeout(asked.timeout)
            only = self._begin(" ".join(asked.who), self._nodes_named(asked.on))
        shown = self._ranks.run(
            "\n" * self._lines_before(cell) + cell, only, timeout_seconds=asked.timeout, quiet=asked.quiet
        )
        if not asked.quiet and (bundle := bundle_of(shown)):
            display(bundle, raw=True)

    @line_magic("ranks")  # type: ignore[arg-type]
    def look_after(self, line: str) -> None:
        """%ranks status, %ranks stop, %ranks restart 2, %ranks debug 2"""
        __tracebackhide__ = True
        action, *rest = line.split() or ["status"]
        if action not in _ACTIONS or len(rest) > (action in ("restart", "debug")):
            raise UsageError("write %ranks status, %ranks stop, %ranks restart, %ranks restart 2 or %ranks debug 2")
        if action == "debug":
            self._debug("".join(rest))
            return
        with _refused_in_a_sentence():
            if action == "restart":
                world_size = _number(rest[0]) if rest else self._ranks.world_size or _world_at_first()
                self._ranks.start(world_size, self._ranks.on)
            elif action == "stop":
                print(self._stopped())
                return
        print(self._status())

    @line_magic
    def debug(self, line: str) -> None:
        """%debug after a failure of a cell on the ranks opens the debugger on the rank that failed."""
        __tracebackhide__ = True
        last = getattr(sys, "last_value", None)
        if last is not None and last is self._ranks.failure:
            self._debug("")
        elif isinstance(last, WorkerFailed | WorkersStuck):
            raise UsageError(
                "the ranks of that launch have ended, with their variables. launch(..., debug=True) opens the debugger "
                "when a rank raises; after a %%ranks cell, %debug opens it"
            )
        else:
            self._pythons_debug(line)

    def _debug(self, rank: str) -> None:
        __tracebackhide__ = True
        if reason := why_no_prompt():
            raise UsageError(f"the debugger cannot ask what to do: {reason}")
        if rank and not (rank.isdecimal() and int(rank) < self._ranks.world_size):
            raise UsageError(f"there is no rank {rank} in a world of {self._ranks.world_size}")
        failure = self._ranks.failure
        self._ranks.debug(int(rank) if rank else failure.rank if failure is not None else 0)

    def stop(self) -> None:
        self._ranks.stop()

    def _stopped(self) -> str:
        there = self._ranks.world_size
        self._ranks.stop()
        return f"stopped {there} rank{'s' * (there > 1)}" if there else self._status()

    def _completions(self, context: CompletionContext) -> list[str]:
        word = _LAST_WORD.search(context.line_with_cursor[: context.cursor_position])
        if not self._ranks.world_size or "%%ranks" not in context.full_text or word is None or not word[0]:
            return []
        return self._ranks.completions(word[0])

    def _nodes_named(self, name: str | None) -> Any:
        """The nodes in this variable of the notebook; None: no variable is named."""
        if name is None:
            return None
        if name not in self.shell.user_ns:  # type: ignore[union-attr]
            raise ValueError(
                f'the notebook has no variable {name}. Next: create it, such as {name} = Hosts("alpha", "beta")'
            )
        return checked_nodes(self.shell.user_ns[name])  # type: ignore[union-attr]

    def _begin(self, who: str, on: Any) -> Sequence[int] | None:
        """Start ranks if there are none. Returns which of them are selected; None: all."""
        there = self._ranks.world_size
        if there and on is not None and on is not self._ranks.on:
            where = f"on {self._ranks.on!r}" if self._ranks.on is not None else "on this machine"
            raise ValueError(f"there are ranks already, {where}; stop them with `%ranks stop` to start on {on!r}")
        if who.isdecimal() and int(who) > 0:
            if there and int(who) != there:
                are = "is 1 rank" if there == 1 else f"are {there} ranks"
                alone = f", or run on rank {who} alone with `%%ranks {who},`" if int(who) < there else ""
                raise ValueError(f"there {are} already, not {who}; restart with `%ranks restart {who}`{alone}")
            if not there:
                self._ranks.start(checked_world_size(int(who), on), on)
            return None
        if not there:
            if who:
                raise ValueError(f"no ranks yet, so none can be selected: start with %%ranks {_WORLD_AT_FIRST}")
            self._ranks.start(_world_at_first(), on)
        return _some(_AROUND_COMMAS.sub(",", who), self._ranks.world_size) if who else None

    def _lines_before(self, body: str) -> int:
        """How many lines of the cell come before its body: there may be others, such as %%time."""
        history: Any = getattr(self.shell, "history_manager", None)
        whole = history.input_hist_raw[-1] if history is not None else ""
        begin = whole.rfind(body.rstrip("\n"))
        return whole[:begin].count("\n") if begin > 0 else 1

    def _status(self) -> str:
        if not self._ranks.world_size:
            return "no ranks are running; start four with a cell that begins with %%ranks 4"
        lines = []
        for rank, (names, node) in enumerate(zip(self._ranks.names(), self._ranks.nodes, strict=True)):
            held = ", ".join(f"{name} ({kind})" for name, kind in names.items()) or "no variables yet"
            lines.append(f"rank {rank}{f' on {node}' if node else ''} | {held}")
        return "\n".join(lines)


def _matchers(names_for: Callable[[CompletionContext], list[str]]) -> list[Any]:
    """For Tab completion. Empty before IPython 8.6, which does not show a matcher the rest of the cell."""
    try:
        from IPython.core.completer import SimpleCompletion, context_matcher
    except ImportError:
        return []

    @context_matcher(identifier="ddp_lessons.ranks")
    def names_on_the_ranks(context: CompletionContext) -> dict[str, Any]:
        return {"completions": [SimpleCompletion(text) for text in names_for(context)], "suppress": False}

    return [names_on_the_ranks]


def load(shell: Any) -> None:
    with contextlib.suppress(ValueError):  # a wrong setting is reported when ranks start
        pool.prepare(_world_at_first(), start_method(None))
    ranks = StandingRanks()
    magics = RanksMagics(shell, ranks)
    shell.register_magics(magics)
    shell.push({"ranks": ranks}, interactive=False)
    shell.Completer.custom_matchers.extend(magics.matchers)


def unload(shell: Any) -> None:
    """`%unload_ext` and `%reload_ext`: stop the ranks."""
    magics = shell.magics_manager.registry.pop(RanksMagics.__name__, None)
    if magics is not None:
        for matcher in magics.matchers:
            shell.Completer.custom_matchers.remove(matcher)
        magics.stop()


def _world_at_first() -> int:
    return min(_WORLD_AT_FIRST, limits().ranks)


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number of ranks")
    return checked_world_size(int(text))


def _some(who: str, world_size: int) -> list[int]:
    """The ranks selected by 0,2 or 1-3."""
    if not _SOME.fullmatch(who):
        raise ValueError(
            f"{who!r} is not a list of ranks; write %%ranks 4 for four ranks, or 0,2 or 1-3 for some of them"
        )
    parts = [part.split("-") for part in who.strip(",").split(",")]
    asked = sorted({rank for first, *last in parts for rank in range(int(first), int(last[0] if last else first) + 1)})
    unknown = [rank for rank in asked if rank >= world_size]
    if unknown:
        raise ValueError(f"there is no {ranks_named(unknown)} in a world of {world_size}")
    if not asked:
        raise ValueError(f"{who} selects no ranks: put the smaller number first")
    return asked


@contextlib.contextmanager
def _refused_in_a_sentence() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as refusal:
        raise UsageError(str(refusal)) from None
    except NodeLost as loss:
        raise NodeLost(str(loss)) from None
