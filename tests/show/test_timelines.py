"""A timeline holds what was recorded: the order, what waited, what moved, what went on in the background."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from drawn import Drawn, calls_of, shown_layout
from figure_catalog import barriers, circle, phases
from recorded import call, record, record_work, retimed, ring_steps

from ddp_lessons import show
from ddp_lessons.record.event import Event


def told(figure: show.Figure) -> list[str]:
    """How long each call waited and moved data, rank by rank."""
    titles = [(int(one.get("data-lane", 0)), next(one.itertext())) for one in calls_of(figure)]
    return [title.split(" · ")[1] for _, title in sorted(titles, key=lambda pair: pair[0])]


def lanes(figure: show.Figure) -> list[str]:
    return figure.text.splitlines()[2:]


def boxes(figure: show.Figure, color: str) -> list[Drawn]:
    """Those in a color that begins so."""
    shapes = [shape for shape in shown_layout(figure).shapes if not shape.text]
    return [shape for shape in shapes if any(one.startswith(color) for one in shape.colors)]


def test_a_rank_waits_in_a_collective_until_the_last_one_comes() -> None:
    assert told(show.timeline(barriers(90))) == [
        "waited 20 ms, moved data for 70 ms",
        "waited 10 ms, moved data for 70 ms",
        "waited 0, moved data for 70 ms",
    ]


@pytest.mark.parametrize(("send", "recv"), [((1, 9), (4, 7)), ((4, 7), (1, 7))])
def test_a_message_waits_until_both_sides_have_called_and_moves_until_it_has_arrived(
    send: tuple[int, int], recv: tuple[int, int]
) -> None:
    figure = show.timeline(record([[call("send", *send, peer=1)], [call("recv", *recv, peer=0)]]))
    early, late = "waited 3 ms, moved data for 3 ms", "waited 0, moved data for 3 ms"
    assert told(figure) == ([early, late] if send < recv else [late, early])


def test_of_a_call_in_the_background_the_wait_is_told() -> None:
    busy = call("recv", 2, 9, name="irecv", peer=0, issued=2.5, waited=5)
    figure = show.timeline(record([[call("send", 6, 9, peer=1)], [busy]]))
    assert told(figure)[1] == "in the background for 7 ms, in wait() for 4 ms"


def test_a_blocking_call_is_never_in_the_background_however_late_its_wait_began() -> None:
    slow: dict[str, Any] = {"issued": 4, "waited": 6, "is_blocking": True}  # the processor was with another process
    figure = show.timeline(record([[call("send", 2, 9, peer=1)], [call("recv", 2, 9, peer=0, **slow)]]))
    assert told(figure)[1] == "waited 0, moved data for 7 ms"


def test_what_waits_forever_is_told_in_words_and_in_the_call() -> None:
    figure = show.timeline(circle(2))
    assert told(figure) == ["waits forever"] * 2
    said = {shape.text for shape in shown_layout(figure).texts}
    assert {"rank 0 waits forever in recv from rank 1", "rank 1 waits forever in recv from rank 0"} <= said


def test_time_begins_when_the_function_has_begun_on_every_rank() -> None:
    calls = record([[call("barrier", begin, 50, group_ranks=(0, 1))] for begin in (1, 30)])
    figure = show.timeline(record_work([[(0, 1, 1)], [(20, 30, 10)]], calls, late_by=20))
    assert told(figure) == ["waited 10 ms, moved data for 20 ms", "waited 0, moved data for 20 ms"]


def test_short_runs_begin_with_steps_and_long_ones_and_phases_with_time() -> None:
    short, long = barriers(40), barriers(90)
    shown = {"short": show.timeline(short), "long": show.timeline(long), "asked": show.timeline(long, axis="steps")}
    shown |= {"phases": show.timeline(phases(short, [(1, "forward")], [], []))}
    assert {name: shown_layout(figure).view for name, figure in shown.items()} == {
        "short": "Steps",
        "long": "Time",
        "asked": "Steps",
        "phases": "Time",
    }


def test_phases_last_from_their_label_to_the_next_one_or_to_the_end() -> None:
    own = [(0, "forward"), (20, "backward"), (60, ""), (80, "step")]
    figure = show.timeline(phases(record([[call("barrier", 0, 100, group_ranks=(0,))]]), own))
    drawn = sorted((one.left, one.right) for one in boxes(figure, "#") if one.right - one.left > 20)
    begin, end = drawn[0][0], drawn[-1][1]
    parts = [100 * (edge - begin) / (end - begin) for pair in drawn for edge in pair]
    assert parts == pytest.approx([0, 20, 20, 60, 80, 100], abs=0.5)


@pytest.mark.parametrize(("on_cpu", "heights"), [((90, 0.1), [22]), ((45, 9), [11, 2.2])])
def test_between_calls_a_bar_is_as_high_as_the_part_of_the_time_on_a_cpu(
    on_cpu: Sequence[float], heights: list[float]
) -> None:
    calls = [[call("barrier", 100 * turn, 100 * turn + 10, group_ranks=(0,)) for turn in range(3)]]
    gaps = [(100.0 * turn + 10, 100.0 * turn + 100, milliseconds) for turn, milliseconds in enumerate(on_cpu)]
    figure = show.timeline(record_work([gaps], record(calls)))
    in_lane = [one for one in boxes(figure, "f-line") if one.right - one.left > 50]
    assert [one.bottom - one.top for one in in_lane] == pytest.approx(heights, abs=0.1)


def test_the_text_follows_order_and_not_times() -> None:
    calls = [[call("send", 1, 2, peer=1), call("barrier", 3, 9, group_ranks=(0, 1))]]
    calls.append([call("recv", 0, 2, peer=0), call("barrier", 8, 9, group_ranks=(0, 1))])
    stretched = [retimed(mine, lambda moment: 10 + 7 * (moment - 10)) for mine in calls]
    one, other = show.timeline(record(calls)), show.timeline(record(stretched))
    assert (one.text, one.alt) == (other.text, other.alt)
    assert lanes(one) == ["rank 0 | send->1 |         | barrier", "rank 1 |         | recv<-0 | barrier"]


def test_messages_that_cross_are_in_the_steps_where_the_ranks_wait_for_them() -> None:
    """Both ask to receive before both send: nobody comes first, and yet there is an order."""
    calls = [
        [call("recv", 1, 6, name="irecv", peer=other, issued=1.1, waited=4), call("send", 2, 3, peer=other)]
        for other in (1, 0)
    ]
    assert lanes(show.timeline(record(calls))) == ["rank 0 | send->1 | irecv<-1", "rank 1 | send->0 | irecv<-0"]


def test_different_collectives_that_met_are_both_named() -> None:
    mixed = record([[call(name, 1, None, group_ranks=(0, 1))] for name in ("all_reduce", "broadcast")])
    assert "rank 0 called all_reduce; rank 1 called broadcast" in show.timeline(mixed).text


def test_threads_of_a_rank_have_an_order_each() -> None:
    """Two threads with a group each came in another order on the other rank."""

    def of_thread(name: str, operation: str, later: float) -> list[Event]:
        about: dict[str, Any] = {"group": name, "thread": name, "group_ranks": (0, 1)}
        return [call(operation, moment + later, moment + later + 8, **about) for moment in (1, 2, 3)]

    one = [*of_thread("a", "barrier", 0), *of_thread("b", "all_reduce", 5)]
    other = [*of_thread("b", "all_reduce", 0), *of_thread("a", "barrier", 5)]
    first, second = lanes(show.timeline(record([one, other])))
    assert first.removeprefix("rank 0") == second.removeprefix("rank 1")
    assert (first.count("barrier"), first.count("all_reduce")) == (3, 3)


def test_of_very_many_calls_only_the_newest_are_drawn_and_the_others_counted() -> None:
    some, many = (show.timeline(ring_steps(16, steps)) for steps in (63, 625))
    some_page, page = (figure._repr_mimebundle_()[0]["text/html"] for figure in (some, many))
    assert len(page) < min(1.2 * len(some_page), 500_000)
    assert "older calls of rank 0 not shown." in many.text


def test_what_was_over_before_every_rank_had_begun_takes_no_time() -> None:
    calls = record([[call("isend", 1, 2, peer=1, error="ValueError: no such peer")], []])
    assert told(show.timeline(record_work([[], []], calls, late_by=20), axis="time"))[0] == "failed"
