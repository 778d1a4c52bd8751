"""`make test` runs a part of the longest tests, and of rooms that are as they passed; `make test-all` runs all of them.

A part is chosen by the commit and the test's name: a run can be repeated, and another commit tries others. Whoever asks
for a file or a test by its name gets every test of it, each with as many cases as effort.py allows.
"""

from __future__ import annotations

import fnmatch
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path

from effort import EVERYTHING
from rooms import is_as_it_passed, room_of

ONE_IN = {
    "tests/authoring/*": 3,
    "tests/authoring/test_beginning.py::test_the_way_that_contributing_shows*": 12,
    "tests/backends/*": 12,
    "tests/browser/test_lessons_in_a_browser.py*": 6,
    "tests/capstone/*": 12,
    "tests/check/test_check_*": 12,
    "tests/clinic/test_fresh_runs.py*": 24,
    "tests/dumps/*": 4,
    "tests/dumps/test_gloo_dumps.py*": 16,
    "tests/dumps/test_job_log.py*": 6,
    "tests/dumps/test_record_command.py*": 9,
    "tests/gpu/*": 5,
    "tests/grading/test_assignments.py::test_an_exercise_as_it_is_given*": 12,
    "tests/grading/test_assignments.py::test_the_text_of_a_solution*": 12,
    "tests/machines/*": 4,
    "tests/machines/test_checks_on_nodes.py*": 6,
    "tests/machines/test_explain_on_nodes.py*": 8,
    "tests/machines/test_failures_on_nodes.py::test_it_is_named_as_here*": 16,
    "tests/machines/test_failures_on_nodes.py::test_so_it_is*": 6,
    "tests/machines/test_modules_on_nodes.py*": 6,
    "tests/machines/test_ranks_that_stay_on_nodes.py*": 12,
    "tests/machines/test_slurm*.py*": 12,
    "tests/machines/test_torchrun.py*": 12,
    "tests/offline/*": 4,
    "tests/offline/test_without_a_network.py*": 12,
    "tests/room/*": 6,
    "tests/run/*": 6,
    "tests/run/test_correct_programs.py*": 12,
    "tests/run/test_explain.py*": 12,
    "tests/run/test_output.py::test_a_stored_notebook*": 12,
    "tests/run/test_random_programs.py*": 12,
    "tests/run/test_surroundings.py*": 8,
    "tests/run/test_telling.py::test_telling_very_often*": 12,
    "tests/sameness/*": 6,
    "tests/sameness/test_sameness_parts.py::test_a_script*": 12,
    "tests/script/*": 3,
    "tests/script/test_in_a_notebook.py*": 6,
    "tests/scripts/*": 12,
    "tests/show/*": 4,
    "tests/test_doctor.py*": 6,
    "tests/test_fronts.py*": 6,
    "tests/test_instructor_guide.py*": 3,
    "tests/test_minutes.py*": 6,
    "tests/test_project.py*": 6,
    "tests/test_slides.py*": 6,
    "tests/test_start.py*": 3,
    "tests/test_wheel.py*": 3,
    "tests/train/*": 4,
    "tests/train/test_board_group.py*": 8,
    "tests/train/test_mpi_group.py*": 5,
}
ONE_IN_A_ROOM_THAT_IS_THE_SAME = 5  # as when all its tests passed: rooms.py


def left_out(tests: Iterable[str]) -> set[str]:
    if EVERYTHING:
        return set()
    tests, commit = set(tests), _commit()
    same = {room for room in set(map(room_of, tests)) if room and is_as_it_passed(room)}
    return {test for test in tests if not _is_chosen(commit, test, room_of(test) in same)}


def _is_chosen(commit: str, test: str, is_as_it_passed: bool) -> bool:
    parts = [number for pattern, number in ONE_IN.items() if fnmatch.fnmatchcase(test, pattern)]
    if is_as_it_passed:
        parts.append(ONE_IN_A_ROOM_THAT_IS_THE_SAME * max(parts, default=1))
    return not parts or zlib.crc32(f"{commit} {test}".encode()) % max(parts) == 0


def _commit() -> str:
    asked = ["git", "rev-parse", "HEAD"]
    try:
        return subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no git, or no repository: always the same part
        return ""
