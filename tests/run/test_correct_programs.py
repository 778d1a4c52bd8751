"""Of correct programs nothing is said, and their answers are those of torch.

`python tests/correct_programs.py --programs 3000` tries them all, and says how many there were.
"""

from __future__ import annotations

import pytest
import torch.distributed as dist
from correct_programs import Program, some_programs, verdicts_on
from nights import by_day, nightly

pytestmark = [nightly, pytest.mark.no_second_try, pytest.mark.time_limit(1800)]


@pytest.mark.parametrize("programs", by_day([30, 3000], 1))
def test_of_correct_programs_nothing_is_said_and_their_answers_are_torchs(programs: int) -> None:
    verdicts = list(verdicts_on(some_programs(programs)))
    assert [(v.program.name, v.recorded.complaint) for v in verdicts if v.is_false_alarm] == []
    assert [(v.program.name, v.plain.answers, v.recorded.answers) for v in verdicts if v.is_changed] == []
    tried = [verdict for verdict in verdicts if "skipped" not in verdict.plain.answers]
    assert len(tried) > 0.7 * len(verdicts)
    assert sum(verdict.is_correct for verdict in tried) > 0.8 * len(tried)


def leaves_a_call_out(rank: int, world_size: int) -> None:
    if rank:
        dist.barrier()


def test_a_program_of_which_something_is_to_be_said_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs by itself is no correct program; what was said of it while it was recorded shows that we look."""
    monkeypatch.setattr("correct_programs.SECONDS_FOR_ONE", 10.0)  # by itself it hangs
    (verdict,) = verdicts_on([Program("wrong", "one leaves", leaves_a_call_out, ())])
    assert not verdict.is_correct
    assert "Rank 0 returned without calling it" in verdict.recorded.complaint
