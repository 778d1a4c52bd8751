"""The timeline holds exactly what was recorded: each arrow, each collective, what was waiting, what never ended."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from looks import check_that_texts_stand_apart, words
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.text import Annotation
from recorded import call, collection, record, retimed, ring_steps, shapes, token_round

from ddp_lessons import show
from ddp_lessons.record.colors import rank_color
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Told
from ddp_lessons.record.results import Results
from ddp_lessons.show.timelines.lanes import BAR

MS = 1e-3


def spans(axes: Any, gid: str) -> list[tuple[float, float]]:
    """From when to when each shape lasts, in milliseconds."""
    return [(float(c[:, 0].min() / MS), float(c[:, 0].max() / MS)) for c in shapes(axes, gid)]


def written(picture: show.Picture) -> list[str]:
    return [text.get_text() for text in [*picture.axes.texts, *picture.figure.texts]]


@pytest.mark.parametrize("world_size", [2, 3, 16])
def test_an_arrow_for_each_message_from_its_sending_to_its_arrival(world_size: int) -> None:
    events = token_round(world_size)
    axes = show.timeline(events).axes
    arrows = collection(axes, "messages").get_segments()
    assert len(arrows) == len(events.deliveries) == world_size - 1
    for arrow, delivery in zip(arrows, events.deliveries, strict=True):
        (begin, top), (end, bottom) = arrow
        assert (begin, end) == pytest.approx((delivery.send.begin, delivery.recv.end))
        assert (top, bottom) == pytest.approx((delivery.send.rank + BAR / 2, delivery.recv.rank - BAR / 2))


def test_an_arrow_has_the_color_of_its_sender_and_a_head_at_its_end() -> None:
    events = ring_steps(9, 2)
    axes = show.timeline(events).axes
    arrows = collection(axes, "messages")
    colors = [to_hex(color).upper() for color in arrows.get_edgecolor()]
    assert colors == [rank_color(delivery.send.rank) for delivery in events.deliveries]
    ends = [segment[1] for segment in arrows.get_segments()]
    np.testing.assert_allclose([head[0] for head in shapes(axes, "message heads")], ends)


def test_a_collective_is_one_shape_from_every_begin_to_every_end() -> None:
    events = token_round(4)
    (shape,) = shapes(show.timeline(events).axes, "collectives")
    (meeting,) = events.meetings
    members = sorted(meeting.events, key=lambda event: event.rank)
    corners: Any = [(event.begin, event.rank) for event in members] + [
        (event.end, event.rank) for event in members[::-1]
    ]
    np.testing.assert_allclose(shape[: len(corners)], corners)


def test_a_rank_waits_in_a_collective_until_the_last_one_comes() -> None:
    events = record([[call("barrier", begin, 9, group_ranks=(0, 1, 2))] for begin in (1, 5, 3)])
    axes = show.timeline(events).axes
    waited = [spans(axes, f"waiting {rank}") for rank in range(3)]
    assert waited == [[pytest.approx((1, 5))], [], [pytest.approx((3, 5))]]
    assert [spans(axes, f"moving {rank}") for rank in range(3)] == [[pytest.approx((5, 9))]] * 3


@pytest.mark.parametrize(("send", "recv"), [((1, 6), (4, 7)), ((4, 6), (1, 7))])
def test_a_message_waits_until_both_sides_have_called(send: tuple[int, int], recv: tuple[int, int]) -> None:
    axes = show.timeline(record([[call("send", *send, peer=1)], [call("recv", *recv, peer=0)]])).axes
    early = 0 if send[0] < recv[0] else 1
    assert spans(axes, f"waiting {early}") == [pytest.approx((1, 4))]
    assert spans(axes, f"waiting {1 - early}") == []
    assert spans(axes, "moving 0") == [pytest.approx((4, 6))]
    assert spans(axes, "moving 1") == [pytest.approx((4, 7))]


def test_waiting_is_hatched_in_the_color_of_the_rank_and_moving_is_solid() -> None:
    axes = show.timeline(token_round(3)).axes
    waiting, moving = collection(axes, "waiting 1"), collection(axes, "moving 1")
    assert waiting.get_hatch()
    assert not moving.get_hatch()
    assert to_hex(waiting.get_edgecolor()[0]).upper() == to_hex(moving.get_facecolor()[0]).upper() == rank_color(1)


def test_a_call_in_the_background_is_thin_while_the_rank_goes_on() -> None:
    busy = call("recv", 2, 9, name="irecv", peer=0, issued=2, waited=6)
    axes = show.timeline(record([[call("send", 2, 9, peer=1)], [busy]])).axes
    heights = [np.ptp(box[:, 1]) for box in shapes(axes, "moving 1")]
    assert spans(axes, "moving 1") == [pytest.approx((2, 6)), pytest.approx((6, 9))]
    assert heights[0] < 0.5 * heights[1]


def test_a_blocking_call_is_never_thin_however_late_its_wait_began() -> None:
    slow = call("recv", 2, 9, peer=0, issued=4, waited=6)  # the processor was with somebody else
    axes = show.timeline(record([[call("send", 2, 9, peer=1)], [slow]])).axes
    assert spans(axes, "moving 1") == [pytest.approx((2, 9))]


def test_a_call_that_is_not_over_reaches_the_right_edge_and_is_marked() -> None:
    picture = show.timeline(record([[call("send", 1, None, peer=1)], [call("send", 2, None, peer=0)]]))
    edge = picture.axes.get_xlim()[1]
    assert [box[:, 0].max() for rank in (0, 1) for box in shapes(picture.axes, f"waiting {rank}")] == [edge, edge]
    (signs,) = (line for line in picture.axes.lines if line.get_gid() == "not over")
    assert len(signs.get_xdata()) == 2
    assert {"waits in send to 1", "waits in send to 0"} <= set(written(picture))
    assert "2 calls not over" in picture.alt
    assert "send->1 ..." in picture.text


def test_a_rank_that_never_came_to_a_collective_is_named() -> None:
    everyone = (0, 1, 2)
    events = record(
        [[call("all_reduce", 1, None, group_ranks=everyone)], [], [call("all_reduce", 2, None, group_ranks=everyone)]]
    )
    picture = show.timeline(events)
    assert len(shapes(picture.axes, "collectives that did not meet")) == 1
    assert not shapes(picture.axes, "collectives")
    assert "rank 1 never came" in picture.text
    assert {"all_reduce !", "no calls recorded", "waits in all_reduce for rank 1"} <= set(written(picture))


def test_different_collectives_that_met_are_both_named() -> None:
    picture = show.timeline(record([[call(name, 1, None, group_ranks=(0, 1))] for name in ("all_reduce", "broadcast")]))
    assert "rank 0 came to all_reduce; rank 1 came to broadcast" in picture.text
    assert "all_reduce / broadcast !" in written(picture)


def test_a_failed_call_is_marked() -> None:
    picture = show.timeline(
        record([[call("recv", 1, 5, peer=1, error="RuntimeError: closed")], [call("barrier", 1, 2)]])
    )
    (sign,) = (line for line in picture.axes.lines if line.get_gid() == "failed")
    assert (sign.get_xdata()[0] / MS, sign.get_ydata()[0]) == pytest.approx((5, 0))
    assert "recv<-1 failed" in picture.text
    assert "recv from 1 failed" in written(picture)


def later(calls: Sequence[Event]) -> list[Event]:
    return retimed(calls, lambda moment: moment + 5e-3)


def test_a_collective_that_torch_refused_is_marked_and_meets_no_other() -> None:
    both = (0, 1)
    refused = call("all_gather", 3, None, group_ranks=both, issued=3.1, error="RuntimeError: invalid tensor size")
    others = call("barrier", 1, 2, group_ranks=both), call("all_reduce", 5, 6, group_ranks=both)
    lanes = [[others[0], refused, others[1]] for _ in range(2)]
    picture = show.timeline(record(lanes))
    assert picture.text.splitlines()[2] == "rank 0 | barrier | all_gather refused | all_reduce"
    assert written(picture).count("all_gather refused") == 4  # at each call, and at the end of each lane
    (signs,) = (line for line in picture.axes.lines if line.get_gid() == "failed")
    assert (len(signs.get_xdata()), len(shapes(picture.axes, "collectives"))) == (2, 2)


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
    picture = show.timeline(events)
    colors = {to_hex(color) for color in collection(picture.axes, "collectives moving").get_facecolor()}
    assert len(colors) == 2
    assert "rank 0 | DDP all_reduce | all_reduce" in picture.text
    key = [text.get_text() for legend in picture.figure.legends for text in legend.get_texts()]
    assert {"DDP's own", "collective", "thin: the rank goes on"} <= set(key)


def test_every_rank_has_a_label_and_its_color() -> None:
    axes = show.timeline(token_round(16)).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"rank {rank}" for rank in range(16)]
    colors = {str(line.get_gid()): line.get_color() for line in axes.lines}
    assert [colors[f"color {rank}"] for rank in range(16)] == [rank_color(rank) for rank in range(16)]


@pytest.mark.parametrize("events", [token_round(2), token_round(16), ring_steps(4, 3), ring_steps(16, 15)])
def test_labels_do_not_cover_each_other_and_stay_inside(events: Events) -> None:
    picture = show.timeline(events)
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    labels = [text for text in picture.axes.texts if isinstance(text, Annotation)]
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    inside = picture.figure.bbox
    assert all(box.x0 >= 0 and box.x1 <= inside.x1 and box.y0 >= 0 and box.y1 <= inside.y1 for box in boxes)
    shrunk = [box.padded(-1.0) for box in boxes]  # a letter's own margin may touch
    assert not [pair for pair in itertools.combinations(shrunk, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("world_size", [2, 16])
def test_labels_leave_the_heads_of_arrows_free(world_size: int) -> None:
    picture = show.timeline(token_round(world_size))
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    labels = [text for text in picture.axes.texts if isinstance(text, Annotation)]
    boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
    tips = [picture.axes.transData.transform(line[1]) for line in collection(picture.axes, "messages").get_segments()]
    assert not [tip for tip in tips for box in boxes if box.contains(*tip)]


def test_no_label_stands_at_a_collective_of_another_name() -> None:
    both = (0, 1)
    names = {"all_gather": (27, 37), "broadcast": (37.5, 38.5), "all_reduce": (50, 58)}
    calls = [call(name, begin, end, group_ranks=both) for name, (begin, end) in names.items()]
    picture = show.timeline(record([[*calls, call("all_reduce", 800, 810, group_ranks=both)]] * 2))
    canvas: Any = FigureCanvasAgg(picture.figure)
    canvas.draw()
    labels = [text for text in picture.axes.texts if text.get_text() in names]
    assert len(labels) >= 2
    for label in labels:
        box = label.get_window_extent(canvas.get_renderer())
        for name, (begin, end) in names.items():
            left, right = (picture.axes.transData.transform((moment / 1e3, 0))[0] for moment in (begin, end))
            assert name == label.get_text() or box.x1 < left or right < box.x0


def test_few_calls_are_all_labelled_with_name_partner_and_load() -> None:
    words = written(show.timeline(token_round(3)))
    assert {"recv ← 0", "[0]", "[1]", "all_reduce"} <= set(words)
    assert not [word for word in words if "left out" in word]


def test_two_thousand_events_are_drawn_fast_and_say_what_was_left_out() -> None:
    events = ring_steps(16, 63)
    begin = time.perf_counter()
    picture = show.timeline(events)
    assert time.perf_counter() - begin < 20
    assert len(collection(picture.axes, "messages").get_segments()) == len(events.deliveries) == 16 * 63
    assert any("labels left out" in word for word in written(picture))
    assert len(picture.axes.patches) + len(picture.axes.lines) < 100
    assert len(picture.text.splitlines()) < 60
    assert "further steps left out" in picture.text


def test_of_very_many_calls_the_newest_are_drawn_and_the_others_counted() -> None:
    """A hundred thousand would take minutes."""
    picture = show.timeline(ring_steps(2, 5000))
    assert "8,500 older calls of rank 0 left out." in picture.text
    assert len(collection(picture.axes, "messages").get_segments()) == 1500


def test_dropped_calls_are_counted() -> None:
    picture = show.timeline(record([[call("barrier", 1, 2)], [call("barrier", 1, 2)]], dropped={1: 1234}))
    assert "1,234 older calls left out" in picture.alt
    assert "1,234 older calls of rank 1 left out." in picture.text
    assert any("1,234 older calls left out" in word for word in written(picture))


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
        assert picture.text in written(picture)


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


def test_phases_last_from_their_label_to_the_next_one_or_to_the_end() -> None:
    told = [(0.5, "forward"), (2, "backward"), (4, ""), (5, "step")], [(1.0, "forward")]
    picture = show.timeline(telling(token_round(2), *told))
    end = picture.axes.get_xlim()[1] / MS
    assert spans(picture.axes, "phases 0") == [pytest.approx(one) for one in ((0.5, 2), (2, 4), (5, end))]
    assert spans(picture.axes, "phases 1") == [pytest.approx((1, end))]


def test_numbers_that_are_told_do_not_end_a_phase() -> None:
    told = (Told(1 * MS, "forward", {}), Told(2 * MS, "", {"loss": 0.5}), Told(3 * MS, "backward", {"step": 1.0}))
    results: Results[None] = Results((None,) * 2, ([], []), 1.0, token_round(2), (told, ()))
    assert spans(show.timeline(results).axes, "phases 0")[0] == pytest.approx((1, 3))


def test_phases_lie_above_the_calls_of_their_rank_and_a_label_has_one_colour() -> None:
    told = [(0.5, "forward"), (2, "backward"), (4, "forward")]
    axes = show.timeline(telling(token_round(3), told, told[::-1][-1:], told)).axes
    for rank in range(3):
        for box in shapes(axes, f"phases {rank}"):
            assert rank - 0.5 < box[:, 1].min() < box[:, 1].max() < rank - BAR / 2
    first, second, third = (to_hex(color) for color in collection(axes, "phases 2").get_facecolor())
    assert first == third != second
    assert first == to_hex(collection(axes, "phases 0").get_facecolor()[0])


def test_a_label_may_hold_dollar_signs_and_control_characters() -> None:
    """matplotlib would take the former for a formula."""
    calls = record([[call("barrier", 1, 9, group_ranks=(0,))]])
    picture = show.timeline(telling(calls, [(1, "$\\frac $"), (5, "two\nlines")]))
    assert picture._repr_mimebundle_()[0]["image/png"]
    assert "two lines" in picture.alt


def test_the_time_of_the_picture_holds_all_phases() -> None:
    late = record([[call("barrier", 100, 110, group_ranks=(0, 1))]] * 2)
    axes = show.timeline(telling(late, [(1, "forward")], [(300, "rest")])).axes
    assert axes.get_xlim()[0] <= 1 * MS
    assert axes.get_xlim()[1] >= 300 * MS


def test_phases_are_named_inside_in_a_key_and_in_words() -> None:
    told = [(0, "forward"), (4, "backward"), (8, "")]
    picture = show.timeline(telling(token_round(2), told, told))
    assert words(picture, "phase 0") == ["forward", "backward"]
    keys = [[text.get_text() for text in legend.get_texts()] for legend in picture.figure.legends]
    assert ["forward", "backward"] in keys
    assert picture.text.splitlines()[-3:] == [
        "Phases that the ranks told:",
        "rank 0 | forward | backward",
        "rank 1 | forward | backward",
    ]
    assert picture.alt.endswith("Phases above the lanes: forward, backward.")
    slower = [(3 * moment, label) for moment, label in told]
    assert show.timeline(telling(token_round(2), slower, slower)).text == picture.text


def test_without_a_label_a_timeline_is_as_it_was() -> None:
    events = token_round(4)
    plain, numbers = show.timeline(events), show.timeline(telling(events, [], [], [], []))
    assert (numbers.text, numbers.alt) == (plain.text, plain.alt)
    assert numbers.figure.get_size_inches().tolist() == plain.figure.get_size_inches().tolist()


def test_phases_are_drawn_where_no_call_was_recorded() -> None:
    picture = show.timeline(telling(Events(), [(1, "forward"), (3, "")], [(2, "forward")]))
    assert spans(picture.axes, "phases 0") == [pytest.approx((1, 3))]
    assert picture.text.startswith("No call of torch.distributed was recorded.")


@pytest.mark.parametrize("world_size", [1, 2, 8, 16])
@pytest.mark.parametrize("rounds", [1, 60])
def test_texts_stand_apart_where_phases_are_drawn(world_size: int, rounds: int) -> None:
    labels = ["forward", "backward", "step", "a label that says very much, in very many words"]
    told = [(0.1 + 10 * turn / rounds / 4, labels[turn % 4]) for turn in range(4 * rounds)]
    events = token_round(world_size) if world_size > 1 else record([[call("barrier", 1, 9, group_ranks=(0,))]])
    picture = show.timeline(telling(events, *[told] * world_size), title="Phases")
    check_that_texts_stand_apart(picture)
    assert len(picture.text.splitlines()[-1]) < 130


def test_of_very_many_labels_the_key_names_the_first() -> None:
    told = [(moment / 10, f"step {moment}") for moment in range(100)]
    picture = show.timeline(telling(token_round(2), told, []))
    check_that_texts_stand_apart(picture)
    assert "and 92 other labels" in [
        text.get_text() for legend in picture.figure.legends for text in legend.get_texts()
    ]
