"""The timeline holds exactly what was recorded: each message, each collective, what was waiting, what never ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from looks import check_that_words_stand_apart
from nights import nightly
from recorded import call, record, record_work, retimed, ring_steps, token_round

from ddp_lessons import show
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Told
from ddp_lessons.record.results import Results
from ddp_lessons.show.figures.drawing import Box, Line, Words

MS = 1e-3


def calls_of(figure: show.Figure, rank: int) -> list[dict[str, Any]]:
    return [call for call in figure.document["calls"] if call["rank"] == rank]


def parts_of(figure: show.Figure, rank: int, row: int = 0) -> list[Any]:
    """How each stretch looks, and from when to when it lasts, in milliseconds since the first call."""
    parts = [part for call in calls_of(figure, rank) for part in call["parts"] if part[3] == row]
    return [(look, begin, end) for begin, end, look, _ in parts]


def written(figure: show.Figure) -> list[str]:
    return [shape.text for shape in figure.still.shapes if isinstance(shape, Words)]


@pytest.mark.parametrize("world_size", [2, 3, 16])
def test_a_message_lasts_from_when_both_have_called_to_its_arrival(world_size: int) -> None:
    events = token_round(world_size)
    document = show.timeline(events).document
    first = min(event.begin for event in events)
    assert len(document["messages"]) == len(events.deliveries) == world_size - 1
    for message, delivery in zip(document["messages"], events.deliveries, strict=True):
        sender, receiver = document["calls"][message["send"]], document["calls"][message["recv"]]
        assert (sender["rank"], receiver["rank"]) == (delivery.send.rank, delivery.recv.rank)
        arrived = delivery.arrived
        assert arrived is not None
        moments = max(delivery.send.begin, delivery.recv.begin) - first, arrived - first
        assert (message["begin"] * MS, message["end"] * MS) == pytest.approx(moments)


def test_a_send_ends_when_the_message_has_arrived_however_late_the_call_is_back() -> None:
    figure = show.timeline(record([[call("send", 1, 9, peer=1)], [call("recv", 1, 3, peer=0)]]))
    assert parts_of(figure, 0) == [("move", 0, pytest.approx(2))]


def test_a_rank_waits_in_a_collective_until_the_last_one_comes() -> None:
    figure = show.timeline(record([[call("barrier", begin, 9, group_ranks=(0, 1, 2))] for begin in (1, 5, 3)]))
    assert parts_of(figure, 0) == [("wait", 0, pytest.approx(4)), ("move", pytest.approx(4), pytest.approx(8))]
    assert parts_of(figure, 1) == [("move", pytest.approx(4), pytest.approx(8))]
    assert [calls_of(figure, rank)[0]["waited"] for rank in range(3)] == pytest.approx([4, 0, 2])


@pytest.mark.parametrize(("send", "recv"), [((1, 7), (4, 7)), ((4, 7), (1, 7))])
def test_a_message_waits_until_both_sides_have_called(send: tuple[int, int], recv: tuple[int, int]) -> None:
    figure = show.timeline(record([[call("send", *send, peer=1)], [call("recv", *recv, peer=0)]]))
    early = 0 if send[0] < recv[0] else 1
    moving = ("move", pytest.approx(3), pytest.approx(6))
    assert parts_of(figure, early) == [("wait", 0, pytest.approx(3)), moving]
    assert parts_of(figure, 1 - early) == [moving]


def test_a_call_in_the_background_has_a_bar_of_its_own_below_and_the_wait_is_in_the_lane() -> None:
    busy = call("recv", 2, 9, name="irecv", peer=0, issued=2.5, waited=6)
    figure = show.timeline(record([[call("send", 2, 9, peer=1)], [busy]]))
    looks = [(look, round(begin, 3), round(end, 3)) for look, begin, end in parts_of(figure, 1)]
    assert looks == [("call", 0, 0.5), ("move", 4, 7)]
    assert parts_of(figure, 1, row=1) == [("travel", 0, pytest.approx(7))]


def test_time_in_wait_is_told_once_though_the_call_went_on_in_the_background() -> None:
    busy = call("recv", 2, 9, name="irecv", peer=0, issued=2.5, waited=5)
    figure = show.timeline(record([[call("send", 6, 9, peer=1)], [busy]]))
    (told,) = calls_of(figure, 1)
    assert (told["end"] - told["begin"], told["waited"], told["moved"]) == pytest.approx((7, 4, 3))


def test_the_figure_ends_when_the_function_has_returned() -> None:
    both = record([[call("send", 1, 2, peer=1)], [call("recv", 1, 2, peer=0)]])
    assert show.timeline(both).document["span"] == pytest.approx(1)
    asleep = record_work([[(2, 50, 0)], [(2, 102, 0)]], both)
    assert show.timeline(asleep).document["span"] == pytest.approx(101)


def test_calls_that_go_on_at_once_are_in_different_rows() -> None:
    both: dict[str, Any] = {"name": "isend", "peer": 1}
    sends = [call("send", begin, 9, issued=begin + 0.1, waited=9.0, **both) for begin in (1, 2)]
    figure = show.timeline(record([sends, []]))
    assert [max(part[3] for part in one["parts"]) for one in calls_of(figure, 0)] == [1, 2]


def test_a_blocking_call_is_never_in_the_background_however_late_its_wait_began() -> None:
    both: dict[str, Any] = {"group_ranks": (0, 1)}
    slow: dict[str, Any] = {"issued": 4, "waited": 6, "is_blocking": True}  # the processor was with another process
    figure = show.timeline(record([[call("send", 2, 9, peer=1)], [call("recv", 2, 9, peer=0, **slow)]]))
    assert parts_of(figure, 1) == [("move", 0, pytest.approx(7))]
    figure = show.timeline(record([[call("broadcast", 2, 9, **both)], [call("broadcast", 2, 9, **both, **slow)]]))
    assert parts_of(figure, 1) == [("move", 0, pytest.approx(7))]


def test_a_call_that_is_not_over_lasts_to_the_end_and_is_named() -> None:
    figure = show.timeline(record([[call("send", 1, None, peer=1)], [call("send", 2, None, peer=0)]]))
    span = figure.document["span"]
    assert [one["end"] for rank in (0, 1) for one in calls_of(figure, rank)] == [span, span]
    assert {"rank 0 waits in send to 1", "rank 1 waits in send to 0"} <= set(written(figure))
    assert "2 calls not over" in figure.alt
    assert "send->1 ..." in figure.text


def test_a_rank_that_never_came_to_a_collective_is_shown_where_it_is_missing() -> None:
    everyone = (0, 1, 2)
    lanes = [[call("all_reduce", begin, None, group_ranks=everyone)] for begin in (1, 2)]
    figure = show.timeline(record([lanes[0], [], lanes[1]]))
    (meeting,) = figure.document["collectives"]
    assert (meeting["is_odd"], meeting["missing"], meeting["name"]) == (True, [1], "all_reduce !")
    assert "rank 1 never called it" in figure.text
    assert {"no call", "rank 0 waits in all_reduce for rank 1"} <= set(written(figure))


def test_different_collectives_that_met_are_both_named() -> None:
    figure = show.timeline(record([[call(name, 1, None, group_ranks=(0, 1))] for name in ("all_reduce", "broadcast")]))
    assert "rank 0 called all_reduce; rank 1 called broadcast" in figure.text
    assert figure.document["collectives"][0]["name"] == "all_reduce / broadcast !"


def test_a_failed_call_says_so() -> None:
    failed = call("recv", 1, 5, peer=1, error="RuntimeError: closed")
    figure = show.timeline(record([[failed], [call("barrier", 1, 2)]]))
    assert calls_of(figure, 0)[0]["state"] == "failed"
    assert "recv<-1 failed" in figure.text
    assert "rank 0 recv from 1 failed" in written(figure)


def later(calls: Sequence[Event]) -> list[Event]:
    return retimed(calls, lambda moment: moment + 5e-3)


def test_a_collective_that_torch_refused_is_marked_and_meets_no_other() -> None:
    both = (0, 1)
    refused = call("all_gather", 3, None, group_ranks=both, issued=3.1, error="RuntimeError: invalid tensor size")
    others = call("barrier", 1, 2, group_ranks=both), call("all_reduce", 5, 6, group_ranks=both)
    figure = show.timeline(record([[others[0], refused, others[1]] for _ in range(2)]))
    assert figure.text.splitlines()[2] == "rank 0 | barrier | all_gather refused | all_reduce"
    assert [one.get("state") for one in calls_of(figure, 0)] == [None, "refused", None]
    assert [one["name"] for one in figure.document["collectives"]] == ["barrier", "all_reduce"]


def test_threads_of_a_rank_have_an_order_each() -> None:
    """Two threads with a group each came in another order on the other rank."""
    calls = {
        name: [call(operation, moment, moment + 8, group=name, group_ranks=(0, 1), thread=name) for moment in (1, 2, 3)]
        for name, operation in (("a", "barrier"), ("b", "all_reduce"))
    }
    lanes = [[*calls["a"], *later(calls["b"])], [*calls["b"], *later(calls["a"])]]
    lines = show.timeline(record(lanes)).text.splitlines()[2:]
    assert lines[0].removeprefix("rank 0") == lines[1].removeprefix("rank 1")
    assert (lines[0].count("barrier"), lines[0].count("all_reduce")) == (3, 3)


def test_all_reduces_of_ddp_are_seen_as_such() -> None:
    own = {"name": "DistributedDataParallel", "group_ranks": (0, 1), "issued": 1.1, "waited": 5.0}
    events = record([[call("all_reduce", 1, 4, **own), call("all_reduce", 6, 8, group_ranks=(0, 1))]] * 2)  # type: ignore[arg-type]
    figure = show.timeline(events)
    assert [one["kind"] for one in calls_of(figure, 0)] == ["ddp", "collective"]
    assert [one["is_ddps"] for one in figure.document["collectives"]] == [True, False]
    assert "rank 0 | DDP all_reduce | all_reduce" in figure.text


def test_short_runs_are_shown_by_steps_and_longer_ones_by_time() -> None:
    def lasting(milliseconds: float) -> Events:
        return record([[call("barrier", 1, 1 + milliseconds, group_ranks=(0, 1))]] * 2)

    assert show.timeline(lasting(40)).document["axis"] == "steps"
    assert show.timeline(lasting(60)).document["axis"] == "time"
    assert show.timeline(telling(lasting(40), [(1, "forward")])).document["axis"] == "time"  # phases have no step
    assert show.timeline(lasting(60), axis="steps").document["axis"] == "steps"
    with pytest.raises(ValueError, match='"steps" or "time", not \'wall\''):
        show.timeline(lasting(60), axis="wall")


def test_start_up_is_cut_off() -> None:
    late = record([[call("barrier", 5000, 5010, group_ranks=(0, 1))]] * 2)
    assert show.timeline(late).document["span"] == pytest.approx(10)


def test_lanes_begin_when_the_function_has_begun_on_every_rank() -> None:
    both = (0, 1)
    calls = record([[call("barrier", begin, 50, group_ranks=both)] for begin in (1, 30)])
    figure = show.timeline(record_work([[(0, 1, 1)], [(20, 30, 10)]], calls, late_by=20))
    assert parts_of(figure, 0) == [("wait", 0, pytest.approx(10)), ("move", pytest.approx(10), pytest.approx(30))]
    assert [calls_of(figure, rank)[0]["waited"] for rank in both] == pytest.approx([10, 0])
    assert figure.document["computing"] == [[1, 0, pytest.approx(10), 1]]


def test_what_was_over_before_every_rank_had_begun_takes_no_time() -> None:
    calls = record([[call("isend", 1, 2, peer=1, error="ValueError: no such peer")], []])
    figure = show.timeline(record_work([[], []], calls, late_by=20))
    assert figure.document["span"] == 0
    assert calls_of(figure, 0)[0]["end"] == 0
    check_that_words_stand_apart(show.timeline(calls, axis="time").still)


def working(*on_cpu: float) -> show.Figure:
    """Three calls of 10 ms each, all of them 80 ms apart, and how much of that time the rank computed."""
    calls = [[call("barrier", 100 * turn, 100 * turn + 10, group_ranks=(0,)) for turn in range(3)]]
    gaps = [(100.0 * turn + 10, 100.0 * turn + 100, milliseconds) for turn, milliseconds in enumerate(on_cpu)]
    return show.timeline(record_work([gaps], record(calls)))


def test_between_calls_a_rank_that_computes_looks_other_than_one_that_sleeps() -> None:
    figure = working(90, 0.1)
    assert figure.document["computing"] == [[0, pytest.approx(10), pytest.approx(100), 1]]
    bars = [box for box in figure.still.shapes if isinstance(box, Box) and box.fill == "line"]
    lines = [
        shape for shape in figure.still.shapes if isinstance(shape, Line) and len({y for _, y in shape.points}) == 1
    ]
    assert [bar.height for bar in bars] == [22]
    assert all(bars[0].y < line.points[0][1] < bars[0].y + 22 for line in lines[:1])


def test_a_bar_is_as_high_as_the_part_of_the_time_on_a_cpu() -> None:
    boxes = working(45, 9).still.shapes
    assert [box.height for box in boxes if isinstance(box, Box) and box.fill == "line"] == [11, pytest.approx(2.2)]


def test_bars_narrower_than_a_pixel_are_drawn_as_one_of_their_mean_height() -> None:
    calls = [[call("barrier", turn, turn + 0.1, group_ranks=(0,)) for turn in range(6000)]]
    gaps = [(turn + 0.1, turn + 1.0, 0.9 * (turn % 2)) for turn in range(6000)]
    boxes = show.timeline(record_work([gaps], record(calls))).still.shapes
    heights = [box.height for box in boxes if isinstance(box, Box) and box.fill == "line"]
    assert len(heights) < 760
    assert sum(heights) / len(heights) == pytest.approx(22 * 0.45, abs=3)


def test_words_say_nothing_of_times_on_a_cpu() -> None:
    assert working(90, 0).text == working(1, 45).text
    assert working(90, 0).alt == working(1, 45).alt


@pytest.mark.parametrize("events", [token_round(2), token_round(16), ring_steps(4, 3), ring_steps(16, 15)])
def test_words_do_not_cover_each_other_and_stay_inside(events: Events) -> None:
    check_that_words_stand_apart(show.timeline(events, title="A title").still)


@pytest.mark.parametrize("world_size", [2, 16])
def test_by_steps_a_message_goes_on_to_the_right(world_size: int) -> None:
    still = show.timeline(token_round(world_size)).still
    arrows = [shape for shape in still.shapes if isinstance(shape, Line) and shape.has_head]
    assert arrows
    assert all(arrow.points[0][0] < arrow.points[-1][0] for arrow in arrows)


def test_few_calls_are_all_labeled_with_name_partner_and_load() -> None:
    words = written(show.timeline(token_round(3)))
    assert {"recv ← 0", "send → 1", "[0]", "[1]", "all_reduce"} <= set(words)
    assert not [word for word in words if "left out" in word]


@nightly
def test_twenty_thousand_events_are_described_fast_and_stay_small_as_a_still() -> None:
    events = ring_steps(16, 625)
    figure = show.timeline(events)
    assert (len(figure.document["calls"]), len(figure.document["messages"])) == (20_000, 10_000)
    assert len(figure.svg) < 400_000
    assert len(figure.text.splitlines()) < 60
    assert "further steps left out" in figure.text


@nightly
def test_of_very_many_calls_the_newest_are_drawn_and_the_others_counted() -> None:
    figure = show.timeline(ring_steps(2, 6000))
    assert "2,000 older calls of rank 0 left out." in figure.text
    assert len(figure.document["messages"]) == 10_000


def test_dropped_calls_are_counted() -> None:
    figure = show.timeline(record([[call("barrier", 1, 2)], [call("barrier", 1, 2)]], dropped={1: 1234}))
    assert "1,234 older calls left out" in figure.alt
    assert "1,234 older calls of rank 1 left out." in figure.text
    assert "1,234 older calls left out." in written(figure)


def test_the_text_follows_order_and_not_times() -> None:
    calls = [[call("send", 1, 2, peer=1), call("barrier", 3, 9, group_ranks=(0, 1))]]
    calls.append([call("recv", 0, 2, peer=0), call("barrier", 8, 9, group_ranks=(0, 1))])
    stretched = [retimed(mine, lambda moment: 10 + 7 * (moment - 10)) for mine in calls]
    one, other = show.timeline(record(calls)), show.timeline(record(stretched))
    assert one.text == other.text
    assert one.alt == other.alt
    assert one.text.splitlines()[2:] == ["rank 0 | send->1 |         | barrier", "rank 1 |         | recv<-0 | barrier"]


def test_messages_that_cross_are_in_the_steps_where_the_ranks_wait_for_them() -> None:
    """Both ask to receive before both send: nobody comes first, and yet there is an order."""
    calls = [
        [
            call("recv", 1, 6, name="irecv", peer=other, issued=1.1, waited=4),
            call("send", 2, 3, peer=other),
        ]
        for other in (1, 0)
    ]
    lines = show.timeline(record(calls)).text.splitlines()[2:]
    assert lines == ["rank 0 | send->1 | irecv<-1", "rank 1 | send->0 | irecv<-0"]


def test_nothing_recorded_says_why_that_may_be() -> None:
    for events in (Events(), record([[], []])):
        picture = show.timeline(events)
        assert "no rank called torch.distributed" in picture.text
        assert "record=False" in picture.text


def test_results_exceptions_and_events_are_all_welcome() -> None:
    events = token_round(2)
    results: Results[None] = Results((None, None), ([], []), 1.0, events)
    failure = RuntimeError("a rank failed")
    failure.results = results  # type: ignore[attr-defined]
    texts = {show.timeline(one).text for one in (events, results, failure)}
    assert len(texts) == 1
    with pytest.raises(TypeError, match=r"launch\(\)"):
        show.timeline([1, 2])


def telling(events: Events, *told: Sequence[tuple[float, str]]) -> Results[None]:
    """Labels at milliseconds, rank by rank."""
    by_rank = tuple(tuple(Told(moment * MS, label, {}) for moment, label in mine) for mine in told)
    return Results((None,) * len(told), ([],) * len(told), 1.0, events, by_rank)


def phases_of(figure: show.Figure, rank: int) -> list[tuple[str, float, float]]:
    phases = [phase for phase in figure.document["phases"] if phase["rank"] == rank]
    return [(phase["label"], phase["begin"], phase["end"]) for phase in phases]


def test_phases_last_from_their_label_to_the_next_one_or_to_the_end() -> None:
    told = [(0.5, "forward"), (2, "backward"), (4, ""), (5, "step")], [(1.0, "forward")]
    figure = show.timeline(telling(token_round(2), *told))
    end = figure.document["span"]
    assert phases_of(figure, 0) == [("forward", 0, 1.5), ("backward", 1.5, 3.5), ("step", 4.5, end)]
    assert phases_of(figure, 1) == [("forward", 0.5, end)]


def test_numbers_that_are_told_do_not_end_a_phase() -> None:
    told = (Told(1 * MS, "forward", {}), Told(2 * MS, "", {"loss": 0.5}), Told(3 * MS, "backward", {"step": 1.0}))
    results: Results[None] = Results((None,) * 2, ([], []), 1.0, token_round(2), (told, ()))
    assert phases_of(show.timeline(results), 0)[0] == ("forward", 0, 2)


def test_a_label_may_hold_dollar_signs_control_characters_and_marks_of_svg() -> None:
    calls = record([[call("barrier", 1, 9, group_ranks=(0,))]])
    figure = show.timeline(telling(calls, [(1, "$\\frac $"), (5, "two\nlines"), (7, "<b> & ]]>")]))
    assert "<b>" not in figure.svg
    assert "two lines" in figure.alt


def test_the_time_of_the_figure_holds_all_phases() -> None:
    late = record([[call("barrier", 100, 110, group_ranks=(0, 1))]] * 2)
    figure = show.timeline(telling(late, [(1, "forward")], [(300, "rest")]))
    assert figure.document["span"] >= 299
    assert calls_of(figure, 0)[0]["begin"] == pytest.approx(99)


def test_phases_are_named_inside_and_in_words() -> None:
    told = [(0, "forward"), (4, "backward"), (8, "")]
    figure = show.timeline(telling(token_round(2), told, told))
    assert {"forward", "backward"} <= set(written(figure))
    assert figure.text.splitlines()[-3:] == [
        "Phases that the ranks logged:",
        "rank 0 | forward | backward",
        "rank 1 | forward | backward",
    ]
    assert figure.alt.endswith("Phases above the lanes: forward, backward.")
    slower = [(3 * moment, label) for moment, label in told]
    assert show.timeline(telling(token_round(2), slower, slower)).text == figure.text


def test_without_a_label_a_timeline_is_as_it_was() -> None:
    events = token_round(4)
    assert show.timeline(events).document == show.timeline(telling(events, [], [], [], [])).document


def test_phases_are_drawn_where_no_call_was_recorded() -> None:
    figure = show.timeline(telling(Events(), [(1, "forward"), (3, "")], [(2, "forward")]))
    assert phases_of(figure, 0) == [("forward", 0, 2)]
    assert figure.text.startswith("No call of torch.distributed was recorded.")


@pytest.mark.parametrize("world_size", [1, 2, 8, 16])
@pytest.mark.parametrize("rounds", [1, 60])
def test_words_stand_apart_where_phases_are_drawn(world_size: int, rounds: int) -> None:
    labels = ["forward", "backward", "step", "a label that says very much, in very many words"]
    told = [(0.1 + 10 * turn / rounds / 4, labels[turn % 4]) for turn in range(4 * rounds)]
    events = token_round(world_size) if world_size > 1 else record([[call("barrier", 1, 9, group_ranks=(0,))]])
    figure = show.timeline(telling(events, *[told] * world_size), title="Phases")
    check_that_words_stand_apart(figure.still)
    assert len(figure.text.splitlines()[-1]) < 130


@pytest.mark.parametrize("axis", ["steps", "time"])
@pytest.mark.parametrize(
    ("nodes", "caption"),
    [
        ([("alpha", 0.0001), ("beta", 0.00021)], "Between alpha and beta, times may be off by up to 0.4 ms."),
        ([("c", 0.001), ("a", 0.008), ("b", 0.009)], "Between c, a and b, times may be off by up to 20 ms."),
        ([(f"n{n}", 0.003) for n in range(4)], "Between the 4 nodes, times may be off by up to 6 ms."),
    ],
)
def test_ranks_on_several_nodes_say_how_well_their_clocks_are_known(
    nodes: list[tuple[str, float]], caption: str, axis: str
) -> None:
    calls = [[call("barrier", 1, 9, group_ranks=range(len(nodes)))] for _ in nodes]
    figure = show.timeline(record(calls, nodes=nodes), axis=axis)
    assert figure.document["caption"] == caption
    assert written(figure)[-1] == caption
    assert caption not in str(figure), "a text is the same in every run"


@pytest.mark.parametrize("node", ["", "alpha"])
def test_ranks_on_one_machine_have_one_clock(node: str) -> None:
    calls = [[call("barrier", 1, 9, group_ranks=(0, 1))] for _ in range(2)]
    one = show.timeline(record(calls, nodes=[(node, 0.001)] * 2))
    assert one.document == show.timeline(record(calls)).document
    assert "caption" not in one.document


def test_a_figure_is_plain_json() -> None:
    document = show.timeline(telling(token_round(3), [(1, "forward")], [], [])).document
    assert json.loads(json.dumps(document)) == document
