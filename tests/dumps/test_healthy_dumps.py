"""Dumps of random correct programs, taken while they run and after they ended: no false alarm."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from random import Random

import program_player
import pytest
import torch
from nights import by_day, nightly
from processes import eventually
from program_steps import Program
from random_programs import random_program

from ddp_lessons import launch
from ddp_lessons.dumps.dump_report import Verdict, find_fault
from ddp_lessons.dumps.left_behind import read_left_behind
from ddp_lessons.record.rank_record import Standing
from ddp_lessons.run.rank.what_blocks import Surroundings, standing
from ddp_lessons.run.recording.flight_dump import write_dump as write_dump_of
from ddp_lessons.run.recording.interception import recorder

pytestmark = [nightly, pytest.mark.no_second_try]

RING = {"wide": "2000", "narrow": "7"}  # entries of the ring buffer


def write_dump(path: str) -> None:
    """Without stacks: torch takes seconds to prepare for the first ones."""
    moment = time.time()
    Path(path).write_bytes(torch._C._distributed_c10d._dump_fr_trace(True, False))  # type: ignore[attr-defined]
    os.utime(path, (moment, moment))


def all_are_retired() -> bool:
    dump = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(True))  # type: ignore[attr-defined]
    return all(entry["retired"] for entry in dump.get("entries", []))


def write_own(prefix: str, rank: int, world_size: int, ended: str) -> None:
    here = Surroundings(threading.main_thread().ident, "", 600.0)
    where = Standing(is_free=False) if ended else standing(recorder, here)
    write_dump_of(prefix, rank, world_size, recorder.recorded(2000, where), ended, 1000.0)


def run_and_dump(rank: int, world_size: int, program: Program, folder: str) -> list[str]:
    """Dumps of torch and of ours, at a random moment and at the end."""

    def write_both() -> None:
        write_dump(f"{folder}/meanwhile_{rank}")
        write_own(f"{folder}/own_meanwhile_", rank, world_size, "")

    meanwhile = threading.Timer(Random(program.seed * 100 + rank).uniform(0.0, 0.2), write_both)
    meanwhile.start()
    wrong = program_player.run(rank, world_size, program)
    assert eventually(all_are_retired)  # torch does it in a thread of its own, a moment after wait() returned
    write_dump(f"{folder}/end_{rank}")
    write_own(f"{folder}/own_end_", rank, world_size, "returned")
    meanwhile.join()
    return wrong


@pytest.mark.parametrize("programs", by_day([15, 100], 1))
@pytest.mark.parametrize("ring", RING)
def test_of_correct_programs_nothing_is_said(
    ring: str, programs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", RING[ring])
    alarms, calls = [], 0
    for program in map(random_program, range(programs)):
        folder = tmp_path / str(program.seed)
        folder.mkdir()
        launch(run_and_dump, program.world_size, program, str(folder), quiet=True)
        much_later = time.time() + 1000  # as if copied afterwards: nothing then counts as young
        for rank in range(program.world_size):
            os.utime(folder / f"end_{rank}", (much_later, much_later))
        for when in ("meanwhile", "end", "own_meanwhile", "own_end"):
            finding = find_fault(read_left_behind(f"{folder}/{when}_"))
            calls += len(finding.events)
            if finding.verdict not in (Verdict.NOTHING, Verdict.UNKNOWN):
                alarms.append(f"seed {program.seed}, {when}: {finding.in_words()}")
    assert alarms == []
    assert calls > 20 * programs
