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

from ddp_lessons.run.debugging.dialogue import why_no_prompt
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.output.screen import shown_values
from ddp_lessons.run.persistent.persistent_ranks import StandingRanks
from ddp_lessons.run.processes.process_pool import pool
from ddp_lessons.run.processes.process_sources import start_method

if TYPE_CHECKING:
    from IPython.core.completer import CompletionContext

_WORLD_AT_FIRST = 4
_LAST_WORD = re.compile(r"[\w.]*$")


@magics_class
class RanksMagics(Magics):
    def __init__(self, shell: Any, ranks: StandingRanks) -> None:
        super().__init__(shell)
        self._ranks = ranks
        self._pythons_debug = shell.find_line_magic("debug")

        self.matchers = _matchers(self._completions)

    @magic_arguments()
    @argument("who", nargs="*", help="4: on four ranks, which start if none are running; 0,2 or 1-3: on some of them")
    @argument("--on", metavar="NAME", help="a variable with the nodes to use, as in cluster = Hosts('alpha', 'beta')")
    @argument("--timeout", type=float, metavar="SECONDS", help="time limit for the cell (default: 60)")
    @argument("--quiet", action="store_true", help="show neither the output nor the values of the ranks")
    @cell_magic
    def ranks(self, line: str, cell: str) -> None:
        """Run the cell on ranks that keep their variables."""
        __tracebackhide__ = True
        asked = parse_argstring(self.ranks, line)
        source = "\n" * self._lines_before(cell) + cell
        with _refused_in_a_sentence():
            only = self._begin(" ".join(asked.who), self._nodes_named(asked.on))
            shown = self._ranks.run(source, only, timeout_seconds=asked.timeout, quiet=asked.quiet)
        if not asked.quiet and (values := shown_values(shown)):
            display(values, raw=True)

    @magic_arguments()
    @argument("action", nargs="?", default="status", choices=("status", "stop", "restart", "debug"))
    @argument("number", nargs="?", type=int, help="how many ranks to start, or the rank to debug")
    @line_magic("ranks")  # type: ignore[arg-type]
    def look_after(self, line: str) -> None:
        """Show the variables of each rank, stop or restart the ranks, or open the debugger."""
        __tracebackhide__ = True
        asked = parse_argstring(self.look_after, line)
        with _refused_in_a_sentence():
            if asked.action == "debug":
                self._debug(asked.number)
                return
            if asked.action == "restart":
                self._ranks.start(asked.number or self._ranks.world_size or _world_at_first(), self._ranks.on)
            elif asked.action == "stop":
                self._ranks.stop()
        print(self._status())

    @line_magic
    def debug(self, line: str) -> None:
        """%debug after a failure of a cell on the ranks opens the debugger on the rank that failed."""
        __tracebackhide__ = True
        last = getattr(sys, "last_value", None)
        is_of_launch = isinstance(last, WorkerFailed | WorkersStuck)
        if is_of_launch and last is self._ranks.failure:
            self._debug(None)
        elif is_of_launch:
            raise UsageError("the ranks of that launch have ended. Next: use launch(..., debug=True)")
        else:
            self._pythons_debug(line)

    def stop(self) -> None:
        self._ranks.stop()

    def _debug(self, rank: int | None) -> None:
        __tracebackhide__ = True
        if reason := why_no_prompt():
            raise UsageError(f"the debugger cannot open a prompt: {reason}")
        failure = self._ranks.failure
        with _refused_in_a_sentence():
            self._ranks.debug(rank if rank is not None else failure.rank if failure is not None else 0)

    def _completions(self, context: CompletionContext) -> list[str]:
        word = _LAST_WORD.search(context.line_with_cursor[: context.cursor_position])
        if not self._ranks.world_size or "%%ranks" not in context.full_text or word is None or not word[0]:
            return []
        return self._ranks.completions(word[0])

    def _nodes_named(self, name: str | None) -> Any:
        """The nodes in this variable of the notebook; None: no variable is named."""
        names: dict[str, Any] = self.shell.user_ns  # type: ignore[union-attr]
        if name is not None and name not in names:
            raise UsageError(f'the notebook has no variable {name}. Next: create it, as in {name} = Hosts("alpha")')
        return names[name] if name is not None else None

    def _begin(self, who: str, on: Any) -> Sequence[int] | None:
        """Start ranks if there are none. Returns which of them are selected; None: all."""
        there = self._ranks.world_size
        asked = int(who) if who.isdecimal() else 0  # `%%ranks 0` selects rank 0
        if there and on is not None and on is not self._ranks.on:
            raise UsageError(f"ranks are already running. Next: stop them with `%ranks stop` to start on {on!r}")
        if there and asked not in (0, there):
            alone = f", or run on rank {who} alone with `%%ranks {who},`" if asked < there else ""
            raise UsageError(f"{there} ranks are running, not {who}. Next: restart with `%ranks restart {who}`{alone}")
        some = _some(who) if who and not asked else None
        if not there:
            self._ranks.start(asked or _world_at_first(), on)
        return some

    def _lines_before(self, body: str) -> int:
        """How many lines of the cell come before its body: there may be others, such as %%time."""
        history: Any = getattr(self.shell, "history_manager", None)
        whole = history.input_hist_raw[-1] if history is not None else ""
        begin = whole.rfind(body.rstrip("\n"))
        return whole[:begin].count("\n") if begin > 0 else 1

    def _status(self) -> str:
        if not self._ranks.world_size:
            return "no ranks are running. To start four, begin a cell with %%ranks 4"
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


def _some(who: str) -> list[int]:
    """The ranks selected by 0,2 or 1-3."""
    try:
        bounds = [part.partition("-")[::2] for part in who.split(",") if part]
        return [rank for first, last in bounds for rank in range(int(first), int(last or first) + 1)]
    except ValueError:
        next_step = "Next: write 4 to start four ranks, or select some of them, as in 0,2 or 1-3"
        raise UsageError(f"{who!r} is not a list of ranks. {next_step}") from None


@contextlib.contextmanager
def _refused_in_a_sentence() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError) as refusal:
        raise UsageError(str(refusal)) from None
