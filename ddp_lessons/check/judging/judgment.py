"""What is wrong with one trial that has ended: the first mistake, and its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.check.judging.exercise import Case, Exercise, number
from ddp_lessons.check.judging.report_lines import table
from ddp_lessons.check.judging.trial_traffic import Traffic
from ddp_lessons.run.diagnosis.wording import ranks_named


@dataclass(frozen=True)
class Finding:
    """A mistake."""

    mistake: str
    details: Sequence[str] = ()
    stops_by_chance: bool = False  # then where each rank stopped says nothing
    is_about_the_answer: bool = False  # then it matters what was right before, as in "fails for integers"


def judge(exercise: Exercise, case: Case) -> Finding | None:
    """The first mistake in a case that has ended."""
    return (
        forbidden(exercise, case.traffic)
        or not_waited_for(case.traffic)
        or not_agreed(exercise, case.traffic)
        or _changed_too_early(case.traffic)
        or _wrong_answer(exercise, case)
        or _changed_input(exercise, case)
        or _never_received(case.traffic)
        or _wrong_traffic(exercise, case)
    )


def forbidden(exercise: Exercise, traffic: Traffic) -> Finding | None:
    if not (exercise.messages_only and traffic.collectives):
        return None
    event = traffic.collectives[0]
    return Finding(
        f"It calls the collective {event.call}. Use only messages: send, recv, isend and irecv.",
        [f"    rank {event.rank} calls {event.call} ({event.place})"],
    )


def not_waited_for(traffic: Traffic) -> Finding | None:
    event = traffic.never_waited_for() or traffic.given_up()
    if event is None:
        return None
    what = "sent" if event.operation == "send" else "in the buffer"
    batch = [one for one in traffic.by_rank[event.rank] if (one.call, one.place) == (event.call, event.place)]
    waited = sum(one.waited is not None for one in batch)
    if event.call == "batch_isend_irecv" and waited:
        return Finding(
            f"It waits for only {waited} of the {len(batch)} handles of {event.call}. Call wait() on each of them.",
            [f"    rank {event.rank} calls {event.call} ({event.place})"],
        )
    return Finding(
        f"It never waits for its {event.call}, so the data may not be {what} yet. Keep the returned handle and "
        "call wait() on it.",
        [f"    rank {event.rank} calls {event.call} ({event.place}) and never waits for it"],
    )


def not_agreed(exercise: Exercise, traffic: Traffic) -> Finding | None:
    """The ranks made the same calls, but with different meanings."""
    if traffic.makes_different_groups():
        return Finding(
            "The ranks do not create the same groups in the same order. Every rank must call new_group for every "
            "group, even for groups that it does not belong to.",
            [f"    rank {one.rank} calls {one.call} ({one.place})" for one in traffic.first_groups()],
            stops_by_chance=True,
        )
    if pair := traffic.different_roots():
        if early := traffic.never_waited_for_before(pair):
            return Finding(read_too_early(early.call), [f"    rank {early.rank} calls {early.call} ({early.place})"])
        return Finding(
            f"Root mismatch in {pair[0].call}: the ranks pass different roots. Every rank must pass the same "
            f"root.{exercise.cure_of_roots}",
            [f"    rank {one.rank} calls {one.call} with root {one.root} ({one.place})" for one in pair],
        )
    return None


def _changed_too_early(traffic: Traffic) -> Finding | None:
    event = next((event for event in traffic.events if event.remark == "changed"), None)
    if event is None:
        return None
    return Finding(
        f"It changes the tensor of {event.call} before wait(), so the changed values may be sent. Call wait() first.",
        [f"    rank {event.rank} calls {event.call} ({event.place})"],
    )


def _wrong_answer(exercise: Exercise, case: Case) -> Finding | None:
    differences = {rank: exercise.difference(case, rank) for rank in range(case.world_size)}
    wrong = [rank for rank, difference in differences.items() if difference is not None]
    if not wrong:
        return None
    rank = wrong[0]
    first = differences[rank]
    assert first is not None
    mistake = _no_answer(exercise, case, wrong) or _said_nothing(exercise, case) or _read_too_early(case)
    rows = [("", "yours", "expected"), (first.place or "answer", first.yours, first.expected)]
    details = [_where(case, rank), *table(rows), *traffic_table(exercise, case)]
    mistake = (
        mistake
        or _only_some(case, wrong, first.mistake)
        or ("Your answer is wrong. Compare it with the expected values below.")
    )
    return Finding(mistake + _went_to_one_rank(case, wrong), details, is_about_the_answer=True)


_OF_ALL = ("That is", "The sum was", "The mean was", "It returns the sum", "It divides")


def _only_some(case: Case, wrong: Sequence[int], mistake: str) -> str:
    """Say also which ranks are right, unless the sentence is about one rank anyway."""
    right = [rank for rank in range(case.world_size) if rank not in wrong]
    if not right or not mistake.startswith(_OF_ALL):
        return mistake
    are = "is" if len(right) == 1 else "are"
    return f"Only {ranks_named(right)} {are} right. On rank {wrong[0]}, {mistake[0].lower()}{mistake[1:]}"


def _went_to_one_rank(case: Case, wrong: Sequence[int]) -> str:
    """A further sentence if the wrong ranks are exactly those that get nothing from a reduce."""
    calls = [event for event in case.traffic.collectives if event.rank == wrong[0]]
    # counts may have been reduced before; a broadcast after it would have distributed the result
    if not calls or calls[-1].operation != "reduce":
        return ""
    if {one.root for one in calls if one.operation == "reduce"} & {*wrong}:
        return ""
    return " reduce gives the sum to one rank only. Use all_reduce."


def _no_answer(exercise: Exercise, case: Case, wrong: Sequence[int]) -> str:
    """Some or all of the wrong ranks returned nothing."""
    nothing = [rank for rank in wrong if case.outcomes[rank].answer is None and exercise.returns_answer]
    if not exercise.keeps_input:
        nothing = [rank for rank in nothing if case.is_unchanged(rank)]  # otherwise the answer was meant to be in place
    if nothing != wrong:
        return ""
    right = [rank for rank in range(case.world_size) if rank not in wrong and not case.has_only_none(rank)]
    if any(case.outcomes[rank].answer is None for rank in right):
        return ""  # the right ranks have it in place, so these ranks were meant to
    if right:
        has = "has" if len(right) == 1 else "have"
        return f"Only {ranks_named(right)} {has} the answer; rank {wrong[0]} has None. Return the answer on every rank."
    if exercise.keeps_input:
        return f"It returns None. Return the answer, and leave the given {exercise.thing} unchanged."
    what = exercise.result
    return f"It returns None and does not change its tensor. Change the tensor in place, or return {what}."


def _said_nothing(exercise: Exercise, case: Case) -> str:
    if case.traffic.events or case.world_size == 1 or not exercise.messages_only:
        return ""
    return (
        "No rank sends or receives anything, so each rank knows only its own tensor. If there is a loop, check "
        "its range."
    )


def _read_too_early(case: Case) -> str:
    event = case.traffic.collective_never_waited_for()
    if event is None:
        return ""
    return read_too_early(event.call)


def read_too_early(call: str) -> str:
    return f"It reads the result of {call} too early. With async_op=True, call wait() on the returned handle first."


def _changed_input(exercise: Exercise, case: Case) -> Finding | None:
    changed = [rank for rank in range(case.world_size) if not case.is_unchanged(rank)]
    if not exercise.keeps_input or not changed:
        return None
    rank = changed[0]
    before, after = case.inputs[rank], case.given(rank)
    rows = [("", "yours", "expected")]
    if before.shape == after.shape:
        index = tuple((before != after).nonzero()[0].tolist())
        rows.append((str(list(index)), number(after[index].item()), number(before[index].item())))
    else:
        rows.append(("shape", str(list(after.shape)), str(list(before.shape))))
    thing, copy = exercise.thing, exercise.copy
    mistake = f"The answer is right, but the given {thing} was changed. Work on a copy: {copy}."
    return Finding(mistake, [_where(case, rank), f"    the given {thing} afterwards", *table(rows)])


def _never_received(traffic: Traffic) -> Finding | None:
    event = traffic.never_received()
    if event is None:
        return None
    return Finding(
        f"A message from rank {event.rank} to rank {event.peer} is never received. Add the matching recv.",
        [f"    rank {event.rank} calls {event.call} ({event.place})"],
    )


def _wrong_traffic(exercise: Exercise, case: Case) -> Finding | None:
    mistake = exercise.too_little(case) or exercise.too_much(case)
    if not mistake:
        return None
    return Finding(mistake, [f"    {_world(case.world_size)}; the answer is right", *traffic_table(exercise, case)])


def _where(case: Case, rank: int) -> str:
    return f"    {_world(case.world_size)}; rank {rank} was given {case.trial.named(rank)}"


def _world(world_size: int) -> str:
    return "1 rank" if world_size == 1 else f"{world_size} ranks"


def traffic_table(exercise: Exercise, case: Case) -> list[str]:
    if case.world_size == 1:
        return []
    whole = case.tensor_bytes
    yours, textbook = exercise.carried(case), exercise.textbook(case)
    if not yours and not textbook:
        return []  # nothing is sent, and nothing has to be
    rows = [
        (f"traffic of {_world(case.world_size)}", "yours", exercise.yardstick),
        (exercise.measured, f"{yours:,}", f"{textbook:,}"),
    ]
    if exercise.measured.startswith("bytes") and exercise.messages_only:
        rows.append(("in multiples of the tensor", f"{yours / whole:.2f}", f"{textbook / whole:.2f}"))
    return table(rows)
