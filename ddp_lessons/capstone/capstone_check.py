"""`check.capstone`: judge a learner's training script as a whole, in five parts, and write a page to show to others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ddp_lessons.capstone import plain_training
from ddp_lessons.capstone.capstone_page import as_lines, as_page, outcome_of
from ddp_lessons.capstone.capstone_parts import (
    HANG,
    LETTERS,
    PARTS,
    ask_about_a_hang,
    capstone_trials,
    judged,
)
from ddp_lessons.capstone.verdicts import NotYet, Part, refuse
from ddp_lessons.check.report import Report, not_right, not_started

_ANNOUNCEMENT = (
    "check.capstone runs {script} about ten times, on 1, 2 and 4 ranks, and judges it in five parts.\n"
    "This takes about 90 seconds on two free cores. You can stop it at any time."
)
_ANOTHER_CASE = "Your last diagnosis was wrong, so check.capstone injects another fault into a copy of {script}."


@dataclass(frozen=True)
class Judgment:
    """Of one text of a script: the first parts, and by answer the last one.

    A wrong letter costs the case, so that trying the letters one after the other does not help: there are no answers
    until the next case has run.
    """

    parts: dict[str, Part]
    answers: dict[str, Part]
    case: int

    def with_diagnosis(self, letter: str) -> dict[str, Part]:
        return {**self.parts, HANG: self.answers.get(letter, self.answers[""])}

    def after(self, letter: str) -> Judgment:
        is_wrong = letter != "" and letter in self.answers and not self.answers[letter].passed
        return replace(self, answers={}, case=(self.case + 1) % len(LETTERS)) if is_wrong else self


_judged: dict[bytes, Judgment] = {}  # by the script's text, so that a diagnosis needs no new runs


def capstone(script: str | Path = "my_train.py", *, name: str = "", diagnosis: str = "", again: bool = False) -> Report:
    """Judge your training script in five parts, and write a page with the outcome.

    The results are kept until the file changes. After a wrong diagnosis, you have to explain another fault.

    Args:
        script: the file that torchrun starts.
        name: your name, for the page.
        diagnosis: the letter of the sentence that explains why the copy with a fault hangs.
        again: run everything again, even if the file hasn't changed.

    Raises:
        ValueError: the diagnosis isn't one of the letters.
    """
    path, letter = Path(script), str(diagnosis).strip().rstrip(").").upper()
    text = path.read_bytes() if path.is_file() else b""
    kept = None if again else _judged.get(text)
    letters = LETTERS[kept.case] if kept else "".join(LETTERS)
    if letter and letter not in [*letters]:
        raise ValueError(f"diagnosis must be one of the letters {letters[0]} to {letters[-1]}, not {diagnosis!r}")
    if unfit := _unfit(path, text):
        return unfit
    judgment = kept
    if judgment is None or not judgment.answers:
        print((_ANOTHER_CASE if judgment else _ANNOUNCEMENT).format(script=path.name), flush=True)
        case = judgment.case if judgment else next(case for case, own in enumerate(LETTERS) if letter in own)
        try:
            judgment = judge(path.resolve(), case, judgment.parts if judgment else None)
        except KeyboardInterrupt:
            return Report("capstone", False, "stopped", "You stopped the check, and all of its processes were killed.")
    _judged[text] = judgment.after(letter)
    parts = judgment.with_diagnosis(letter)
    Path("capstone.html").write_text(as_page(parts, name, path.name), encoding="utf-8")
    unchanged = f"  {path.name} is unchanged, so nothing ran again. To run it anyway, pass again=True"
    shown = "  A page that you can show to others: capstone.html" + ' (to put your name on it, pass name="...")' * (
        not name
    )
    return _report(parts, [unchanged, shown] if judgment is kept and not letter else [shown])


def _unfit(path: Path, text: bytes) -> Report | None:
    """What keeps the script from being judged."""
    error = ""
    try:
        compile(text, path.name, "exec")
    except (SyntaxError, ValueError) as wrong:
        error = f"{type(wrong).__name__} in line {getattr(wrong, 'lineno', 1)}"
    is_plain = text.split() == Path(plain_training.__file__).read_bytes().split()
    rows = {"no_file": not path.is_file(), "plain_program": is_plain, "no_python": error}
    try:
        refuse(rows, file=path.name, folder=path.resolve().parent.name, error=error)
    except NotYet as verdict:
        part = verdict.part
        if error:
            return not_right("capstone", part.said, (f"  Next: {part.advice}",))
        return replace(not_started("capstone"), mistake=part.said, details=(f"  Next: {part.advice}",))
    return None


def judge(script: Path, case: int = 0, known: Mapping[str, Part] | None = None) -> Judgment:
    """Run the script for the parts that are not known. A part that fails does not keep the others from being judged."""
    parts = dict(known or {})
    with capstone_trials(script) as trials:
        for number, (name, part) in enumerate(PARTS.items(), start=1):
            trials.part = f"part {number} of {len(PARTS) + 1}: "
            if name not in parts:
                parts[name] = judged(part, trials)
        trials.part = f"part {len(PARTS) + 1} of {len(PARTS) + 1}: "
        try:
            answers = ask_about_a_hang(trials, case)
        except NotYet as verdict:
            answers = {"": verdict.part}
    return Judgment(parts, answers, case)


def _report(parts: Mapping[str, Part], lines: list[str]) -> Report:
    states = [part.passed for part in parts.values()]
    is_right = all(states)
    verdict = "passed" if is_right else "not right yet" if False in states else "your diagnosis is missing"
    mistake = "" if is_right else outcome_of(parts)
    if states[0] is False and False in states[1:]:
        mistake += " Start with part 1: if the training differs there, the later parts fail, too."
    return Report("capstone", is_right, verdict, mistake, (*as_lines(parts), *lines))
