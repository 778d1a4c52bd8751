"""The two exceptions that a failed launch raises. A notebook shows only their message."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddp_lessons.record.line_names import name_place, request_of_front_end
from ddp_lessons.record.results import Results
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.output.cards import framed, in_words, lines_of_text, mark
from ddp_lessons.run.output.screen import printable, show_card
from ddp_lessons.run.output.terminal_text import folded, message_on_terminal
from ddp_lessons.run.output.transcript import without_terminal_codes
from ddp_lessons.run.wire.messages import Raised

_CELL_FILE = re.compile(r'File "([^"]*ipykernel_[^"]*|<ipython-input[^"]*)", line (\d+)')
NODES = "  Nodes: "  # the line that says which ranks run where
_STOPPED = re.compile(r" and ha(s|ve) been stopped")


class _Failure(RuntimeError):
    """What both exceptions share.

    The key names the rule that was broken, or how the rank ended. The remark is about this run only: it is shown, but
    is not part of the message.
    """

    def __init__(
        self, message: str, account: Account, results: Results[object], rank: int, key: str, remark: str = ""
    ) -> None:
        # `print(error)` must work in an ASCII-only terminal
        super().__init__(printable(without_terminal_codes(message)))
        self.remark = remark
        if remark and hasattr(self, "add_note"):  # Python 3.11: a terminal shows it, too
            self.add_note(remark)
        self.rank, self.key = rank, key
        self.results = results
        self._account = account
        self._shown_by = ""

    def traceback(self, rank: int) -> str:
        """The full stack of the line where this rank failed or was stopped."""
        if not 0 <= rank < self._account.world_size:
            raise IndexError(f"there is no rank {rank} in a world of {self._account.world_size}")
        ended = self._account.ended.get(rank)
        if isinstance(ended, Raised):
            return with_names_of_cells(ended.traceback)
        position = self._account.positions.get(rank)
        frames = ended.frames if ended else position.frames if position else ()
        if not frames:
            return (
                f"rank {rank} has returned\n"
                if rank in self._account.returned
                else f"no stack of rank {rank} was recorded\n"
            )
        lines = [f'  File "{f.file}", line {f.line}, in {f.function}\n    {f.text}\n' for f in frames]
        return with_names_of_cells(f"rank {rank}, most recent call last:\n{''.join(lines)}")

    @property
    def lost_node(self) -> str:
        """The node to which the connection was lost, if that ended a rank."""
        return next((how.lost_node for how in self._account.ended.values() if isinstance(how, Died)), "")

    @property
    def is_exception(self) -> bool:
        """Did `rank` raise one?"""
        return isinstance(self._account.ended.get(self.rank), Raised)

    def without_nodes(self) -> _Failure:
        """The same, without the names of the nodes on which ranks ran."""
        if names := set(self._account.nodes) - {""}:
            name = f"({'|'.join(map(re.escape, names))})"
            told = [line for line in str(self).split("\n") if not line.startswith(NODES)]
            self.args = (re.sub(rf" on ({name}(, {name})*( and {name})?|\d+ nodes)\b", "", "\n".join(told)),)
        return self

    def with_more(self, lines: Sequence[str]) -> _Failure:
        """The same, with more lines: about ranks that stay alive."""
        told = _STOPPED.sub("", str(self)) if lines else str(self)
        self.args = ("\n".join([told, *lines]),)
        return self

    def __reduce__(self) -> tuple[type[_Failure], tuple[str, Account, Results[object], int, str, str]]:
        return type(self), (str(self), self._account, self.results, self.rank, self.key, self.remark)

    def _render_traceback_(self) -> list[str]:
        """In a notebook and in IPython: only the message. The stack of the launcher would not help."""
        run, message = request_of_front_end(), _as_uncaught(f"{type(self).__name__}: {self}")
        if not run:
            return [message_on_terminal(message, "wrong"), *([folded(self.remark)] if self.remark else [])]
        if run != self._shown_by:  # IPython asks twice: to show it, and for its history
            self._shown_by = run
            show_card(_as_uncaught(self._repr_html_()), _as_uncaught(self._text))
        return [message.partition("\n")[0]]

    @property
    def _text(self) -> str:
        return "\n".join([f"{type(self).__name__}: {self}", *([self.remark] if self.remark else [])])

    def _repr_html_(self) -> str:
        headline, *lines = self._text.split("\n")
        head = f"<p>{mark('wrong')}<strong>{in_words(headline)}</strong></p>"
        return framed(head + "".join(lines_of_text(lines)), "wrong")


def _as_uncaught(message: str) -> str:
    """Without an `except`, no variable has the exception."""
    return message.replace("error.traceback(", "import sys; sys.last_value.traceback(")


def with_names_of_cells(traceback: str) -> str:
    return _CELL_FILE.sub(lambda found: name_place(found[1], int(found[2])), traceback)


class WorkerFailed(_Failure):
    """A rank raised an exception or died.

    `rank` is the first one that did, `traceback(rank)` returns its full stack, and `results` has what was recorded.
    """


class WorkersStuck(_Failure):
    """The ranks hang, or did not return in time. `traceback(rank)` shows where a rank was."""
