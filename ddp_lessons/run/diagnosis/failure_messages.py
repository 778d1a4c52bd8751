"""The message of a failed launch: which rank, what, where, the other ranks, what to do next."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

from ddp_lessons.own_files import RUN
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.line_names import name_place
from ddp_lessons.record.results import Results
from ddp_lessons.run.diagnosis import torchs_words
from ddp_lessons.run.diagnosis.advice import Reason, kind_of_hang, what_next
from ddp_lessons.run.diagnosis.call_fit import first_disagreement
from ddp_lessons.run.diagnosis.failures import NODES, WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.hang_reasons import why_connection_was_lost, why_nobody_moves, why_without_calls
from ddp_lessons.run.diagnosis.timeouts import why_connections_are_closed, why_it_timed_out
from ddp_lessons.run.diagnosis.wording import (
    called,
    called_from,
    joined,
    learners_frame,
    listed,
    name_line,
    ranks_named,
    told_by_rank,
)
from ddp_lessons.run.launcher.rank_states import Account, Died, Position
from ddp_lessons.run.output.transcript import without_middle
from ddp_lessons.run.wire.messages import Frame, Raised

_MOST_NODES_NAMED = 8
LOST_CONNECTION = "lost the connection to a rank that it was waiting for"
# what torch raises on the ranks that communicated with a rank that died
_CONSEQUENCE = re.compile(
    r"connection (was )?(closed|reset)|broken pipe|socket closed|connectfullmesh|remote process exited", re.I
)


def worker_failed(account: Account, results: Results[object]) -> WorkerFailed:
    ranks = first_cause(account.ended)
    cause = account.ended[ranks[0]]
    frame = learners_frame(cause.frames)
    lost = why_connection_was_lost(results.events, ranks[0]) if is_consequence(cause) else None
    what = LOST_CONNECTION if lost else _what_happened(cause)  # torch's own text names neither rank nor reason
    message = [f"{name_ranks(ranks, account.world_size)}{_on_node(account, ranks)} {_agree(what, ranks)}"]
    if frame is not None:
        message.append(f"    {name_line(frame)}")
    message += _last_words(cause, results.lines[ranks[0]])
    message += _what_the_others_did(account, ranks)
    reason = _why_torch_failed(results.events, ranks[0]) if _may_come_from_the_others(cause) else None
    reason = reason or lost
    step = what_next(cause, ranks[0], account.limits, _nodes(account, ranks))
    message += reason.lines if reason else [f"  Next: {step}"]
    if isinstance(cause, Died) and cause.signal_name and not cause.last_words:
        message.append(torchs_words.of_a_death(-(cause.exit_code or 0), cause.signal_name))
    elif what == LOST_CONNECTION:
        message.append(torchs_words.OF_A_LOST_CONNECTION)
    return WorkerFailed("\n".join(message), account, results, ranks[0], reason.key if reason else _key(cause))


def _key(how: Raised | Died) -> str:
    if isinstance(how, Raised):
        return "raised"
    return "lost-node" if how.lost_node else "killed" if how.signal_name else "exited"


def _why_torch_failed(events: Events, rank: int) -> Reason | None:
    fault = first_disagreement(events)
    return fault or why_it_timed_out(events, rank) or why_connections_are_closed(events, rank)


def not_to_be_trusted(account: Account, results: Results[object], reason: Reason) -> WorkerFailed:
    """Every rank returned, but their calls did not match."""
    headline = f"{reason.name}, the results cannot be trusted"
    *sentences, step = reason.lines
    lines = [headline, *sentences, *_nodes_of_ranks(account, reason.rank), step, torchs_words.OF_WRONG_RESULTS]
    return WorkerFailed("\n".join(lines), account, results, reason.rank, reason.key)


def workers_stuck(account: Account, results: Results[object], is_for_ever: bool) -> WorkersStuck:
    """`is_for_ever`: the hang is certain, and the launch ended before its time limit."""
    waiting = [n for n in range(account.world_size) if n not in account.returned and n not in account.ended]
    reason = why_nobody_moves(results.events) or first_disagreement(results.events)
    reason = reason or why_without_calls(_names_of_calls(account), account.returned)
    if reason is not None and any(" returned" in sentence for sentence in reason.sentences):
        reason = _of_those_not_asked(account) or reason
    slow = [f"  Next: {_wake(account) or _of_the_start(account) or _of_slow_ranks(account)}."]
    if reason is not None:
        waits_for_returned = any(" returned" in sentence for sentence in reason.sentences)
        told = [*reason.lines, torchs_words.of_a_hang(results.events, waits_for_returned)]
    crowded = "" if is_for_ever else "\n".join(filter(None, [_crowded(account), _debugged()]))
    account = dataclasses.replace(account, seconds=0.0) if is_for_ever else account
    headline = _of_a_hang(reason) if is_for_ever else _of_a_timeout(waiting, account)
    lines = [headline, *where_each_is(account, results.events), *filter(None, told if reason else slow)]
    key = reason.key if reason else "hang" if is_for_ever else "timeout"
    return WorkersStuck("\n".join(lines), account, results, waiting[0], key, crowded)


def _of_a_hang(reason: Reason | None) -> str:
    return f"{kind_of_hang(reason)}, no rank can make progress"


def _of_a_timeout(waiting: Sequence[int], account: Account) -> str:
    patience = "1 second" if account.patience_seconds == 1 else f"{account.patience_seconds:g} seconds"
    done = "return" if account.has_begun else "start"
    return f"timeout, {name_ranks(waiting, account.world_size)} did not {done} within {patience}"


def _crowded(account: Account) -> str:
    """On a busy machine the time limit is extended: more seconds than that have passed."""
    patience, on_the_wall = account.patience_seconds or 0.0, account.seconds
    if on_the_wall < 1.5 * patience + 3:  # asking where the ranks are takes some, too
        return ""
    return f"  (It took {on_the_wall:.0f} seconds: this machine is busy with other work, so the limit was extended.)"


def _debugged() -> str:
    if os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() != "DETAIL":
        return ""
    return (
        "  (With TORCH_DISTRIBUTED_DEBUG=DETAIL, torch itself waits before each call, so launch detects a hang only at "
        "its timeout. Without DETAIL, launch ends as soon as no rank can make progress.)"
    )


def _wake(account: Account) -> str:
    """What to do about ranks whose processes are stopped."""
    silent = [rank for rank, position in account.positions.items() if position.is_silent]
    if not silent:
        return ""
    are = "is" if len(silent) == 1 else "are"
    return (
        f"check whether {ranks_named(silent)}, which did not even respond to a signal, {are} stopped (SIGSTOP, Ctrl+Z, "
        "a debugger): `ps -o pid,stat,cmd` shows T. If not, this machine may be out of memory"
    )


def _of_the_start(account: Account) -> str:
    """What to do if no function has begun."""
    if account.has_begun:
        return ""
    where = "the nodes are" if any(account.nodes) else "this machine is"
    return f"launch again with fewer ranks, and check with `top` whether {where} busy or out of memory"


def _of_slow_ranks(account: Account) -> str:
    return f"see above what the ranks were doing. If they are only slow, {_more_time(account)}"


def _more_time(account: Account) -> str:
    return f"give them more time, for example launch(..., timeout_seconds={2 * (account.patience_seconds or 0.0):g})"


def _of_those_not_asked(account: Account) -> Reason | None:
    """Ranks that were not selected cannot call it, and no other rank is missing."""
    if not account.not_asked or account.not_asked != account.returned:
        return None
    who = f"{ranks_named(sorted(account.not_asked))} {'was' if len(account.not_asked) == 1 else 'were'}"
    sentence = f"A collective completes only when every rank in its group calls it, but {who} not selected."
    return Reason("not-selected", [sentence])


def _names_of_calls(account: Account) -> dict[int, str]:
    frames = {rank: learners_frame(position.frames) for rank, position in account.positions.items()}
    return {
        rank: _call_below(frame, account.positions[rank].frames) if frame is not None else ""
        for rank, frame in frames.items()
    }


def where_each_is(account: Account, events: Events | None = None) -> list[str]:
    """For each rank: whether it returned, or where it is, and in a second line who called that."""
    told = []
    for rank in range(account.world_size):
        name = f"rank {rank}{_on_node(account, [rank])}"
        if rank in account.not_asked:
            told.append(f"    {name}   was not selected")
        elif rank in account.returned:
            told.append(f"    {name}   has returned")
        elif (position := account.positions.get(rank)) is not None:
            held = next(iter(events.held(rank)), None) if events is not None and events.world_size else None
            told.append(f"    {name}   {_doing(position, held=held)}{_how_long(account, rank)}")
            if callers := called_from(position.frames):
                told[-1] += f"\n        called from {callers}"
        else:
            told.append(f"    {name}   has not started")
    return told


def _on_node(account: Account, ranks: Sequence[int]) -> str:
    """Where they run, if that is not this machine."""
    nodes = _nodes(account, ranks)
    if len(nodes) > _MOST_NODES_NAMED:
        return f" on {len(nodes)} nodes"
    return f" on {joined(nodes)}" if nodes else ""


def _nodes_of_ranks(account: Account, rank: int) -> list[str]:
    """The node of each rank; on many nodes, only of this one."""
    ranks = range(account.world_size)
    asked = ranks if len(_nodes(account, ranks)) <= _MOST_NODES_NAMED else [rank]
    there = {rank: where.strip() for rank in asked if (where := _on_node(account, [rank]))}
    return [f"{NODES}{told_by_rank(there)}."] if there else []


def _nodes(account: Account, ranks: Sequence[int]) -> list[str]:
    """The other nodes among those on which they run."""
    return list(dict.fromkeys(account.nodes[rank] for rank in ranks if account.nodes and account.nodes[rank]))


def _how_long(account: Account, rank: int) -> str:
    """How long it has been on that line, if that is worth knowing."""
    seconds = account.seconds_at_line.get(rank, 0.0)
    if account.seconds < 1:
        return ""
    if seconds > account.seconds / 2:
        return "   (the whole time)"
    return f"   (for the last {seconds:.0f} seconds)" if seconds >= 2 else ""


def name_ranks(ranks: Sequence[int], world_size: int) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} of {world_size}"
    if len(ranks) == world_size:
        return "both ranks" if world_size == 2 else f"all {world_size} ranks"
    return f"ranks {listed(ranks)} of {world_size}"


def first_cause(ended: Mapping[int, Raised | Died]) -> list[int]:
    """The ranks that failed first, in the same way. A failure that only follows from another one is never first."""

    def order(rank: int) -> tuple[bool, float]:
        return is_consequence(ended[rank]), ended[rank].moment

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
    if not how.is_seen:
        return "exited before {it} returned (killed, or os._exit())"
    if how.lost_node:
        return f"{{was}} lost together with the connection to {how.lost_node}"
    if how.exit_code is None:
        return "exited together with the process that {it} {was} forked from"
    if how.signal_name:
        return f"{{was}} killed by {how.signal_name}"
    return f"exited with code {how.exit_code} before {{it}} returned"


def _may_come_from_the_others(how: Raised | Died) -> bool:
    """Did a torch.distributed call fail? Its text says little about what the other ranks called."""
    if isinstance(how, Died) and how.signal_name == "SIGABRT":  # gloo aborts in a thread of its own
        return True
    if isinstance(how, Raised) and how.kind in ("ValueError", "TypeError"):  # torch checked only its arguments
        return False
    frame = learners_frame(how.frames)
    if frame is None:
        return False
    waits_for_work = how.frames[-1].function == "wait" and how.frames[-1].file.startswith(RUN)
    return (
        waits_for_work or bool(_call_below(frame, how.frames)) or (isinstance(how, Raised) and "/gloo/" in how.message)
    )


def _last_words(how: Raised | Died, lines: Sequence[str]) -> list[str]:
    said = [_cut(line, 500) for line in (how.last_words if isinstance(how, Died) else lines[-1:])]
    return [f"  Last output: {said[0]}", *(f"               {line}" for line in said[1:])] if said else []


def _what_the_others_did(account: Account, failed: Sequence[int]) -> list[str]:
    doing: dict[str, list[int]] = {}
    for rank in range(account.world_size):
        if rank in failed:
            continue
        if rank in account.not_asked:
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
    if is_consequence(how):
        return f"lost the connection to rank {failed}"
    same_place = how.frames and learners_frame(how.frames) == learners_frame(cause.frames)
    if isinstance(how, Raised) and isinstance(cause, Raised) and how.kind == cause.kind and same_place:
        return f"raised {how.kind} there, too"
    return _what_happened(how).partition("\n")[0].removesuffix(".")


def is_consequence(how: Raised | Died) -> bool:
    return isinstance(how, Raised) and bool(_CONSEQUENCE.search(how.traceback))


def _subject(ranks: Sequence[int]) -> str:
    return ranks_named(ranks).capitalize()


def _agree(what: str, ranks: Sequence[int]) -> str:
    one = len(ranks) == 1
    for blank, alone, several in (
        ("{have}", "has", "have"),
        ("{was}", "was", "were"),
        ("{it}", "it", "they"),
    ):
        what = what.replace(blank, alone if one else several)
    return what


def _doing(position: Position, past: bool = False, held: Event | None = None) -> str:
    frame = learners_frame(position.frames)
    if position.is_silent:
        return "did not respond"
    if frame is None and _is_in_loader(position.frames):
        return f"{'{was} waiting' if past else 'waits'} for its DataLoader workers"
    if frame is None:
        return "{was} starting" if past else "is starting"
    place = f"({name_place(frame.file, frame.line)})" if past else f"({name_line(frame)})"
    call = called(held) if held is not None else _call_below(frame, position.frames)
    if held is not None and held.line != frame.line:
        call += f" of {held.place}"
    if call:
        return f"{'{was} waiting' if past else 'waits'} in {call} {place}"
    return f"{'{was}' if past else 'is'} at {name_line(frame)}"


def _is_in_loader(frames: Sequence[Frame]) -> bool:
    """What the workers run is in other processes."""
    files = [frame.file for frame in frames]
    loaders = [number for number, file in enumerate(files) if file.endswith(os.path.join("data", "dataloader.py"))]
    return bool(loaders) and any("multiprocessing" in file for file in files[loaders[-1] :])


def _call_below(frame: Frame, frames: Sequence[Frame]) -> str:
    """The torch.distributed call that this line made, if any."""
    below = frames[frames.index(frame) + 1 :]
    calls = [f.function for f in below if f"torch{os.sep}distributed" in f.file and f.function != "wrapper"]
    return calls[0] if calls else ""


def _cut(text: str, longest: int) -> str:
    """Cut the middle out of a long text; all of it is in the traceback."""
    lines = text.split("\n")
    if len(lines) > 20:
        text = "\n".join([*lines[:10], f"[... {len(lines) - 20:,} lines left out]", *lines[-10:]])
    return without_middle(text, longest)
