"""Real dumps of hanging ranks, torch's own and ours: mistakes of the catalog are named from both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from catalog.dump_reports import make_dumps, ours, torchs
from catalog.mistakes import MISTAKES
from catalog.torch_analyzer import with_groups
from nights import by_day

from ddp_lessons.dumps.left_behind import read_left_behind

WHOLE = "rank, call, line, cause"
BY_NAME = {mistake.name: mistake for mistake in MISTAKES}
# of these torch's dumps have all that matters: collectives in the group of all ranks
SEEN_BY_TORCH = [
    *("one_returned", "raised_and_caught", "early_break", "uneven_batches", "different_collectives", "different_order"),
    *("different_shapes", "barrier_on_rank_0", "ddp_fewer_forwards", "ddp_uneven_inputs", "ddp_model_on_rank_0_only"),
]
HANGS = [mistake.name for mistake in MISTAKES if mistake.alone == "hang"]
SOME = ["one_returned", "both_send_first", "group_made_by_some"]


@pytest.fixture(scope="module")
def dumps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the programs that the chosen tests read."""
    folder = tmp_path_factory.mktemp("dumps")
    chosen = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    for kind in ("torch", "own"):
        make_dumps(folder / kind, kind, [name for name in HANGS if name in SOME or name in chosen])
    return folder


@pytest.mark.parametrize("name", by_day(HANGS, SOME.__contains__))
def test_our_dumps_name_the_rank_the_call_the_line_and_the_cause(name: str, dumps: Path) -> None:
    report = ours(dumps / "own" / name)
    assert report.named(BY_NAME[name]) == WHOLE, report.text


@pytest.mark.parametrize("name", by_day([name for name in HANGS if name in SEEN_BY_TORCH], SOME.__contains__))
def test_torchs_dumps_do_so_for_collectives(name: str, dumps: Path) -> None:
    report = ours(dumps / "torch" / name)
    assert report.named(BY_NAME[name]) == WHOLE, report.text


def test_torchs_dumps_of_gloo_have_no_messages_and_the_report_says_so(
    dumps: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    left = read_left_behind(str(dumps / "torch" / "both_send_first" / "rank_"))
    assert left.number_of_calls == 0
    assert "gloo's dumps do not contain send and recv" in ours(dumps / "torch" / "one_returned").text


def test_torchs_analyzer_reads_our_dumps_too(dumps: Path) -> None:
    assert torchs(dumps / "own" / "one_returned").ranks == {3}
    repaired = with_groups(dumps / "torch" / "one_returned", dumps / "with groups")
    assert torchs(repaired).ranks == {3}


def test_a_dump_of_this_torch_is_plain_data(dumps: Path) -> None:
    """The restricted unpickler reads every file that torch wrote."""
    for place in (dumps / "torch").iterdir():
        left = read_left_behind(str(place / "rank_"))
        written = [file for file in os.listdir(place) if file.startswith("rank_")]
        assert left.left_out == []
        assert len(written) == sum(one is not None for one in left.recorded)
