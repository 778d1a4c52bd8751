"""What is wrong in one case, as a sentence with details: a wrong answer, or what a rank communicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.check.differences import Difference, NothingDone, difference
from ddp_lessons.check.exercise import Exercise, Trial
from ddp_lessons.check.report import table
from ddp_lessons.check.runs import Case, Trouble, recognized
from ddp_lessons.check.traffic import Traffic
from ddp_lessons.check.trials import in_words
from ddp_lessons.record.event import Event
from ddp_lessons.run.diagnosis.wording import ranks_named

OTHER_GROUPS = "mismatch in new_group:"
_SMALL_CHANGE_BYTES = 64  # a count or a size may travel in addition to the data
_ONLY_OF_A_LAUNCH = ("  Last output", "  torchrun would", "  Next: fix that line", "  Next: see above")


@dataclass(frozen=True)
class Finding:
    sentence: str
    details: Sequence[str] = ()
    trial: Trial | None = None  # in which the answer is wrong: then it matters what was right before


def first_wrong(exercise: Exercise, cases: Sequence[Case]) -> Finding | None:
    """What is wrong in the last of these cases; the others are right."""
    case = cases[-1]
    traffic = case.yours.traffic
    return (
        certainly_wrong(exercise, traffic)
        or _changed_too_early(traffic)
        or _wrong_answer(exercise, cases)
        or _never_received(traffic)
        or _wrong_traffic(exercise, cases)
    )


def certainly_wrong(exercise: Exercise, traffic: Traffic) -> Finding | None:
    """A mistake even if the rank has not returned."""
    return _forbidden(exercise, traffic) or _not_waited_for(traffic)


def of_trouble(trouble: Trouble, trial: Trial | None = None) -> Finding:
    """The launch's own reason: the sentences of its message, and below them where each rank is, and its advice."""
    first, *others = str(trouble).split("\n")
    details: list[str] = []
    advice: list[str] = []
    sentences = [f"{first[0].upper()}{first[1:].rstrip('.:')}."]
    is_shown = True
    for line in others:
        if not line.startswith("   "):
            is_shown = not line.startswith(_ONLY_OF_A_LAUNCH)
            if is_shown:
                is_fact = line.startswith("  Rank") and line.endswith(("stopped.", "returned."))
                (advice if line.startswith("  Next") or is_fact else sentences).append(line.strip())
        elif is_shown:
            details.append(line)
    if OTHER_GROUPS in str(trouble):  # where each rank stops then is chance
        place = next(place for place, sentence in enumerate(sentences) if OTHER_GROUPS in sentence)
        sentences, details = sentences[place:], []
    return Finding(" ".join(sentences), [*details, *(f"    {line}" for line in advice)], trial)


def traffic_table(exercise: Exercise, case: Case) -> list[str]:
    yours, needed = _carried(exercise, case.yours.traffic), _needed(exercise, case)
    if case.world_size == 1 or not (yours or needed):
        return []
    head = (f"traffic of {ranks_counted(case.world_size)}", "yours", "needed")
    return table([head, (exercise.budget.measured, f"{yours:,}", f"{needed:,}")])


def ranks_counted(world_size: int) -> str:
    return "1 rank" if world_size == 1 else f"{world_size} ranks"


def _wrong_answer(exercise: Exercise, cases: Sequence[Case]) -> Finding | None:
    case = cases[-1]
    rank, first, is_wrong_everywhere = _first_difference(exercise, case)
    if first is None:
        return None
    who = "Your function" if is_wrong_everywhere else "Rank {rank}"
    early = case.yours.traffic.collective_never_waited_for()
    mistake = recognized(exercise, cases, is_right=False) if early is None else None
    sentence = (
        (f"The result of {early.call} is read too early. Call wait() on its handle first." if early else "")
        or (mistake.sentence if mistake is not None else "")
        or _said_nothing(exercise, case, rank, who)
        or (f"{who} {first.fault}" if first.fault and first.place == "answer" else "")
        or _hint(exercise, first)
        or "Your answer is wrong. Compare it with the expected values below."
    )
    given = in_words(exercise.parameters, case.trial.arguments(rank, case.world_size))
    details = [
        f"    {ranks_counted(case.world_size)}; rank {rank} was given {given}",
        *table([("", "yours", "expected"), (first.place, first.yours, first.expected)]),
        *traffic_table(exercise, case),
    ]
    return Finding(sentence.replace("{rank}", str(rank)), details, case.trial)


def _first_difference(exercise: Exercise, case: Case) -> tuple[int, Difference | None, bool]:
    """The most important field comes first, and in it the first rank; is it wrong on all ranks?"""
    pairs = [*zip(case.yours.fields, case.expected.fields, strict=True)]
    for name in dict.fromkeys(name for _, expected in pairs for name in expected):
        found = [
            (rank, difference(yours.get(name), expected[name], exercise.tolerance, place=name))
            for rank, (yours, expected) in enumerate(pairs)
            if name in expected
        ]
        if wrong := [(rank, one) for rank, one in found if one is not None]:
            return *wrong[0], len(wrong) == len(found)
    return 0, None, False


def _hint(exercise: Exercise, first: Difference) -> str:
    """The sentence for the field, or for several fields whose names begin alike."""
    place = "answer" if first.place.startswith("[") else first.place
    return next((hint for name, hint in exercise.hints.items() if place.startswith(name)), "")


def _said_nothing(exercise: Exercise, case: Case, rank: int, who: str) -> str:
    is_needed = case.expected.traffic.events and exercise.budget.least
    if case.world_size > 1 and is_needed and not case.yours.traffic.events:
        return (
            "No rank sends or receives anything, so each rank knows only its own arguments. Communicate with "
            "torch.distributed. If there is a loop, check its range."
        )
    if not isinstance(case.yours.fields[rank].get("answer"), NothingDone):
        return ""
    return f"{who} returns None and does not change its tensor. Change it in place, or return {exercise.result}."


def _wrong_traffic(exercise: Exercise, cases: Sequence[Case]) -> Finding | None:
    case = cases[-1]
    sentence = _outside_the_budget(exercise, case)
    if not sentence:
        return None
    mistake = recognized(exercise, cases, is_right=True)
    sent = case.yours.traffic.brought
    sentence = mistake.sentence.replace("{rank}", str(sent.index(max(sent)))) if mistake is not None else sentence
    details = [f"    {ranks_counted(case.world_size)}; the answer is correct", *traffic_table(exercise, case)]
    return Finding(sentence, details)


def _outside_the_budget(exercise: Exercise, case: Case) -> str:
    budget, traffic = exercise.budget, case.yours.traffic
    if case.world_size > 1 and sum(traffic.brought) < budget.least * sum(case.expected.traffic.brought):
        return "The ranks communicate too little to know the answer. Send the data with torch.distributed only."
    yours, needed = _carried(exercise, traffic), _needed(exercise, case)
    small_change = 0 if budget.measured.startswith("messages") else _SMALL_CHANGE_BYTES
    if budget.most is not None and yours > needed + small_change:
        are = "is" if needed == 1 else "are"
        much = f"The ranks communicate too much: {yours:,} {budget.measured}, but {needed:,} {are} enough."
        return f"{much} {budget.too_much}".rstrip()
    for rank in range(case.world_size):
        targets = traffic.destinations(rank)
        if targets and budget.may_send is not None and not budget.may_send(rank, case.world_size, targets):
            return f"Rank {rank} sends to {ranks_named(sorted(targets))}. {budget.too_much}".rstrip()
    return ""


def _carried(exercise: Exercise, traffic: Traffic) -> int:
    if exercise.budget.measured.startswith("messages"):
        return max(map(traffic.messages_of, range(len(traffic.by_rank))))
    return sum(traffic.brought) if exercise.budget.measured.endswith("together") else max(traffic.brought)


def _needed(exercise: Exercise, case: Case) -> int:
    most = exercise.budget.most
    return most(case) if most is not None else _carried(exercise, case.expected.traffic)


def _forbidden(exercise: Exercise, traffic: Traffic) -> Finding | None:
    allowed = exercise.budget.calls
    event = next((one for one in traffic.collectives if allowed and one.call not in allowed), None)
    return _about(event, "Your function calls the collective {call}. Use only messages: send, recv, isend and irecv.")


def _not_waited_for(traffic: Traffic) -> Finding | None:
    event = traffic.never_waited_for()
    what = "sent" if event is not None and event.operation == "send" else "in the buffer"
    sentence = (
        f"Your function never waits for its {{call}}, so the data may not be {what} yet. Keep each returned handle, "
        "and call "
    )
    return _about(event, f"{sentence}wait() on it.", " and never waits for it")


def _changed_too_early(traffic: Traffic) -> Finding | None:
    event = next((event for event in traffic.events if event.remark == "changed"), None)
    return _about(
        event,
        "Your function changes the tensor of {call} before wait(), so the changed values may be sent. Call "
        "wait() first.",
    )


def _never_received(traffic: Traffic) -> Finding | None:
    return _about(
        traffic.never_received(),
        "A message from rank {rank} to rank {peer} is never received. Add the matching recv.",
    )


def _about(event: Event | None, sentence: str, more: str = "") -> Finding | None:
    if event is None:
        return None
    words = sentence.format(call=event.call, rank=event.rank, peer=event.peer)
    return Finding(words, [f"    rank {event.rank} calls {event.call} ({event.place}){more}"])
