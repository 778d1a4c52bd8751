"""`check.capstone`: judge a learner's training script as a whole, in six parts, and write a page to show to others."""

from __future__ import annotations

import base64
import html
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from ddp_lessons.capstone import plain_training
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
from ddp_lessons.run.output.cards import Kind, framed, in_words, lines_of_text, mark
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
_STATES: dict[bool | None, tuple[str, Kind]] = {
    True: ("passed", "passed"),
    False: ("not yet", "wrong"),
    None: ("open", "open"),
}
_EVENTS = 60  # of the newest calls, in the timeline


@dataclass(frozen=True)
class Judgement:
    """Of one text of a script: the first five parts, and the question of the sixth."""

    parts: tuple[Part, ...]
    hang: HangQuestion | Part

    def with_diagnosis(self, letter: str) -> tuple[Part, ...]:
        last = self.hang.part(letter) if isinstance(self.hang, HangQuestion) else self.hang
        return (*self.parts, last)


_judged: dict[bytes, Judgement] = {}  # so that a diagnosis needs no new runs


@dataclass(frozen=True, repr=False)
class CapstoneReport(Report):
    """A report with a line for each part."""

    parts: tuple[Part, ...] = ()


def capstone(
    script: str | Path = "my_train.py", *, name: str = "", diagnosis: str = "", page: str | Path = "capstone.html"
) -> Report:
    """Judge your training script in six parts, and write a page with the outcome.

    Args:
        script: the file that torchrun starts.
        name: your name on the page.
        diagnosis: the letter of the sentence that says why the copy with a fault hangs.
        page: the file to write.

    Raises:
        ValueError: the diagnosis is none of the letters.
    """
    path, letter = Path(script), str(diagnosis).strip().rstrip(").").upper()
    if letter and letter not in LETTERS:
        raise ValueError(f"diagnosis is one of the letters {', '.join(LETTERS)}, not {diagnosis!r}")
    if not path.is_file() or _program(path) == _program(Path(plain_training.__file__)):
        return not_started("capstone")
    if told := _cannot_start(path):
        return Report("capstone", False, "not right yet", told[0], (f"  Next: {told[1]}",))
    content = path.read_bytes()
    if not letter or content not in _judged:
        print(ANNOUNCEMENT.format(script=path.name), flush=True)
        try:
            _judged[content] = judge(path.resolve())
        except KeyboardInterrupt:
            return Report("capstone", False, "stopped", "You stopped it, and every process of it was ended.")
        except CannotJudge as missing:
            return Report("capstone", False, "could not judge", str(missing))
    parts = _judged[content].with_diagnosis(letter)
    target = Path(page)
    try:
        target.write_text(as_page(parts, clean_name(name), path.name), encoding="utf-8")
    except OSError as error:
        return _report(parts, f"The page {target} could not be written: {error.strerror}.")
    return _report(parts, f"The page to show to others: {target}")


def _program(path: Path) -> list[str]:
    return [line.rstrip() for line in path.read_text(encoding="utf-8", errors="replace").strip().splitlines()]


def _cannot_start(path: Path) -> tuple[str, str] | None:
    try:
        compile(path.read_bytes(), path.name, "exec")
    except (SyntaxError, ValueError) as error:
        at = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return f"{path.name} is not a Python program: {type(error).__name__}{at}.", "fix that line, and run it once."
    return None


def judge(script: Path, functions: Sequence[Callable[[Trials], Part]] = tuple(PARTS.values())) -> Judgement:
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
            return Judgement(tuple(parts), _hang(trials))
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


def _report(parts: Sequence[Part], about_the_page: str) -> CapstoneReport:
    number = sum(part.passed is True for part in parts)
    details: list[str] = []
    for place, part in enumerate(parts, start=1):
        details.append(f"  {place}. {part.name}: {_STATES[part.passed][0]}. {_sentence(part.said)}")
        details += [f"      {line}".rstrip() for line in part.lines if part.passed is not True]
        details += [f"  Next: {part.advice}"] * bool(part.advice)
    verdict = "passed" if number == len(parts) else "not right yet"
    mistake = "" if number == len(parts) else f"{number} of {len(parts)} parts passed."
    details.append(f"  {about_the_page}")
    return CapstoneReport("capstone", number == len(parts), verdict, mistake, tuple(details), parts=tuple(parts))


def _sentence(said: str) -> str:
    return said if said.endswith(".") else f"{said}."


# the page

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; }}
h1 {{ font-size: 1.7em; margin-bottom: .1em; }} h2 {{ font-size: 1.15em; margin: 1.6em 0 .4em; }}
figure {{ margin: .8em 0; overflow-x: auto; }} figure img {{ display: block; }}
.ddp-bar {{ display: inline-block; height: 1em; background: #4c7fb3; vertical-align: middle; margin-right: .5em; }}
</style></head><body>
<h1>{title}</h1>
<p>{outcome} ddp-lessons, capstone: a training script on 1, 2 and 4 ranks. {day}</p>
{parts}
</body></html>
"""


def as_page(parts: Sequence[Part], name: str, script: str) -> str:
    """One file, which needs nothing else."""
    number = sum(part.passed is True for part in parts)
    outcome = "All parts passed." if number == len(parts) else f"{number} of {len(parts)} parts passed."
    title = html.escape(f"{name}: {script}" if name else script)
    shown = "".join(_shown(place, part) for place, part in enumerate(parts, start=1))
    return _PAGE.format(title=title, outcome=outcome, day=date.today().isoformat(), parts=shown)


def _shown(place: int, part: Part) -> str:
    state, kind = _STATES[part.passed]
    said = "".join(lines_of_text([_sentence(part.said), *part.lines]))
    advice = f"<p><strong>Next:</strong> {in_words(part.advice)}</p>" if part.advice else ""
    card = framed(f"<p>{mark(kind)}<strong>{state}</strong></p>{said}{advice}", kind)
    return f"<section><h2>{place}. {html.escape(part.name)}</h2>{card}{_picture(part)}</section>\n"


def _picture(part: Part) -> str:
    """The distance per step, a timeline, or bars."""
    if part.picture is None:
        return ""
    if isinstance(part.picture, dict):
        return _bars(part.picture)
    figure = part.picture if hasattr(part.picture, "svg") else _timeline(part.picture)
    data = base64.b64encode(figure.svg.encode()).decode()
    return f'<figure><img alt="{html.escape(figure.alt)}" src="data:image/svg+xml;base64,{data}"></figure>'


def _timeline(calls: Any) -> Any:
    import dataclasses

    from ddp_lessons.show.timelines.timeline_figure import timeline

    newest = dataclasses.replace(calls, events=calls.events.newest(_EVENTS))
    return timeline(newest, title="The last calls of both ranks; rank 1 is slow", axis="time")


def _bars(speeds: dict[str, float]) -> str:
    rows = {"two plain programs together": speeds["two"], "2 ranks": speeds["ranks"]}
    most = max([*rows.values(), 1e-9])
    bars = [
        f'<div><span class="ddp-bar" style="width:{20 * number / most:.2f}em"></span>{html.escape(label)}: '
        f"{number * plain_training.BATCH:.0f} sequences/s</div>"
        for label, number in rows.items()
    ]
    return f"<figure>{''.join(bars)}</figure>"
