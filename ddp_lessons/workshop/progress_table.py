"""Show which exercises have passed, share this, and make one table of what many learners shared.

A shared file contains only the name that the learner gives, and for each exercise the number of tries and the date when
it passed. Nothing is sent anywhere; the learner hands over the file.
"""

from __future__ import annotations

import csv
import io
import statistics
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddp_lessons.check.dashboard import LESSON_OF, LESSONS, Progress, progress
from ddp_lessons.check.progress_file import Entry, Kept, NotProgress, as_text, clean_name, place, read, recall
from ddp_lessons.check.report import table
from ddp_lessons.own_files import write_whole
from ddp_lessons.workshop.ticket_table import without_controls

_SHOWN_OF_A_NAME = 32
_COLUMNS = ["learner", "lesson", "exercise", "state", "tries", "passed on", "file"]


@dataclass(frozen=True)
class _Learner:
    name: str
    file: str
    progress: Progress


def show() -> int:
    """Print the learner's own progress."""
    print(progress())
    path = place()
    if path is None:
        print("\nDDP_LESSONS_PROGRESS is off: nothing is stored.")
    elif path.exists():
        print(f"\nStored in {path}. It is not sent anywhere.")
        print('To share it: python -m ddp_lessons progress --share FILE --name "the name that your instructor knows"')
    return 0


def share(file: str, name: str) -> int:
    """Write a copy with this name for the learner to hand over."""
    shown, path = clean_name(name), Path(file).expanduser()
    if place() is None:
        return _refuse("DDP_LESSONS_PROGRESS is off: nothing is kept that could be shared.")
    if not shown:
        return _refuse("A shared file needs a name that can be read: --name NAME.")
    try:
        before = read(path)
    except NotProgress as reason:
        return _refuse(f"{file} was not changed, because it {reason}. Choose another name.")
    if path.exists() and before.name != shown:
        whose = f"the progress of {before.name}" if before.name else "no shared progress, maybe your own"
        return _refuse(f"{file} was not changed, because it contains {whose}. Choose another name.")
    entries, notes = recall()
    known = {name: replace(entry, passed=entry.passed[:10]) for name, entry in entries.items()}
    try:
        write_whole(path, as_text(Kept(known, shown)), mode=0o666)
    except OSError as error:
        return _refuse(f"{file} could not be written: {error.strerror}.")
    print(f"{Progress(entries).headline}. Written to {file}, with only the name {shown}, the tries and the dates.")
    for note in notes:
        print(note, file=sys.stderr)
    return 0


def collect(folder: str, spreadsheet: str | None = None) -> int:
    """Make one table of all files in the folder and below; return 1 if one of them could not be read."""
    if not Path(folder).is_dir():
        return _refuse(f"There is no folder {folder}.")
    learners, faults = _read_all(Path(folder))
    if learners:
        print("\n".join(_by_lesson(learners)))
        print("\n".join(["", *_by_exercise(learners)]))
    else:
        faults.append(f"No progress was found in {folder}: learners write it with progress --share FILE.")
    if spreadsheet is not None:
        faults += _write_spreadsheet(Path(spreadsheet), learners)
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


def _read_all(folder: Path) -> tuple[list[_Learner], list[str]]:
    found, faults = [], []
    for path in sorted(folder.rglob("*")):
        file = without_controls(path.relative_to(folder).as_posix())  # it is printed
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue  # files of an editor or a notebook server
        try:
            kept = read(path)
            found.append(_Learner(kept.name, file, Progress(kept.entries)))
        except NotProgress as reason:
            if path.suffix == ".json":  # other files may be there too
                faults.append(f"{file} is left out: it {reason}")
    times = Counter(learner.name.casefold() for learner in found)
    named = [
        learner if learner.name and times[learner.name.casefold()] == 1 else replace(learner, name=_with_file(learner))
        for learner in found
    ]
    return sorted(named, key=lambda learner: (learner.name.casefold(), learner.file)), faults


def _with_file(learner: _Learner) -> str:
    """The file name distinguishes learners without a name, or with the same name."""
    return f"{learner.name} ({clean_name(learner.file)})".strip()


def _by_lesson(learners: Sequence[_Learner]) -> list[str]:
    rows = [("passed in lesson", *(str(lesson.number) for lesson in LESSONS), "all", "tried")]
    rows.append(("of", *(str(len(lesson.exercises)) for lesson in LESSONS), str(len(LESSON_OF)), ""))
    for learner in learners:
        name, own = learner.name, learner.progress
        short = name if len(name) <= _SHOWN_OF_A_NAME else f"{name[: _SHOWN_OF_A_NAME - 3]}..."
        counts = [own.count("passed", lesson) for lesson in LESSONS] + [own.count("passed"), own.count("tried")]
        rows.append((short, *map(str, counts)))
    return [f"{len(learners)} {'learner' if len(learners) == 1 else 'learners'}", *table(rows)]


def _by_exercise(learners: Sequence[_Learner]) -> list[str]:
    """Exercises, to see where learners get stuck."""
    rows = [("exercise", "lesson", "passed", "tried", "open", "tries until passed, median")]
    for exercise, lesson in LESSON_OF.items():
        states = Counter(learner.progress.state(exercise) for learner in learners)
        entries = [entry for learner in learners if (entry := learner.progress.entries.get(exercise))]
        tries = [entry.tries for entry in entries if entry.passed]
        median = f"{statistics.median(tries):g}" if tries else "-"
        rows.append((exercise, str(lesson), str(states["passed"]), str(states["tried"]), str(states["open"]), median))
    return table(rows)


def _write_spreadsheet(path: Path, learners: Sequence[_Learner]) -> list[str]:
    """One line for each learner and exercise. It overwrites only an older table of this kind."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(_COLUMNS)
    for learner in learners:
        for exercise, lesson in LESSON_OF.items():
            entry, state = learner.progress.entries.get(exercise, Entry()), learner.progress.state(exercise)
            row = (learner.name, lesson, exercise, state, entry.tries, entry.passed[:10], learner.file)
            writer.writerow(map(_harmless, row))
    try:
        if path.exists() and not path.read_bytes().removeprefix(b"\xef\xbb\xbf").startswith(b'"learner","lesson",'):
            return [f"{path} was not changed, because it is not a table of learners. Choose another name."]
        write_whole(path, "\ufeff" + text.getvalue().replace("\r\n", "\n"), mode=0o666)  # for Excel
    except OSError as error:
        return [f"{path} could not be written: {error.strerror}."]
    return []


def _harmless(value: object) -> str:
    """Text from anyone that no spreadsheet treats as a formula."""
    text = clean_name(str(value))
    first = unicodedata.normalize("NFKC", text[:1])  # some spreadsheets accept full-width signs too
    return f"'{text}" if first in ("=", "+", "-", "@") else text


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 1
