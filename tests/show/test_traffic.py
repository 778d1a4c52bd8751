"""The matrix and the totals are the recorded bytes, and collectives are named beside them."""

from __future__ import annotations

import pytest
from looks import check_layouts, labels, layouts_of
from recorded import call, record, ring_steps

from ddp_lessons import Results, show
from ddp_lessons.record.events import Events
from ddp_lessons.show.figures.drawing import Box, Drawing, Line, Words, color_of_rank
from ddp_lessons.show.messages.traffic_matrix import MOST_RANKS, PALEST, STRONGEST


def cells(drawing: Drawing) -> list[Box]:
    return [box for box in drawing.shapes if isinstance(box, Box) and box.opacity < 1]


def matrix_of(drawing: Drawing) -> dict[tuple[int, int], str]:
    """What is written in the cells, or what a mouse is told there, by the places of row and column."""
    rows = sorted({box.y + box.height / 2 for box in drawing.shapes if isinstance(box, Box) and box.width == 10})
    heads = {one.x: int(one.text) for one in drawing.shapes if isinstance(one, Words) and one.y == 28}
    found = {}
    for box in cells(drawing):
        x, y = box.x + box.width / 2, box.y + box.height / 2
        inside = [w for w in drawing.shapes if isinstance(w, Words) and abs(w.x - x) < 1 and abs(w.y - y) < 8]
        words = " ".join(word.text for word in inside) or box.about.partition(": ")[2]
        found[rows.index(y), next(to for at, to in heads.items() if abs(at - x) < 1)] = words
    return found


def lengths(drawing: Drawing, *, is_hatched: bool) -> list[float]:
    """Of the bars of all ranks, the sent or the received bytes."""
    bars = [one for one in drawing.shapes if isinstance(one, Box) and one.height == 12]
    return [bar.width for bar in bars if bar.is_hatched == is_hatched]


@pytest.mark.parametrize("world_size", [2, 4, 8, 16])
def test_a_cell_holds_what_a_rank_sent_to_another_at_every_width(world_size: int) -> None:
    figure = show.traffic(ring_steps(world_size, 6, bytes=1000))
    check_layouts(figure)
    wanted = {(rank, (rank + 1) % world_size): "6 KB" for rank in range(world_size)}
    assert [matrix_of(layout) for layout in layouts_of(figure)] == [wanted] * 3
    for layout in layouts_of(figure):
        assert [box.fill for box in cells(layout)] == [color_of_rank(rank) for rank in range(world_size)]


def test_the_more_bytes_the_stronger_is_the_color() -> None:
    sends = [call("send", 2 * n, 2 * n + 1, peer=1 + n, bytes=100 * (n + 1)) for n in range(2)]
    receives = [[call("recv", 0, 1, peer=0, bytes=100)], [call("recv", 2, 3, peer=0, bytes=200)]]
    one, other = cells(show.traffic(record([sends, *receives])).still)
    assert PALEST < one.opacity < other.opacity == STRONGEST


def test_totals_are_bars_of_sent_and_received_bytes() -> None:
    events = record(
        [
            [call("send", 1, 2, peer=1, bytes=100), call("send", 3, 4, peer=1, bytes=50)],
            [call("recv", 1, 2, peer=0, bytes=100), call("recv", 3, 4, peer=0, bytes=50)],
        ]
    )
    figure = show.traffic(events)
    for layout in layouts_of(figure):
        sent, received = lengths(layout, is_hatched=False), lengths(layout, is_hatched=True)
        assert sent[0] == received[1] > 50
        assert (received[0], sent[1]) == (0, 0)
        assert "150 B in 2 messages" in labels(layout)
    assert figure.text.splitlines()[1].split() == ["rank", "0", ".", "150", "150", "0", "2"]


def test_the_textbook_is_a_line_across_the_bars_in_their_scale() -> None:
    events = ring_steps(3, 2)
    figure = show.traffic(events, textbook={"ring": 16, "star": [64, 8, 8]})
    check_layouts(figure)
    for layout in layouts_of(figure):
        left = min(box.x for box in layout.shapes if isinstance(box, Box) and box.height == 12)
        scale = lengths(layout, is_hatched=False)[0] / events.bytes_sent(0)
        lines = [shape for shape in layout.shapes if isinstance(shape, Line)][:6]  # and those of the key
        amounts = [(line.points[0][0] - left) / scale for line in lines]
        assert amounts == pytest.approx([16, 64, 16, 8, 16, 8], abs=0.2)
        assert [line.is_dashed for line in lines] == [False, True] * 3
        assert labels(layout)[-4:] == ["sent", "received", "ring: 16 B sent", "star: 8 B to 64 B sent"]
    assert figure.text.splitlines()[0].split()[-2:] == ["ring", "star"]


def test_of_very_many_ranks_the_rest_is_counted() -> None:
    figure = show.traffic(ring_steps(20, 1))
    check_layouts(figure)
    for layout in layouts_of(figure):
        assert labels(layout)[-1].endswith("4 further ranks left out")
        assert {row for row, _ in matrix_of(layout)} == {*range(MOST_RANKS - 1)}  # the next sent to one left out
    assert "rank 19" in figure.text


def test_a_textbook_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="2 numbers for 3 ranks"):
        show.traffic(ring_steps(3, 1), textbook=[1, 2])


def test_collectives_are_not_counted_but_named() -> None:
    calls = [
        call("all_reduce", 1, 2, group_ranks=(0, 1), bytes=400),
        call("barrier", 3, 4, group_ranks=(0, 1), bytes=0),
    ]
    picture = show.traffic(record([calls, calls]))
    assert "1 x all_reduce of 400 B" in picture.text
    assert "1 x barrier" in picture.text
    assert matrix_of(picture.still) == {}
    assert "0 bytes in 0 messages" in picture.alt


def test_nothing_recorded_is_said() -> None:
    assert "Nothing was recorded" in show.traffic(record([[], []])).text


def on_nodes(*names: str) -> Events:
    ring = ring_steps(4, 6, bytes=1000)
    return record([ring.of(rank) for rank in range(4)], nodes=[(name, 0.001) for name in names])


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (("alpha", "alpha", "beta", "beta"), "between nodes: 12 KB of 24 KB (rank 1 to 2, 3 to 0)"),
        (("alpha", "beta", "alpha", "beta"), "between nodes: 24 KB of 24 KB (rank 0 to 1, 1 to 2, 2 to 3, 3 to 0)"),
        (("", "", "", ""), ""),
        (("alpha", "alpha", "alpha", "alpha"), ""),
    ],
)
def test_of_several_nodes_it_says_what_went_from_one_to_another(nodes: tuple[str, ...], said: str) -> None:
    figure = show.traffic(on_nodes(*nodes))
    check_layouts(figure)
    assert said in str(figure)
    for layout in layouts_of(figure):
        assert said in " ".join(labels(layout))
        assert ("between nodes" in " ".join(labels(layout))) == bool(said)


def test_a_recording_says_so() -> None:
    results = Results((None,) * 4, ([],) * 4, 1.0, ring_steps(4, 6), recorded="Linux, Python 3.12, torch 2.9.0")
    assert "recorded (Linux, Python 3.12, torch 2.9.0)" in " ".join(labels(show.traffic(results).still))
    timeline = show.timeline(results)
    assert timeline.document["caption"] == "This was recorded (Linux, Python 3.12, torch 2.9.0)."
    assert "recorded" not in str(timeline), "a text is the same live and recorded"
