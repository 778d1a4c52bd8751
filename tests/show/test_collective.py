"""Before and after of every collective, from a real run."""

from __future__ import annotations

import re

import pytest
from matplotlib.colors import to_hex
from recorded import gids

from ddp_lessons import show
from ddp_lessons.record.colors import rank_color
from ddp_lessons.show.messages.collective_examples import EXAMPLES
from ddp_lessons.show.page.picture import COLLECTIVE

GATHERED = "[0] [10] [20]"
BROUGHT = ["[0] [1] [2]", "[10] [11] [12]", "[20] [21] [22]"]
# what three ranks hold afterwards, by the definition of each
AFTER = {
    "broadcast": ["[0 1]"] * 3,
    "reduce": ["[30 33]", "undefined", "undefined"],
    "all_reduce": ["[30 33]"] * 3,
    "scatter": ["[0]", "[1]", "[2]"],
    "gather": [GATHERED, "nothing", "nothing"],
    "all_gather": [GATHERED] * 3,
    "reduce_scatter": ["[30]", "[33]", "[36]"],
    "all_to_all": ["[0] [10] [20]", "[1] [11] [21]", "[2] [12] [22]"],
    "all_gather_into_tensor": ["[0 10 20]"] * 3,
    "reduce_scatter_tensor": ["[30]", "[33]", "[36]"],
    "all_to_all_single": ["[0 10 20]", "[1 11 21]", "[2 12 22]"],
    "all_gather_object": ["[from 0] [from 1] [from 2]"] * 3,
    "gather_object": ["[from 0] [from 1] [from 2]", "nothing", "nothing"],
    "broadcast_object_list": ["[from 0]"] * 3,
    "scatter_object_list": ["[for 0]", "[for 1]", "[for 2]"],
}


@pytest.mark.parametrize("name", AFTER)
def test_every_collective_is_drawn_as_it_is_defined(name: str) -> None:
    picture = show.collective(name, 3)
    rows = [line.split(" | ") for line in picture.text.splitlines()[2:]]
    assert [row[2] for row in rows] == AFTER[name]
    cells = sum(len(re.findall(r"[^\s\[\]]+", cell)) for cell in AFTER[name] if cell not in ("nothing", "undefined"))
    if "object" not in name:
        assert len([gid for gid in gids(picture.axes, "after") if gid.count(" ") == 2]) == cells


def test_a_moved_number_keeps_the_color_of_its_rank_and_a_sum_has_none() -> None:
    def colors(name: str) -> list[str]:
        patches = show.collective(name, 3).axes.patches
        return [to_hex(p.get_edgecolor()).upper() for p in patches if str(p.get_gid()).startswith("after 1")]

    assert colors("all_gather") == [rank_color(0), rank_color(1), rank_color(2)]
    assert colors("all_reduce") == [COLLECTIVE, COLLECTIVE]


@pytest.mark.parametrize("name", ["all_gather_single", "reduce_scatter_single"])
def test_new_names_are_drawn_or_said_to_be_missing(name: str) -> None:
    import torch.distributed as dist

    if hasattr(dist, name):
        assert show.collective(name, 2).text.startswith(name)
    else:
        with pytest.raises(RuntimeError, match=f"{name} does not work"):
            show.collective(name, 2)


def test_nobody_leaves_a_barrier_before_the_last_has_come() -> None:
    picture = show.collective("barrier", 3)
    assert "None of them left before the last had come." in picture.text
    assert gids(picture.axes, "waiting") == ["waiting 0", "waiting 1", "waiting 2"]


def test_the_words_are_the_same_in_every_run() -> None:
    for name in ("reduce", "barrier"):
        assert show.collective(name, 4).text == show.collective(name, 4).text


def test_an_unknown_name_lists_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="'all_redcue'") as refused:
        show.collective("all_redcue")
    assert all(name in str(refused.value) for name in EXAMPLES)


def test_what_the_backend_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_DEVICE_TRANSPORT", "TCP_TLS")  # which needs a key
    with pytest.raises(RuntimeError, match="all_reduce does not work"):
        show.collective("all_reduce", 2)
