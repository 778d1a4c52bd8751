"""Dumps as NCCL leaves them: the same sentences as of a launch, whatever is missing, lost or damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from catalog.torch_analyzer import ask_torch
from simulated_dumps import Rank, world, write_all

from ddp_lessons.dumps.dump_report import Finding, Verdict, find_fault
from ddp_lessons.dumps.explain_command import explain_dumps
from ddp_lessons.dumps.left_behind import read_left_behind


def found(place: Path) -> tuple[Finding, str]:
    finding = find_fault(read_left_behind(str(place)))
    return finding, finding.in_words()


def steps(ranks: list[Rank], count: int = 3) -> list[Rank]:
    """The same correct calls on all ranks."""
    for rank in ranks:
        for step in range(count):
            rank.call("all_reduce", line=9)
            rank.call("broadcast", (2, step + 1), line=11)
    return ranks


def wait_in(ranks: list[Rank], name: str = "all_reduce", line: int = 20, **options: object) -> None:
    for rank in ranks:
        rank.call(name, line=line, state="scheduled", **options)  # type: ignore[arg-type]


def one_is_missing(ranks: list[Rank]) -> None:
    wait_in([rank for rank in ranks if rank.rank != 2])


def another_call(ranks: list[Rank]) -> None:
    wait_in(ranks[1:])
    wait_in(ranks[:1], "broadcast", line=21)


def another_shape(ranks: list[Rank]) -> None:
    wait_in(ranks[:3], shape=(4,))
    wait_in(ranks[3:], shape=(3,))


def another_dtype(ranks: list[Rank]) -> None:
    wait_in(ranks[:3])
    wait_in(ranks[3:], dtype="Long")


# what torch's analyzer prints for each, and what ours must say
SAID: dict[Callable[[list[Rank]], None], tuple[str, tuple[str, ...]]] = {
    one_is_missing: ("missing ranks: {2}", ("Rank 2 has not called it.", "collective 7, but rank 2 called only 6.")),
    another_call: ("COLLECTIVE_TYPE_MISMATCH", ("Mismatched collectives: rank 0 called broadcast (train.py line 21)",)),
    another_shape: ("SIZE_OR_SYNTAX_MISMATCH", ("Shape mismatch", "rank 3 passed [3] float32")),
    another_dtype: ("COLLECTIVE_DTYPE_MISMATCH", ("Dtype mismatch", "rank 3 passed [4] int64")),
}


@pytest.mark.parametrize("fault", SAID, ids=lambda fault: fault.__name__)
def test_what_torchs_analyzer_finds_is_said_with_the_ranks_and_the_lines(
    fault: Callable[[list[Rank]], None], tmp_path: Path
) -> None:
    ranks = steps(world(4))
    fault(ranks)
    write_all(ranks, tmp_path, prefix="rank_")
    of_torch, of_ours = SAID[fault]
    assert of_torch in ask_torch(tmp_path)
    finding, message = found(tmp_path)
    assert finding.verdict is Verdict.HANG
    assert not [words for words in (*of_ours, "train.py line 20") if words not in message], message


@pytest.mark.no_second_try
def test_healthy_dumps_say_that_nothing_hangs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_all(steps(world(4)), tmp_path)
    assert explain_dumps(str(tmp_path)) == 0
    assert capsys.readouterr().out.startswith("No hang: the calls of 4 ranks match")


def test_a_rank_that_called_a_moment_ago_is_only_late(tmp_path: Path) -> None:
    """A snapshot of a running job: rank 0 is in a call, and the others are about to make it."""
    ranks = steps(world(4))
    wait_in(ranks[:1], seconds_later=0.1)
    assert found(write_all(ranks, tmp_path, written_ago=690.0))[0].verdict is Verdict.NOTHING
    assert found(write_all(ranks, tmp_path))[0].verdict is Verdict.HANG


def test_after_a_timeout_no_rank_counts_as_late(tmp_path: Path) -> None:
    """NCCL gave the call up: retired, and not completed. The job's timeout may be shorter than our patience."""
    ranks = steps(world(4))
    wait_in(ranks[1:], is_retired=True)
    finding, message = found(write_all(ranks, tmp_path, written_ago=699.0))
    assert finding.verdict is Verdict.HANG
    assert "(until its timeout)" in message


@pytest.mark.parametrize("lost", [0, 7])
def test_calls_that_a_ring_buffer_lost_are_no_fault(lost: int, tmp_path: Path) -> None:
    ranks = steps(world(4), 10)
    ranks[1].lose(lost)
    ranks[3].lose(2 * lost)
    assert found(write_all(ranks, tmp_path))[0].verdict is Verdict.NOTHING
    one_is_missing(ranks)
    message = found(write_all(ranks, tmp_path))[1]
    assert "Rank 2 has not called it." in message
    assert "in collective 21, but rank 2 called only 20" in message


def test_a_group_whose_calls_are_lost_on_a_rank_is_no_fault(tmp_path: Path) -> None:
    ranks = world(4, g1=("tp", [0, 1]))
    for rank in ranks[:2]:
        rank.call("all_reduce", group="1")
    steps(ranks)
    ranks[0].lose(1)
    assert found(write_all(ranks, tmp_path))[0].verdict is Verdict.NOTHING


@pytest.mark.parametrize(
    ("dumps", "who", "they"), [(3, "rank 3", "it"), (2, "ranks 2 and 3", "they")], ids=["one rank", "two ranks"]
)
def test_ranks_without_a_dump_are_named_but_not_called_absent(dumps: int, who: str, they: str, tmp_path: Path) -> None:
    ranks = steps(world(4))
    wait_in(ranks[:dumps])
    finding, message = found(write_all(ranks[:dumps], tmp_path))
    assert finding.verdict is Verdict.HANG
    assert f"{who}   left no dump" in message
    assert f"{who[1:]} left no dump: {they} may have died or never called it." in message
    assert f"Next: look for an exception or a signal in the log of {who}" in message


def test_where_a_rank_left_no_dump_nothing_is_certain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As after an abort: the other ranks lost the connection and ended."""
    assert explain_dumps(str(write_all(steps(world(4))[:3], tmp_path))) == 2
    said = capsys.readouterr().out
    assert "The other calls match, but rank 3 left no dump." in said
    assert "Next: look for an exception or a signal in the log of rank 3" in said
    assert "No hang" not in said


def test_a_rank_that_is_known_to_be_absent_comes_before_one_without_a_dump(tmp_path: Path) -> None:
    ranks = steps(world(4))
    wait_in(ranks[:2])
    assert "Rank 2 has not called it." in found(write_all(ranks[:3], tmp_path))[1]


def test_a_mismatch_of_the_other_ranks_comes_before_a_missing_dump_and_keeps_its_name(tmp_path: Path) -> None:
    """It was in a group of two, which went on."""
    ranks = steps(world(4, g1=("pair", [0, 1])))
    ranks[0].call("broadcast", group="1", line=15)
    ranks[1].call("all_reduce", group="1", line=15)
    wait_in(ranks[:3])
    finding, message = found(write_all(ranks[:3], tmp_path))
    assert finding.reason is not None
    assert finding.reason.key == "order-mismatch"
    assert message.startswith("WorkersStuck: hang (mismatched collectives), 3 ranks")
    assert "rank 3   left no dump" in message


def as_of_gloo(ranks: list[Rank]) -> None:
    """Its calls do not tell their end, and its groups have lost their names."""
    for rank in ranks:
        rank.groups = {"": ("", range(len(ranks)))}
        for entry in rank.entries:
            entry["profiling_name"] = entry["profiling_name"].replace("nccl:", "gloo:")
            entry.update(state="scheduled", time_discovered_completed_ns=None)


def test_the_last_rank_is_missed_in_dumps_of_gloo_too(tmp_path: Path) -> None:
    ranks = steps(world(4))
    wait_in(ranks, is_retired=False)
    as_of_gloo(ranks)
    message = found(write_all(ranks[:3], tmp_path))[1]
    assert "rank 3   left no dump" in message
    assert "Next: look for an exception or a signal in the log of rank 3" in message


def test_calls_of_two_groups_in_another_order_are_a_deadlock(tmp_path: Path) -> None:
    ranks = steps(world(2, g1=("one", [0, 1]), g2=("other", [0, 1])))
    wait_in(ranks[:1], group="1")
    wait_in(ranks[1:], group="2", line=21)
    message = found(write_all(ranks, tmp_path))[1]
    assert message.startswith("WorkersStuck: deadlock")
    assert '"one" (train.py line 20)' in message


def test_calls_that_all_made_and_that_do_not_end_point_at_the_gpu(tmp_path: Path) -> None:
    ranks = steps(world(4))
    wait_in(ranks)
    finding, message = found(write_all(ranks, tmp_path))
    assert finding.verdict is Verdict.HANG
    assert "All ranks of the group called all_reduce of float32 [4], and the calls match" in message
    assert "Not the cause: 6 earlier collectives match" in message


def test_only_the_oldest_call_counts_of_those_that_were_started_ahead(tmp_path: Path) -> None:
    ranks = steps(world(3))
    for rank in ranks[:2]:
        for line in (20, 21, 22):
            rank.call("all_reduce", line=line, state="scheduled")
    message = found(write_all(ranks, tmp_path))[1]
    assert "train.py line 20" in message
    assert "train.py line 22" not in message


def send(rank: Rank, peer: int, state: str = "completed", **options: object) -> None:
    rank.call(f"send {rank.rank}->{peer}", state=state, is_p2p=True, **options)  # type: ignore[arg-type]


def receive(rank: Rank, peer: int, state: str = "completed", **options: object) -> None:
    rank.call(f"recv {rank.rank}<-{peer}", state=state, is_p2p=True, **options)  # type: ignore[arg-type]


def test_a_message_that_no_rank_sends(tmp_path: Path) -> None:
    zero, one = steps(world(2))
    send(zero, 1)
    receive(one, 0)
    receive(one, 0, "scheduled", line=20)
    assert "rank 0 has not called the send that rank 1 waits for" in found(write_all([zero, one], tmp_path))[1]


@pytest.mark.parametrize("lost", [0, 7])
def test_a_ring_of_batches_is_no_fault_unless_one_rank_is_missing(lost: int, tmp_path: Path) -> None:
    """As batch_isend_irecv: torch notes how a batch ended only in its last entry."""
    ranks = steps(world(4))

    def send_around(ranks: list[Rank], state: str) -> None:
        for rank in ranks:
            send(rank, (rank.rank + 1) % 4, "scheduled", is_retired=False)
            receive(rank, (rank.rank - 1) % 4, "scheduled", is_retired=False, same_batch=True)
            rank.call("coalesced", state=state, is_p2p=True, same_batch=True)

    send_around(ranks, "completed")
    assert found(write_all(ranks, tmp_path))[0].verdict is Verdict.NOTHING
    send_around(ranks[:3], "scheduled")
    for rank in ranks:
        rank.lose(lost)
    finding, message = found(write_all(ranks, tmp_path))
    assert finding.verdict is Verdict.HANG
    assert "rank 3 has not called the" in message


def test_json_without_stacks_says_the_same_without_lines(tmp_path: Path) -> None:
    ranks = steps(world(4))
    one_is_missing(ranks)
    for rank in ranks:
        rank.write_json(tmp_path)
    finding, message = found(tmp_path)
    assert finding.verdict is Verdict.HANG
    assert "Rank 2 has not called it." in message
    assert "waits in all_reduce of float32 [4] (an unknown line)" in message.replace("wait in", "waits in")


def test_the_diagnosis_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ranks = steps(world(4))
    one_is_missing(ranks)
    write_all(ranks, tmp_path)
    assert explain_dumps(str(tmp_path), is_json=True) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["status"], told["without_dump"]) == ("hang", 1, [])
    waits = told["ranks"][0]["waits_in"]
    assert (waits["number"], waits["line"], waits["shape"], waits["group_ranks"]) == (7, 20, [4], [0, 1, 2, 3])
    assert "waits_in" not in told["ranks"][2]


def test_a_picture_and_a_trace(tmp_path: Path) -> None:
    ranks = steps(world(4))
    one_is_missing(ranks)
    place = write_all(ranks, tmp_path)
    picture, trace = tmp_path / "out.png", tmp_path / "out.json"
    assert explain_dumps(f"{place}/nccl_trace_rank_", timeline=str(picture), trace=str(trace)) == 1
    assert picture.read_bytes().startswith(b"\x89PNG")
    events = json.loads(trace.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1, 2, 3}
    assert any(event["name"] == "all_reduce" for event in events)


def test_a_picture_that_cannot_be_written_is_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(write_all(steps(world(2)), tmp_path))
    assert explain_dumps(place, timeline=str(tmp_path / "out.gif")) == 2
    assert explain_dumps(place, trace=str(tmp_path / "no folder" / "out.json")) == 2
    assert capsys.readouterr().err.count("the timeline or trace was not written") == 2


def test_of_very_many_calls_the_first_mismatch_or_the_missing_rank_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_lessons.dumps.aligned_calls.MOST_CALLS", 100)
    ranks = steps(world(4), 500)
    one_is_missing(ranks)
    assert "in collective 1001, but rank 2 called only 1000" in found(write_all(ranks, tmp_path))[1]

    ranks = world(4)
    ranks[0].call("all_gather", line=15)
    for rank in ranks[1:]:
        rank.call("all_reduce", line=16)
    finding, message = found(write_all(steps(ranks, 500), tmp_path))
    assert finding.verdict is Verdict.MISMATCH
    assert "rank 0 called all_gather (train.py line 15)" in message


def test_dumps_of_only_the_active_calls_name_the_missing_rank(tmp_path: Path) -> None:
    """With TORCH_INCLUDE_ONLY_ACTIVE torch leaves out what is completed."""
    ranks = steps(world(4))
    one_is_missing(ranks)
    for rank in ranks:
        rank.entries = [entry for entry in rank.entries if entry["state"] != "completed"]
    assert "Rank 2 has not called it." in found(write_all(ranks, tmp_path))[1]


def test_ranks_of_a_group_that_does_not_hang_are_not_blamed(tmp_path: Path) -> None:
    ranks = steps(world(4, g1=("tp", [0, 1]), g2=("tp", [2, 3])))
    for rank in ranks[2:]:
        rank.call("all_reduce", group="2")
    wait_in(ranks[:1], group="1")
    message = found(write_all(ranks, tmp_path))[1]
    assert "Rank 1 has not called it." in message
    assert 'in the group of ranks 0 and 1 "tp"' in message


def test_gloos_timeouts_are_told_from_completed_calls(tmp_path: Path) -> None:
    """gloo retires a call that timed out as it does one that completed. The other rank has not made it."""
    ranks = steps(world(3))
    for rank in ranks:
        if rank.rank != 1:
            rank.call("all_reduce", line=20, state="scheduled", is_retired=True)
    as_of_gloo(ranks)
    finding, message = found(write_all(ranks, tmp_path))
    assert finding.verdict is Verdict.HANG
    assert "Rank 1 has not called it." in message
    assert "ranks 0 and 2   wait in all_reduce" in message


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_batch_of_collectives_counts_as_one_wherever_the_ring_buffer_cuts_it(lost: int, tmp_path: Path) -> None:
    ranks = world(3)
    for rank in ranks:
        rank.call("_all_gather_base", (2,), state="scheduled", is_retired=False)
        rank.call("_reduce_scatter_base", (5,), state="scheduled", is_retired=False, same_batch=True)
        rank.call("coalesced", same_batch=True)
    steps(ranks)
    ranks[1].lose(lost)
    assert found(write_all(ranks, tmp_path))[0].verdict is Verdict.NOTHING
    one_is_missing(ranks)
    assert "in collective 8, but rank 2 called only 7" in found(write_all(ranks, tmp_path))[1]
