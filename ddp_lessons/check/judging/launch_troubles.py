"""Launches that failed or hung: what happened, in the words of the exercise, and the likely mistake."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ddp_lessons.check.judging.exercise import Exercise
from ddp_lessons.check.judging.exercise_trials import Trial
from ddp_lessons.check.judging.judgment import read_too_early
from ddp_lessons.check.judging.trial_traffic import Standstill, group_between_trials, hangs, is_between
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.diagnosis.wording import DDP

Trouble = WorkerFailed | WorkersStuck
_WHERE = re.compile(r"^    rank (\d+)   (.*)$", re.M)
_NOISE = re.compile(r"\[[^][]*/gloo/\S*\] ?| ?\[[\d.:a-f]+\]:\d+")  # a line of C++, an address with its port
_COLLECTIVE = re.compile(
    r"\b(all_reduce|all_gather\w*|reduce_scatter\w*|broadcast|reduce|gather|scatter|all_to_all\w*)\("
)
_TO_ITSELF = ("should not be the same as the rank of the current process", "Pair is not connected")
_NEVER_WAITS = re.compile(r"^waits in (?:get_rank|get_world_size|is_initialized) \((.*)\)$")
_NAP = re.compile(r"^(?!waits in).*\bsleep\(([\d.]+)\)")
_NOT_TRUSTED = "the results cannot be trusted"
_NEVER_WAITED = re.compile(r"wait\(\) was never called for (\w+) of .*its tensor may not be complete")
_LONG_NAP_SECONDS = 0.05
_VERY_MANY = 150
_RETURNS_NOTHING = re.compile(
    r"(?:[=(]|return)\s*(?:\w+\.)*(all_reduce|broadcast|reduce\w*|all_gather\w*|scatter|all_to_all\w*|send)\("
    r"(?!.*async_op=True)"
)
_TOLD_ELSEWHERE = ("  Rank", "  Last output", "  Next")

_MISTAKES = (
    (
        "SIGABRT",
        "Mismatched send and recv: the tensors differ in size or dtype. Receive into torch.empty_like(tensor), "
        "or into a part of it.",
    ),
    (
        "of type torch.Tensor",
        "It passes something other than a tensor to torch.distributed. For a number, pass torch.tensor(number).",
    ),
    ("contiguous", "torch.distributed can only send contiguous tensors. Call contiguous() first."),
    (
        "process group has not been initialized",
        "The process group was destroyed or replaced. Call neither init_process_group nor destroy_process_group.",
    ),
    (
        "offset < this->size",
        "An empty message must be received from a specific rank. Pass the source rank to recv, or skip empty chunks.",
    ),
    (
        "exited with code",
        "A rank exited before it returned an answer. Return the answer, and do not call sys.exit() or os._exit().",
    ),
)


def what_failed(error: WorkerFailed, exercise: Exercise) -> tuple[str, list[str]]:
    """The likely mistake, and lines that show which rank failed, how and where."""
    lines = _NOISE.sub("", str(error)).split("\n")
    own = [line for line in lines if not line.startswith(_TOLD_ELSEWHERE) and "<string>" not in line]
    own = own[: next((n for n, line in enumerate(lines) if line.startswith(_TOLD_ELSEWHERE)), len(own))]
    if own[0].endswith(_NOT_TRUSTED):  # the following lines say why, in whole sentences
        told = " ".join(line.strip() for line in own[1:])
        early = _NEVER_WAITED.search(told)
        return (read_too_early(early[1]) if early else told), []
    fallback = own[0][0].upper() + own[0][1:].rstrip(".") + "."
    mistake = next((sentence for sign, sentence in _MISTAKES if sign in own[0]), fallback)
    events = error.results.events
    if "SIGABRT" in own[0] and (call := _COLLECTIVE.search(" ".join(own[1:]))):
        mistake = _of_different_kind(call[1], events, exercise)
    elif "NoneType" in own[0] and (call := _RETURNS_NOTHING.search(" ".join(own[1:]))):
        mistake = f"{call[1]} returns None. Use the tensor that you passed, which holds the result."
    elif any(sign in own[0] for sign in _TO_ITSELF):
        alone = own[0].startswith("rank 0 of 1 ")
        mistake = "A rank sends to itself or receives from itself, which torch refuses. " + (
            "When world_size is 1, skip the communication." if alone else exercise.cure_of_itself
        )
    elif events.world_size:
        mistake = _no_such_rank(events) or exercise.why_failed(" ".join(own)) or mistake + _gave_none(own[0], events)
    return mistake, [f"    {line.strip()}" for line in own]


def _gave_none(message: str, events: Events) -> str:
    """A further sentence if the None that was used may be the return value of a collective."""
    calls = [event.call for event in _by_rank(events) if event.operation in ("all_reduce", "broadcast", "reduce")]
    return (
        f" {calls[-1]} returns None. Use the tensor that you passed, which holds the result."
        if "NoneType" in message and calls
        else ""
    )


def was_not_begun(error: WorkerFailed) -> bool:
    """The stub that raises NotImplementedError, on every rank, before anything else."""
    return "raised NotImplementedError" in str(error).split("\n")[0]


def what_is_stuck(error: WorkersStuck, exercise: Exercise, trial: Trial) -> tuple[str, list[str]]:
    """The likely mistake, and where each rank is."""
    events = error.results.events
    between = group_between_trials(events)
    waiting = {rank: _waiting(events.of(rank)) for rank in range(events.world_size)}
    through = [rank for rank, event in waiting.items() if event is not None and is_between(event, between)]
    where = {int(rank): what for rank, what in _WHERE.findall(str(error))}
    where = {rank: _NEVER_WAITS.sub(r"is at \1", what) for rank, what in where.items()}
    lines = [f"    rank {rank}   {'has returned' if rank in through else what}" for rank, what in where.items()]
    if mistake := _no_such_rank(events) or _in_crumbs(events, between) or _tags(events):
        return mistake, lines
    busy = [rank for rank, event in waiting.items() if event is None]
    if busy:
        what = where.get(busy[0], "is busy").partition(":   ")[0]
        what += ")" * (what.count("(") - what.count(")"))
        if what.startswith("is starting"):
            return "The time was over before your function began: this machine is busy. Run the check again.", lines
        return f"It does not return: rank {busy[0]} {what}. Look for a loop that never ends.", lines
    calls = [event for event in waiting.values() if event is not None and not is_between(event, between)]
    made = {rank: _count_since_the_meeting(events.of(rank), between, calls[0].call) for rank in through}
    standstill = Standstill(tuple(calls), tuple(through), trial, made)
    mistake = exercise.why_stuck(standstill) or _wrong_partner(calls, events, exercise)
    return mistake or _left_early(calls, through, events, between) or _not_met(calls, through), lines


def too_slow(error: WorkersStuck) -> str:
    """A sentence if ranks sleep, or ""."""
    naps = [nap[1] for _, what in _WHERE.findall(str(error)) if (nap := _NAP.search(what))]
    if not any(float(nap) >= _LONG_NAP_SECONDS for nap in naps):  # a short sleep is part of a polling loop
        return ""
    patience = str(error).partition("did not return within ")[2].partition("\n")[0].partition(",")[0]
    return (
        f"The trials together take longer than {patience}, which is the limit of this check. Wait in a blocking "
        f"call instead of sleeping."
    )


def _by_rank(events: Events) -> list[Event]:
    """In an order that is the same in every launch."""
    return [event for rank in range(events.world_size) for event in events.of(rank)]


def _no_such_rank(events: Events) -> str:
    for event in _by_rank(events):
        if event.peer is not None and not 0 <= event.peer < events.world_size:
            does = "sends to" if event.operation == "send" else "waits for"
            return (
                f"Rank {event.rank} {does} rank {event.peer}, but the ranks are 0 to {events.world_size - 1}. Check "
                f"how that number is computed."
            )
    return ""


def _in_crumbs(events: Events, between: str) -> str:
    for rank in range(events.world_size):
        since = [event for event in events.of(rank) if not is_between(event, between)]
        if sum(event.operation == "send" for event in since) > _VERY_MANY:
            return "It sends too many small messages. Send the whole tensor, or large parts of it."
    return ""


def _tags(events: Events) -> str:
    """A send and a recv that would match if they had the same tag."""
    still = [event for event in _by_rank(events) if event.end is None and not event.error and not event.is_collective]
    for send in [event for event in still if event.operation == "send"]:
        open_there = [
            one for one in still if one.operation == "recv" and (one.rank, one.peer) == (send.peer, send.rank)
        ]
        tags = [one.tag for one in open_there]
        if tags and send.tag not in tags:
            return (
                f"The tags do not match: rank {send.rank} sends with tag {send.tag}, but rank {send.peer} receives "
                f"with tag {tags[0]}. Use the same tag."
            )
    return ""


def _of_different_kind(call: str, events: Events, exercise: Exercise) -> str:
    last = [events.of(rank)[-1] for rank in range(events.world_size) if events.of(rank)]
    in_ddp, elsewhere = ([event for event in last if (event.call == DDP) == is_ddp] for is_ddp in (True, False))
    if in_ddp and elsewhere:
        return (
            f"Mismatched collectives: rank {in_ddp[0].rank} is in DDP's {in_ddp[0].operation}, but rank "
            f"{elsewhere[0].rank} is in {elsewhere[0].call}. {exercise.cure_of_sizes}"
        )
    dtypes = {event.rank: event.dtype for event in _by_rank(events) if event.call == call}  # of the last one
    if len(set(dtypes.values())) > 1:
        told = " and ".join(sorted(set(dtypes.values())))
        return f"Dtype mismatch in {call}: the ranks pass {told}. Give the dtype explicitly where the tensors are made."
    return f"Size mismatch in {call}: the ranks pass tensors of different sizes. {exercise.cure_of_sizes}"


def _wrong_partner(calls: Sequence[Event], events: Events, exercise: Exercise) -> str:
    """A mistake that one of the calls shows by itself."""
    first, world_size = calls[0], events.world_size
    if world_size == 1:
        return (
            f"Hang: the only rank waits in {first.call} for another rank. When world_size is 1, skip the communication."
        )
    if first.is_collective:
        all_calls = [[event for event in events.of(rank) if event.call == first.call] for rank in range(world_size)]
        turn = len(all_calls[first.rank]) - 1  # with two sizes, the rank with the smaller one may be done and elsewhere
        if len({mine[turn].shape for mine in all_calls if len(mine) > turn}) > 1:
            return _of_different_kind(first.call, events, exercise)
    return ""


def _left_early(calls: Sequence[Event], returned: Sequence[int], events: Events, between: str) -> str:
    """A sentence if a rank took part in some of these calls, but returned before the last one."""
    first = calls[0]
    if not returned or not first.is_collective:
        return ""
    made = {rank: _count_since_the_meeting(events.of(rank), between, first.call) for rank in (returned[0], first.rank)}
    if not 0 < made[returned[0]] < made[first.rank]:
        return ""
    return (
        f"Rank {returned[0]} returned after {_times(made[returned[0]])} of {first.call}, but rank {first.rank} "
        "waits in the next call. Make the same calls on every rank."
    )


def _count_since_the_meeting(events: Sequence[Event], between: str, call: str) -> int:
    """How often this rank has made this call in the trial that hangs."""
    met = [place for place, event in enumerate(events) if is_between(event, between) and event.end is not None]
    return sum(event.call == call for event in events[met[-1] if met else 0 :])


def _times(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"


def _not_met(calls: Sequence[Event], returned: Sequence[int]) -> str:
    first, operations = calls[0], {call.operation for call in calls}
    if not operations & {"send", "recv"}:
        return (
            f"Hang: not every rank calls {first.call}, so the ranks that call it wait forever. Call it on every rank."
        )
    if not operations <= {"send", "recv"}:
        collective = next(call for call in calls if call.is_collective)
        other = next(call for call in calls if not call.is_collective)
        return (
            f"Rank {collective.rank} waits in {collective.call}, but rank {other.rank} waits in {other.call}. Match "
            f"every send with a recv first, then call {collective.call} on every rank."
        )
    if mistake := _of_one_that_has_returned(calls, returned):
        return mistake
    if returned and operations == {"recv"}:
        source = "another rank" if first.peer is None else f"rank {first.peer}"
        return (
            f"Rank {first.rank} waits in {first.call} for a message from {source} that is never sent. Add the "
            f"matching send."
        )
    if returned and operations == {"send"}:
        return (
            f"Rank {first.rank} waits in {first.call}, but rank {first.peer} never receives the message. Add the "
            f"matching recv."
        )
    if operations == {"send"} and any(call.call == "isend" for call in calls):
        return "Deadlock: wait() right after isend blocks until the message is received. Call wait() after recv."
    if operations == {"send"}:
        return (
            "Deadlock: every rank calls send first, and send blocks until the other side receives. Let one side "
            "receive first, or use isend or irecv."
        )
    if operations == {"recv"}:
        return "Deadlock: every rank calls recv first, so no rank can send. Let one rank send first."
    return (
        "Deadlock: the ranks wait for each other in a circle. Reorder the calls, so that when one rank sends, the "
        "other rank's next call is the matching recv."
    )


def _of_one_that_has_returned(calls: Sequence[Event], returned: Sequence[int]) -> str:
    """A sentence if a rank waits for the wrong rank while another one sends to it."""
    for recv in calls:
        sends = [call for call in calls if call.operation == "send" and call.peer == recv.rank]
        if recv.operation == "recv" and recv.peer in returned and sends:
            return (
                f"Rank {recv.rank} waits for a message from rank {recv.peer}, which has returned. Receive from rank "
                f"{sends[0].rank}, which sends to rank {recv.rank}."
            )
    return ""


def _waiting(events: Sequence[Event]) -> Event | None:
    """The call that this rank is in."""
    return next((event for event in reversed(events) if hangs(event)), None)
