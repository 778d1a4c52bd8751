"""The matrix and the totals are the recorded bytes, and collectives are named beside them."""

from __future__ import annotations

import numpy as np
import pytest
from recorded import call, collection, record, ring_steps

from ddp_lessons import show


def matrix_of(picture: show.Picture) -> list[list[str]]:
    """What is written in the cells."""
    axes = picture.axes[0]
    words = {str(text.get_gid()): text.get_text() for text in axes.texts}
    ranks = range(round(len(words) ** 0.5))
    return [[words[f"bytes {rank} {to}"] for to in ranks] for rank in ranks]


@pytest.mark.parametrize("world_size", [2, 4, 16])
def test_a_cell_holds_what_a_rank_sent_to_another(world_size: int) -> None:
    events = ring_steps(world_size, 6, bytes=1000)
    picture = show.traffic(events)
    shown = matrix_of(picture)
    for rank in range(world_size):
        for to in range(world_size):
            assert shown[rank][to].replace("\n", " ") == ("6 KB" if to == (rank + 1) % world_size else "·")
    (image,) = picture.axes[0].images
    sent = [[events.bytes_sent(rank, to) for to in range(world_size)] for rank in range(world_size)]
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), 0), sent)


def test_totals_are_bars_of_sent_and_received_bytes() -> None:
    events = record(
        [
            [call("send", 1, 2, peer=1, bytes=100), call("send", 3, 4, peer=1, bytes=50)],
            [call("recv", 1, 2, peer=0, bytes=100), call("recv", 3, 4, peer=0, bytes=50)],
        ]
    )
    picture = show.traffic(events)
    lengths = {str(bar.get_gid()): bar.get_width() for bar in picture.axes[1].patches}
    assert lengths == {"sent 0": 150, "received 0": 0, "sent 1": 0, "received 1": 150}
    assert "150 B in 2 messages" in [text.get_text() for text in picture.axes[1].texts]
    assert picture.text.splitlines()[1].split() == ["rank", "0", ".", "150", "150", "0", "2"]


def test_the_textbook_is_a_line_beside_the_bars() -> None:
    picture = show.traffic(ring_steps(3, 2), textbook={"ring": 16, "star": [32, 8, 8]})
    for name, expected in (("ring", [16, 16, 16]), ("star", [32, 8, 8])):
        lines = collection(picture.axes[1], f"textbook {name}").get_segments()
        assert [float(line[0][0]) for line in lines] == expected
    (key,) = picture.figure.legends
    words = [text.get_text() for text in key.get_texts()]
    assert words == ["sent", "received", "ring: 16 B sent", "star: 8 B to 32 B sent"]
    assert picture.text.splitlines()[0].split()[-2:] == ["ring", "star"]


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
    assert matrix_of(picture) == [["·", "·"], ["·", "·"]]
    assert "0 bytes in 0 messages" in picture.alt


def test_nothing_recorded_is_said() -> None:
    assert "Nothing was recorded" in show.traffic(record([[], []])).text
