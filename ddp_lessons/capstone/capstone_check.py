"""`check.capstone`: judge a learner's training script as a whole, in five parts, and write a page to show to others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
)
from ddp_lessons.capstone.capstone_trials import NotJudged, Trials
from ddp_lessons.capstone.injected_hang import CASES, LETTERS, NAME, HangQuestion, ask_about_a_hang, choice_for
from ddp_lessons.capstone.script_runs import CannotJudge, require_torchrun
from ddp_lessons.check.report import Report, not_started
from ddp_lessons.run.diagnosis.wording import listed

PARTS: dict[str, Callable[[Trials], Part]] = {
    "the same as one process": same_training,
    "killed and resumed": survives_a_kill,
    "uneven data": counts_each_sample,
    "a slow rank": bears_a_slow_rank,
}
ANNOUNCEMENT = (
    "check.capstone starts {script} on 1, 2 and 4 ranks, about ten times, and judges it in five parts.\n"
    "This takes about 90 seconds on two free cores. You can stop it at any time."
)
ANOTHER_CASE = "The last diagnosis was wrong, so check.capstone injects another fault into a copy of {script}."


@dataclass(frozen=True)
class Judgment:
    """Of one text of a script: the first parts, and the question of the last; None where a wrong letter used it up."""

    parts: tuple[Part, ...]
    hang: HangQuestion | Part | None
    case: int = 0  # of the question, or of the next one

    def with_diagnosis(self, letter: str) -> tuple[Part, ...]:
        assert self.hang is not None
        last = self.hang.part(letter) if isinstance(self.hang, HangQuestion) else self.hang
        return (*self.parts, last)

    def after(self, letter: str) -> Judgment:
        """A wrong letter costs the case, so that trying the letters one after the other does not help."""
        if not letter or not isinstance(self.hang, HangQuestion) or letter == self.hang.right:
            return self
        return replace(self, hang=None, case=(self.case + 1) % len(CASES))


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
    """Judge your training script in five parts, and write a page with the outcome.

    As long as the file stays the same, its results are kept. After a wrong diagnosis, another fault is to be explained.

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
    kept = _judged.get(path.read_bytes()) if path.is_file() and not again else None
    letters = LETTERS[kept.case] if kept else "".join(LETTERS)
    if letter and letter not in [*letters]:
        raise ValueError(f"diagnosis is one of the letters {letters[0]} to {letters[-1]}, not {diagnosis!r}")
    if (yet := _not_started(path)) is not None:
        return yet
    if told := _cannot_start(path):
        return Report("capstone", False, "not right yet", told[0], (f"  Next: {told[1]}",))
    content = path.read_bytes()
    judgment = kept
    if judgment is None or judgment.hang is None:
        print((ANOTHER_CASE if judgment else ANNOUNCEMENT).format(script=path.name), flush=True)
        case = judgment.case if judgment else next(case for case, own in enumerate(LETTERS) if letter in own)
        try:
            now = judge(path.resolve(), case, {} if judgment else PARTS)
        except KeyboardInterrupt:
            return Report("capstone", False, "stopped", "You stopped the check, and all its processes were ended.")
        except CannotJudge as missing:
            return Report("capstone", False, "could not judge", str(missing))
        judgment = replace(now, parts=judgment.parts) if judgment else now
    _judged[content] = judgment.after(letter)
    parts = judgment.with_diagnosis(letter)
    unchanged = f"  {path.name} is unchanged, so nothing ran again. To run it again: again=True"
    return _report(
        parts,
        *[unchanged] * (judgment is kept and not letter),
        f"  {_write_page(parts, name, path.name, Path(page))}",
    )


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


def judge(script: Path, case: int = 0, functions: Mapping[str, Callable[[Trials], Part]] = PARTS) -> Judgment:
    """Run the script in many ways. A part that fails does not keep the others from being judged."""
    require_torchrun()
    parts = []
    with Trials.shown(script, choice_for(script)) as trials:
        for number, (name, function) in enumerate(functions.items(), start=1):
            trials.part = f"part {number} of {len(PARTS) + 1}: "
            parts.append(judged_part(name, function, trials))
        trials.part = f"part {len(PARTS) + 1} of {len(PARTS) + 1}: "
        return Judgment(tuple(parts), _hang(trials, case), case)


def judged_part(name: str, function: Callable[[Trials], Part], trials: Trials) -> Part:
    try:
        return replace(function(trials), name=name)
    except NotJudged as reason:
        return Part(name, False, str(reason), reason.advice)


def _hang(trials: Trials, case: int) -> HangQuestion | Part:
    try:
        return ask_about_a_hang(trials, case)
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
