"""`python -m ddp_lessons progress`: which exercises a learner has passed, and one table of many learners' files.

Nothing is sent anywhere. A learner who wants to share progress hands over what `progress --json` prints: for each
exercise the number of tries and the date when it passed. The name of that file is the learner's name in the table.
"""

from __future__ import annotations

import csv
import statistics
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from ddp_lessons.check.dashboard import LESSON_OF, LESSONS, Progress, progress
from ddp_lessons.check.progress_file import Entry, NotProgress, as_text, place, read, recall
from ddp_lessons.check.report import table

_SHOWN_OF_A_NAME = 32


def show() -> int:
    """Print the learner's own progress."""
    print(progress())
    path = place()
    if path is None:
        print("\nDDP_LESSONS_PROGRESS is off, so nothing is stored.")
    elif path.exists():
        print(f"\nYour progress is stored in {path} and is not sent anywhere.")
        print("To share it, run: python -m ddp_lessons progress --json > YOUR-NAME.json")
    return 0


def show_as_json() -> int:
    """Print what the learner's file contains, to hand over; return 1 if it could not be read."""
    entries, notes = recall()
    print(as_text(entries), end="")
    sys.stderr.writelines(f"{note}\n" for note in notes)
    return int(bool(notes))


def collect(folder: Path, spreadsheet: Path | None) -> int:
    """Print the tables of all files in the folder and below; return 1 if one of them could not be read."""
    learners, faults = dict[str, Progress](), list[str]()
    for path in sorted(folder.rglob("*.json"), key=lambda path: path.as_posix().casefold()):
        place = path.relative_to(folder)
        if any(part.startswith(".") for part in place.parts):
            continue  # files of an editor or a notebook server
        name = _printable(place.with_suffix("").as_posix())
        try:
            learners[name] = Progress(read(path))
        except NotProgress as reason:
            faults.append(f"{name}.json was left out: it {reason}")
    if learners:
        print(f"{len(learners)} {'learner' if len(learners) == 1 else 'learners'}")
        print(*table([*_by_lesson(learners)]), "", *table([*_by_exercise(learners)]), sep="\n")
    else:
        faults.append(
            f"No progress files were found in {folder}; learners create them with progress --json > NAME.json"
        )
    if spreadsheet is not None:
        with open(spreadsheet, "w", encoding="utf-8-sig", newline="") as file:  # utf-8-sig: for Excel
            csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(_by_learner(learners))
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return int(bool(faults))


def _printable(name: str) -> str:
    """A file's name, which anyone may have chosen: it moves no terminal, and no spreadsheet treats it as a formula."""
    name = "".join(letter for letter in unicodedata.normalize("NFKC", name) if letter.isprintable())
    return f"'{name}" if name[:1] in tuple("=+-@") else name


def _by_lesson(learners: Mapping[str, Progress]) -> Iterator[tuple[str, ...]]:
    yield ("passed in lesson", *(str(lesson.number) for lesson in LESSONS), "all", "tried")
    yield ("of", *(str(len(lesson.exercises)) for lesson in LESSONS), str(len(LESSON_OF)), "")
    for name, own in learners.items():
        short = name if len(name) <= _SHOWN_OF_A_NAME else f"{name[: _SHOWN_OF_A_NAME - 3]}..."
        counts = [own.count("passed", lesson) for lesson in LESSONS] + [own.count("passed"), own.count("tried")]
        yield (short, *map(str, counts))


def _by_exercise(learners: Mapping[str, Progress]) -> Iterator[tuple[str, ...]]:
    """Exercises, to see where learners get stuck."""
    yield ("exercise", "lesson", "passed", "tried", "open", "median tries until passed")
    for exercise, lesson in LESSON_OF.items():
        states = Counter(own.state(exercise) for own in learners.values())
        entries = [own.entries.get(exercise, Entry()) for own in learners.values()]
        tries = [entry.tries for entry in entries if entry.passed]
        median = f"{statistics.median(tries):g}" if tries else "-"
        yield (exercise, str(lesson), str(states["passed"]), str(states["tried"]), str(states["open"]), median)


def _by_learner(learners: Mapping[str, Progress]) -> Iterator[tuple[object, ...]]:
    """One line for each learner and exercise, for a spreadsheet."""
    yield ("learner", "lesson", "exercise", "state", "tries", "passed on")
    for name, own in learners.items():
        for exercise, lesson in LESSON_OF.items():
            entry = own.entries.get(exercise, Entry())
            yield (name, lesson, exercise, own.state(exercise), entry.tries, entry.passed)
