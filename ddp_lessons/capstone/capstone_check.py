"""`check.capstone`: judge a learner's training script as a whole, in six parts, and write a page to show to others."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from ddp_lessons.capstone import plain_training
from ddp_lessons.capstone.capstone_page import REPEATED, STATES, as_page, sentence, without_repeats
from ddp_lessons.capstone.capstone_parts import (
    Part,
    bears_a_slow_rank,
    counts_each_sample,
    same_training,
    survives_a_kill,
    throughput,
)
from ddp_lessons.capstone.capstone_trials import NotJudged, Trials
from ddp_lessons.capstone.injected_hang import LETTERS, NAME, HangQuestion, ask_about_a_hang, choice_for
from ddp_lessons.capstone.script_runs import CannotJudge, require_torchrun
from ddp_lessons.check.judging.report import Report, not_started
from ddp_lessons.check.progress_file import clean_name
from ddp_lessons.run.diagnosis.wording import listed
from ddp_lessons.run.output.progress_line import ProgressLine

PARTS: dict[str, Callable[[Trials], Part]] = {
    "the same as one process": same_training,
    "killed and resumed": survives_a_kill,
    "uneven data": counts_each_sample,
    "a slow rank": bears_a_slow_rank,
    "throughput": throughput,
}
ANNOUNCEMENT = (
    "check.capstone starts {script} on 1, 2 and 4 ranks, about ten times, and judges it in six parts.\n"
    "This takes about 90 seconds on two free cores. You can stop it at any time."
)


@dataclass(frozen=True)
class Judgment:
    """Of one text of a script: the first five parts, and the question of the sixth."""

    parts: tuple[Part, ...]
    hang: HangQuestion | Part

    def with_diagnosis(self, letter: str) -> tuple[Part, ...]:
        last = self.hang.part(letter) if isinstance(self.hang, HangQuestion) else self.hang
        return (*self.parts, last)


_judged: dict[bytes, Judgment] = {}  # so that a diagnosis needs no new runs


@dataclass(frozen=True, repr=False)
class CapstoneReport(Report):
    """A report with a line for each part."""

    parts: tuple[Part, ...] = ()


def capstone(
    script: str | Path = "my_train.py",
    *,
    name: str = "",
    diagnosis: str = "",
    page: str | Path = "capstone.html",
    again: bool = False,
) -> Report:
    """Judge your training script in six parts, and write a page with the outcome.

    As long as the file stays the same, its results are kept.

    Args:
        script: the file that torchrun starts.
        name: your name on the page.
        diagnosis: the letter of the sentence that says why the copy with a fault hangs.
        page: the file to write.
        again: run everything again, although the file is the same.

    Raises:
        ValueError: the diagnosis is none of the letters.
    """
    path, letter = Path(script), str(diagnosis).strip().rstrip(").").upper()
    if letter and letter not in LETTERS:
        raise ValueError(f"diagnosis is one of the letters {', '.join(LETTERS)}, not {diagnosis!r}")
    if (yet := _not_started(path)) is not None:
        return yet
    if told := _cannot_start(path):
        return Report("capstone", False, "not right yet", told[0], (f"  Next: {told[1]}",))
    content = path.read_bytes()
    is_kept = content in _judged and not again
    if not is_kept:
        print(ANNOUNCEMENT.format(script=path.name), flush=True)
        try:
            _judged[content] = judge(path.resolve())
        except KeyboardInterrupt:
            return Report("capstone", False, "stopped", "You stopped the check, and all its processes were ended.")
        except CannotJudge as missing:
            return Report("capstone", False, "could not judge", str(missing))
    parts = _judged[content].with_diagnosis(letter)
    kept = [f"  {path.name} is unchanged, so nothing ran again. To run it again: again=True"] * (is_kept and not letter)
    return _report(parts, *kept, f"  {_write_page(parts, clean_name(name), path.name, Path(page))}")


def _write_page(parts: Sequence[Part], name: str, script: str, target: Path) -> str:
    """What is said about it."""
    try:
        target.write_text(as_page(parts, name, script), encoding="utf-8")
    except OSError as error:
        return f"The page {target} could not be written: {error.strerror}."
    return f"The page to show to others: {target}" + ' (for a page with your name: name="...")' * (not name)


def _not_started(path: Path) -> Report | None:
    """What is missing, and what to do."""
    if not path.is_file():
        folder = path.resolve().parent.name
        mistake = f"There is no file {path.name} in the folder {folder}."
        advice = f"copy plain_training.py to {path.name} in this folder, and edit the copy."
    elif _program(path) == _program(Path(plain_training.__file__)):
        mistake = f"{path.name} is still the plain program, without a change."
        advice = "begin with step 1 of the plan: join the process group, and let only rank 0 print."
    else:
        return None
    return replace(not_started("capstone"), mistake=mistake, details=(f"  Next: {advice}",))


def _program(path: Path) -> list[str]:
    return [line.rstrip() for line in path.read_text(encoding="utf-8", errors="replace").strip().splitlines()]


def _cannot_start(path: Path) -> tuple[str, str] | None:
    try:
        compile(path.read_bytes(), path.name, "exec")
    except (SyntaxError, ValueError) as error:
        at = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{path.name} is not a Python program: {type(error).__name__}{at}.", "fix that line, and run it once."
    return None


def judge(script: Path, functions: Sequence[Callable[[Trials], Part]] = tuple(PARTS.values())) -> Judgment:
    """Run the script in many ways. A part that fails does not keep the others from being judged."""
    require_torchrun()
    folder, began = Path(tempfile.mkdtemp(prefix="ddp-lessons-")), time.monotonic()
    names = [next(name for name, one in PARTS.items() if one is function) for function in functions]
    with ProgressLine() as line:
        try:
            trials = Trials(script, folder, choice_for(script))
            parts = []
            for number, function in enumerate(functions, start=1):
                trials.tick = _shown_on(line, f"part {number} of {len(PARTS) + 1}", began)
                parts.append(judged_part(names[number - 1], function, trials))
            trials.tick = _shown_on(line, f"part {len(PARTS) + 1} of {len(PARTS) + 1}", began)
            return Judgment(tuple(parts), _hang(trials))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _shown_on(line: ProgressLine, part: str, began: float) -> Callable[[str], None]:
    return lambda words: line.show(f"{part}: {words} ({time.monotonic() - began:.0f} s so far)")


def judged_part(name: str, function: Callable[[Trials], Part], trials: Trials) -> Part:
    try:
        return function(trials)
    except NotJudged as reason:
        return Part(name, False, str(reason), reason.advice)


def _hang(trials: Trials) -> HangQuestion | Part:
    try:
        return ask_about_a_hang(trials)
    except NotJudged as reason:
        return Part(NAME, False, str(reason), reason.advice)


# the report


def _report(parts: Sequence[Part], *after: str) -> CapstoneReport:
    number = sum(part.passed is True for part in parts)
    is_wrong = any(part.passed is False for part in parts)
    verdict = "passed" if number == len(parts) else "not right yet" if is_wrong else "your diagnosis is missing"
    mistake = "" if number == len(parts) else f"{number} of {len(parts)} parts passed."
    if parts[0].passed is False and any(part.passed is False for part in parts[1:]):
        mistake += " Begin with part 1: if the training run differs there, later parts fail, too."
    details = (*_lines(without_repeats(parts)), *after)
    return CapstoneReport("capstone", number == len(parts), verdict, mistake, details, parts=tuple(parts))


def _lines(parts: Sequence[Part]) -> Iterator[str]:
    for said, some in groupby(enumerate(parts, start=1), key=lambda each: each[1].said):
        numbered = [*some]
        if said.startswith(REPEATED) and len(numbered) > 1:
            yield f"  Parts {listed([place for place, _ in numbered])}: {sentence(said)}"
            continue
        for place, part in numbered:
            yield f"  {place}. {part.name}: {STATES[part.passed][0]}. {sentence(part.said)}"
            yield from (f"      {line}".rstrip() for line in part.lines if part.passed is not True)
            yield from [f"  Next: {part.advice}"] * bool(part.advice)
