"""Explain the log of a job: which rank failed first, which died because of it, or which one the others waited for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from ddp_lessons.dumps.dumped_calls import BLANK
from ddp_lessons.dumps.job_log import JobLog, Timeout
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing, meeting_point
from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.advice import Reason
from ddp_lessons.run.diagnosis.failure_messages import first_cause, is_consequence, name_ranks, worker_failed
from ddp_lessons.run.diagnosis.hang_reasons import Absence, why_nobody_moves
from ddp_lessons.run.diagnosis.wording import count, learners_frame, name_line, ranks_named, told_by_rank
from ddp_lessons.run.launcher.rank_states import Account, Died
from ddp_lessons.run.wire.messages import Raised

_OF_ALL = ("0", "0(default_pg)")
_ABSENT = Absence("{have} not called it", "{have} not called the")
_SILENT = Absence("{have} not called it, or did not log the wait", "{have} not called the")
_NEXT_DUMPS = (
    "set TORCH_NCCL_TRACE_BUFFER_SIZE=2000 and TORCH_NCCL_DUMP_ON_TIMEOUT=1, run the job again, and run `explain` on "
    "its dumps."
)
_NEXT_FIRST = (
    "search the logs of all nodes for the rank that ended first (`torchrun --tee 3` adds the rank to each line)."
)
# advice for a launch, and for a job
_FOR_A_JOB = {
    "`error.traceback({rank})` shows the full stack.": "its traceback is in the log.",
    "let the function return instead; launch ends the rank's process.": (
        "look for the last lines of rank {rank} (`torchrun --tee 3` adds the rank to each line)."
    ),
}
_WAITED = re.compile(r"Timed out waiting|wait timeout after|monitoredBarrier")  # of gloo and the store


def find_in_log(log: JobLog) -> tuple[int | None, str]:
    """The rank that failed first (None: unknown, or no rank failed), and the message ("": nothing is wrong)."""
    log = _with_named_rank(log)
    ended = log.ended()
    others = {rank for rank, how in ended.items() if not is_consequence(how) and not _has_waited(how)}
    if log.timeouts and not (others - log.timeouts.keys()) & log.raised.keys():
        return None, _of_timeouts(log)
    if not others and any(map(_has_waited, ended.values())):
        return next(iter(log.silent), None), _of_a_wait(log)
    return _of_a_failure(log) if ended else (None, "")


def _with_named_rank(log: JobLog) -> JobLog:
    """A rank that raises before it joins a group does not log its number; torchrun names it."""
    if not log.without_rank or log.root_cause is None or log.root_cause in log.raised:
        return log
    # others may have waited for it at the rendezvous, and logged that too before torchrun stopped them
    causes = [how for how in log.without_rank if how.kind != "DistStoreError" and not is_consequence(how)]
    return dataclasses.replace(log, raised={**log.raised, log.root_cause: (causes or log.without_rank)[-1]})


def _has_waited(how: Raised | Died) -> bool:
    return isinstance(how, Raised) and bool(_WAITED.search(how.message))


# --- a rank failed ----------------------------------------------------------------------------------------------------


def _of_a_failure(log: JobLog) -> tuple[int, str]:
    size, ended = log.world_size, log.ended()
    results: Results[object] = Results((NO_VALUE,) * size, tuple([] for _ in range(size)), 0.0, Events([None] * size))
    failed = worker_failed(Account(size, ended, {}, frozenset()), results)
    rank, ranks = failed.rank, first_cause(ended)
    message = str(failed).replace(name_ranks(ranks, size), ranks_named(ranks), 1)  # a log does not say of how many
    for advice, instead in _FOR_A_JOB.items():
        message = message.replace(advice.format(rank=rank), instead.format(rank=rank))
    lines = [line for line in f"WorkerFailed: {message}".split("\n") if not line.startswith("  torchrun would show:")]
    if is_consequence(ended[rank]) or _has_waited(ended[rank]):
        lines[-1] = f"  Next: {_NEXT_FIRST}"
    advice_at = next(at for at, line in enumerate(lines) if line.startswith("  Next:"))
    lines[advice_at:advice_at] = _what_torchrun_did(log, rank)
    return rank, "\n".join(lines)


def _what_torchrun_did(log: JobLog, rank: int) -> Iterator[str]:
    if is_consequence(log.ended()[rank]):
        told = f" {_subject(log.silent)} logged no error." if log.silent else ""
        yield f"  This error is only a consequence: another rank ended first, and its error is not in this log.{told}"
    if log.stopped:
        yield f"  {_subject(log.stopped)} {'was' if len(log.stopped) == 1 else 'were'} stopped by torchrun."
    named = log.root_cause
    raised_itself = named in log.raised and not is_consequence(log.raised[named])  # ranks may find a mistake together
    if named not in (None, rank) and not raised_itself:
        yield f"  torchrun names rank {named}, whose exit it saw first, but that rank died because of rank {rank}."


def _subject(ranks: Sequence[int]) -> str:
    return ranks_named(ranks).capitalize()


# --- ranks waited -----------------------------------------------------------------------------------------------------


def _of_a_wait(log: JobLog) -> str:
    """With gloo: ranks timed out, some lost the connection to these, and others logged nothing until they ended."""
    waited = [rank for rank, how in log.raised.items() if _has_waited(how)]
    told = {
        rank: f"  {'waited' if rank in waited else 'lost the connection'} at {_place(how)}"
        for rank, how in log.raised.items()
    }
    sentences = ["The ranks waited on these lines, but the mistake is elsewhere: a rank made another call, or none."]
    key, who = "log-of-waits", ""
    if silent := log.silent:
        key, it, who = "silent-ranks", *(("it", "this rank") if len(silent) == 1 else ("they", "these ranks"))
        sentences.append(f"{_subject(silent)} logged no error: {it} did not wait for that call, or was still waiting.")
    headline = f"WorkersStuck: timeout, {ranks_named(sorted(waited))} waited for a call that never completed"
    return "\n".join([headline, *_by_rank(told), *Reason(key, sentences, blanks={"who": who}).lines])


def _place(how: Raised) -> str:
    frame = learners_frame(how.frames)
    return name_line(frame) if frame is not None else "an unknown line"


def _of_timeouts(log: JobLog) -> str:
    """NCCL's watchdog: the numbers of the collectives say which rank is behind."""
    ranks = tuple(range(log.world_size))
    events = Events([_recorded(log, rank, ranks) for rank in ranks])
    absence = _ABSENT if log.enqueued.keys() >= set(ranks) - log.timeouts.keys() else _SILENT
    reason = why_nobody_moves(events, absence) or _of_a_match(log)
    told = {rank: _told(timeout) for rank, timeout in log.timeouts.items()}
    for rank in sorted(set(ranks) - log.timeouts.keys()):
        last = f"; its last collective was {log.enqueued[rank]}" if rank in log.enqueued else ""
        told[rank] = f"  logged no timeout{last}"
    group = next(iter(log.groups - set(_OF_ALL)), "")
    headline = f"WorkersStuck: NCCL watchdog timeout{f' in group {group}' if group else ''}"
    return "\n".join([headline, *_by_rank(told), *reason.lines, f"  To see each rank's line of code, {_NEXT_DUMPS}"])


def _by_rank(told: dict[int, str]) -> list[str]:
    return [f"    {line}" for line in told_by_rank(told, "\n").split("\n")]


def _of_a_match(log: JobLog) -> Reason:
    number = min(timeout.number for timeout in log.timeouts.values())
    return Reason("log-of-a-match", [f"All ranks in this log called collective {number}, but it did not complete."])


def _told(timeout: Timeout) -> str:
    elements = "" if timeout.elements is None else f" of {count(timeout.elements, 'element')}"
    call = f"{timeout.operation}{elements}, collective {timeout.number}"
    return f"  timed out in {call}, after {timeout.seconds:g} seconds"


def _recorded(log: JobLog, rank: int, ranks: tuple[int, ...]) -> Recorded:
    point = meeting_point("", BLANK.group, ranks, None, 0)
    timeout = log.timeouts.get(rank)
    if timeout is None:
        made = max(log.enqueued.get(rank, 0), 0)
        return Recorded(0.0, (), made, before=((point, made),), standing=Standing(is_free=False))
    name, made = timeout.operation, timeout.number - 1
    shape = () if timeout.elements is None else (timeout.elements,)
    call = dataclasses.replace(BLANK, call=name, operation=name, group_ranks=ranks, shape=shape)
    return Recorded(0.0, (call,), made, before=((point, made),), standing=Standing(False, (made,)))
