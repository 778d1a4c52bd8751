"""How a job of Slurm ended, as Slurm calls it, and what is said of it."""

from __future__ import annotations

import pytest
from ddp_lessons.run.nodes.slurm_troubles import ending_of, next_after_ending


@pytest.mark.parametrize(
    ("state", "said", "step"),
    [
        ("TIMEOUT", "reached its time limit", "time_minutes="),
        ("CANCELLED", "was cancelled", "administrators"),
        ("PREEMPTED", "was preempted", "partition or QOS"),
        ("NODE_FAIL", "one of its nodes failed", "sinfo"),
        ("OUT_OF_MEMORY", "more memory than it requested", "mem="),
        ("COMPLETED", "has ended", "launch again"),
    ],
)
def test_each_ending_has_its_sentence_and_its_next_step(state: str, said: str, step: str) -> None:
    told = ending_of("7", state)
    assert told.startswith("job 7 ")
    assert said in told
    assert step in next_after_ending(f"machine1: {told}")
