"""The two ways in which a launch ends badly, told in the learner's words: who, what, where, the others, what next."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddp_lessons.run.events import Events
from ddp_lessons.run.messages import Frame, Position, Raised
from ddp_lessons.run.output import without_middle, without_terminal_codes
from ddp_lessons.run.places import learners_frame, name_line, name_place
from ddp_lessons.run.results import Results
from ddp_lessons.run.standstill import what_keeps_them
from ddp_lessons.run.wording import listed, ranks_named

_CELL_FILE = re.compile(r'File "(?:[^"]*ipykernel_[^"]*|<ipython-input[^"]*)", line (\d+)')
# what torch says on the ranks that talked to a rank when that died
_CONSEQUENCE = re.compile(
    r"connection (was )?(closed|reset)|broken pipe|socket closed|connectfullmesh|remote process exited", re.I
)
_NEXT_TO_LOAD = "ranks load modules from files: put it into the notebook's folder, or define it in a cell."
_NEXT_TO_RETURN = "return plain data instead: numbers, tensors, lists, dicts, a state_dict()."
_NEXT_FOR_SIGNAL = {
    "SIGKILL": "when memory runs out, the system kills a process like this: try fewer ranks or smaller data.",
    "SIGSEGV": "compiled code touched memory that is not its own: look at the call on that line.",
    "SIGABRT": "compiled code gave up; its last words say why. Often tensors of different shape or dtype met.",
}


@dataclass(frozen=True)
class Died:
    """A rank's process ended without a word."""

    exit_code: int | None  # minus the signal that killed it
    frames: tuple[Frame, ...]
    last_words: tuple[str, ...]
    moment: float


@dataclass(frozen=True)
class Account:
    """How each rank stood when a launch was given up."""

    world_size: int
    ended: Mapping[int, Raised | Died]
    positions: Mapping[int, Position]
    returned: frozenset[int]
    patience_seconds: float | None = None


class _Failure(RuntimeError):
    """What both exceptions have in common."""

    def __init__(self, message: str, account: Account, results: Results[object], rank: int) -> None:
        super().__init__(message)
        self.rank = rank
        self.results = results
        self._account = account

    def traceback(self, rank: int) -> str:
        """The whole path to the line where this rank failed or was stopped."""
        if not 0 <= rank < self._account.world_size:
            raise IndexError(f"there is no rank {rank} in a world of {self._account.world_size}")
        ended = self._account.ended.get(rank)
        if isinstance(ended, Raised):
            return _CELL_FILE.sub(r"cell line \1", ended.traceback)
        position = self._account.positions.get(rank)
        frames = ended.frames if ended else position.frames if position else ()
        if not frames:
            return (
                f"rank {rank} has returned\n"
                if rank in self._account.returned
                else f"nothing is known of rank {rank}\n"
            )
        lines = [f'  File "{f.file}", line {f.line}, in {f.function}\n    {f.text}\n' for f in frames]
        return _CELL_FILE.sub(r"cell line \1", f"rank {rank}, most recent call last:\n{''.join(lines)}")

    def __reduce__(self) -> tuple[type[_Failure], tuple[str, Account, Results[object], int]]:
        return type(self), (str(self), self._account, self.results, self.rank)

    def _render_traceback_(self) -> list[str]:
        """In a notebook: the message alone. The way through the launcher helps nobody."""
        return [f"{type(self).__name__}: {self}"]


class WorkerFailed(_Failure):
    """A rank raised or died. `rank` names the first, `traceback(rank)` shows the path, `results` what came before."""


class WorkersStuck(_Failure):
    """The ranks did not come to an end in time. `traceback(rank)` shows where each was."""


def worker_failed(account: Account, results: Results[object]) -> WorkerFailed:
    ranks = _first_cause(account.ended)
    cause = account.ended[ranks[0]]
    frame = learners_frame(cause.frames)
    message = [f"{name_ranks(ranks, account.world_size)} {_agree(_what_happened(cause), ranks)}"]
    if frame is not None:
        message.append(f"    {name_line(frame)}")
    message += _last_words(cause, results.lines[ranks[0]])
    message += _what_the_others_did(account, ranks)
    message.append(f"  Next: {_what_next(cause, ranks[0])}")
    return WorkerFailed(without_terminal_codes("\n".join(message)), account, results, ranks[0])


def workers_stuck(account: Account, results: Results[object]) -> WorkersStuck:
    waiting = [n for n in range(account.world_size) if n not in account.returned and n not in account.ended]
    patience = "1 second" if account.patience_seconds == 1 else f"{account.patience_seconds:g} seconds"
    message = [f"{name_ranks(waiting, account.world_size)} did not return within {patience}"]
    message += where_each_is(account)
    reason = _what_keeps_them(account, results.events)
    slow = "if the ranks were only slow, give them more time: launch(..., timeout_seconds=...)."
    message += [*reason, f"  Next: {'repair that; more time would not help.' if reason else slow}"]
    return WorkersStuck("\n".join(message), account, results, waiting[0])


def _what_keeps_them(account: Account, events: Events) -> list[str]:
    frames = {rank: learners_frame(position.frames) for rank, position in account.positions.items()}
    waits_in = {
        rank: _call_below(frame, account.positions[rank].frames) if frame is not None else ""
        for rank, frame in frames.items()
    }
    return what_keeps_them(events, account.returned, waits_in)


def where_each_is(account: Account) -> list[str]:
    """A line per rank: returned, or the line where it is."""
    told = []
    for rank in range(account.world_size):
        if rank in account.returned:
            told.append(f"    rank {rank}   has returned")
        elif (position := account.positions.get(rank)) is not None:
            told.append(f"    rank {rank}   {_doing(position)}")
        else:
            told.append(f"    rank {rank}   has not started")
    return told


def name_ranks(ranks: Sequence[int], world_size: int) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} of {world_size}"
    if len(ranks) == world_size:
        return "both ranks" if world_size == 2 else f"all {world_size} ranks"
    return f"ranks {listed(ranks)} of {world_size}"


def _first_cause(ended: Mapping[int, Raised | Died]) -> list[int]:
    """The ranks that failed first and alike. What merely followed from another rank's end does not count as first."""

    def order(rank: int) -> tuple[bool, float]:
        return _is_consequence(ended[rank]), ended[rank].moment

    first = min(ended, key=order)
    return [rank for rank in sorted(ended) if _alike(ended[rank], ended[first])]


def _alike(one: Raised | Died, other: Raised | Died) -> bool:
    return _what_happened(one) == _what_happened(other) and learners_frame(one.frames) == learners_frame(other.frames)


def _what_happened(how: Raised | Died) -> str:
    if isinstance(how, Raised):
        if how.kind == "CannotTravel":
            return how.message
        if how.kind == "SystemExit":
            return f"called sys.exit({how.message})"
        return f"raised {how.kind}" + (f": {_cut(how.message, 1_500)}" if how.message else "")
    if how.exit_code is None:
        return "ended together with the process that {it} {was} forked from"
    if how.exit_code < 0:
        return f"{{was}} killed by {_signal_name(-how.exit_code)}"
    return f"ended {{its}} with exit code {how.exit_code}, before {{it}} returned"


def _last_words(how: Raised | Died, lines: Sequence[str]) -> list[str]:
    said = [_cut(line, 500) for line in (how.last_words if isinstance(how, Died) else lines[-1:])]
    return [f"  It last said: {said[0]}", *(f"                {line}" for line in said[1:])] if said else []


def _what_the_others_did(account: Account, failed: Sequence[int]) -> list[str]:
    doing: dict[str, list[int]] = {}
    for rank in range(account.world_size):
        if rank in failed:
            continue
        if rank in account.returned:
            doing.setdefault("had returned", []).append(rank)
        elif rank in account.ended:
            what = _what_else_happened(account.ended[rank], account.ended[failed[0]], failed[0])
            doing.setdefault(what, []).append(rank)
        elif rank in account.positions:
            doing.setdefault(f"{_doing(account.positions[rank], past=True)} and {{have}} been stopped", []).append(rank)
    return [f"  {_subject(ranks)} {_agree(what, ranks)}." for what, ranks in doing.items()]


def _what_else_happened(how: Raised | Died, cause: Raised | Died, failed: int) -> str:
    if _is_consequence(how):
        return f"lost the connection to rank {failed}"
    same_place = how.frames and learners_frame(how.frames) == learners_frame(cause.frames)
    if isinstance(how, Raised) and isinstance(cause, Raised) and how.kind == cause.kind and same_place:
        return f"raised {how.kind} there, too"
    return _what_happened(how).partition("\n")[0]


def _is_consequence(how: Raised | Died) -> bool:
    return isinstance(how, Raised) and bool(_CONSEQUENCE.search(how.traceback))


def _subject(ranks: Sequence[int]) -> str:
    return ranks_named(ranks).capitalize()


def _agree(what: str, ranks: Sequence[int]) -> str:
    one = len(ranks) == 1
    for blank, alone, several in (
        ("{have}", "has", "have"),
        ("{was}", "was", "were"),
        ("{its}", "its process", "their processes"),
        ("{it}", "it", "they"),
    ):
        what = what.replace(blank, alone if one else several)
    return what


def _doing(position: Position, past: bool = False) -> str:
    frame = learners_frame(position.frames)
    if frame is None:
        return "{was} starting" if past else "is starting"
    place = f"({name_place(frame.file, frame.line)})" if past else f"({name_line(frame)})"
    call = _call_below(frame, position.frames)
    if call:
        return f"{'{was} waiting' if past else 'waits'} in {call} {place}"
    return f"{'{was}' if past else 'is'} at {name_line(frame)}"


def _call_below(frame: Frame, frames: Sequence[Frame]) -> str:
    """The torch.distributed call which that line made, if it did."""
    below = frames[frames.index(frame) + 1 :]
    calls = [f.function for f in below if f"torch{os.sep}distributed" in f.file and f.function != "wrapper"]
    return calls[0] if calls else ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _cut(text: str, longest: int) -> str:
    """Long texts without their middle; the whole is in the traceback."""
    lines = text.split("\n")
    if len(lines) > 20:
        text = "\n".join([*lines[:10], f"[... {len(lines) - 20:,} lines left out]", *lines[-10:]])
    return without_middle(text, longest)


def _what_next(how: Raised | Died, rank: int) -> str:
    if isinstance(how, Died) and how.exit_code is not None and how.exit_code < 0:
        return _NEXT_FOR_SIGNAL.get(_signal_name(-how.exit_code), "find out who sent that signal.")
    if isinstance(how, Died) and how.exit_code is None:
        return "launch again. If it comes back, look whether memory runs out."
    if isinstance(how, Died):
        return "let the function return instead; a rank's process is ended for it."
    if how.kind == "CannotTravel":
        return _NEXT_TO_RETURN if how.message.startswith("returned") else _NEXT_TO_LOAD
    if "default process group twice" in how.message:
        return "launch has joined the group already; a function that joins by itself wants launch(..., join=False)."
    if "Unable to find address for" in how.message:
        return "the loopback interface, over which ranks talk, is not up: `ip link set lo up` brings it up."
    if how.kind == "BdbQuit" or (how.kind == "EOFError" and "reading a line" in how.message):
        return "a rank has no keyboard; pass what it needs as an argument of launch."
    return f"repair that line; traceback({rank}) of this exception shows the whole way there."
