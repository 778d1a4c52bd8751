"""Attempts run live if this machine supports it; otherwise a recording is shown. A lesson reads the same in both cases.

With DDP_LESSONS_MACHINES=recorded nothing runs live; with =record each live run becomes the new recording.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from importlib import metadata
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from ddp_lessons.machines.attempts import Attempt
from ddp_lessons.machines.places import NotHere, Place
from ddp_lessons.machines.recorded_launches import Launched, launch_as_plain, launch_from_plain
from ddp_lessons.machines.sources import digest_of
from ddp_lessons.record.results import Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck

RECORDINGS = Path(__file__).with_name("recordings")
TROUBLES = RECORDINGS / "troubles.txt"
VARIABLE = "DDP_LESSONS_MACHINES"
MOST_LETTERS = 100  # the longest line that a notebook shows without wrapping

A = ParamSpec("A")
P = TypeVar("P")
Done = Attempt | Launched
D = TypeVar("D", bound=Done)


def attempt(function: Callable[Concatenate[P, A], D], place: Place[P], *args: A.args, **kwargs: A.kwargs) -> D:
    """Make the place, call `function(place, ...)` and return its result, or the recording of this call.

    The result is an attempt, or what `launch(..., on=...)` returned or raised.

    A recording belongs to the function's source, to what it uses, and to the place. If you change one of them, the call
    runs live or not at all.

    Raises:
        NotHere: the place can't be made here, and there is no recording of this call.
        TypeError: the function or the place is missing, or the function returns something else.
    """
    _check(function, place)
    name = name_of(function, args, kwargs)
    of = digest_of(function, place)
    wish = os.environ.get(VARIABLE, "")
    reason = f"{VARIABLE}=recorded" if wish == "recorded" else place.why_not()
    if not reason:
        try:
            with place as made:
                done: D = _returned(function, function(made, *args, **kwargs))
        except NotHere as refusal:
            reason = str(refusal)
        else:
            if wish == "record":
                keep(name, done, of)
            return done
    if wish == "record":
        raise NotHere(f"{name} cannot be recorded: {reason}")
    return cast(D, recall(name, reason, of))


def _check(function: object, place: object) -> None:
    if isinstance(place, type):
        raise TypeError(f"attempt() needs a place with a number of nodes, such as {place.__name__}(2)")
    if not callable(function) or not hasattr(place, "why_not"):
        raise TypeError("attempt() takes a function and a place: attempt(look, Machines(2))")


def _returned(function: Callable[..., object], done: object) -> Any:
    if isinstance(done, Attempt | Results | WorkerFailed | WorkersStuck):
        return done
    name = getattr(function, "__name__", "the function")
    raise TypeError(
        f"{name}() returned {f'a {type(done).__name__}' if done is not None else 'None'}, and not what happened: let"
        f" it return what everywhere(), launch() or sbatch() gives"
    )


def troubles() -> str:
    """A table of what goes wrong with several nodes, as measured by `python -m benchmarks.machines`.

    It is narrow enough for a notebook: long messages wrap, and it leaves out which of the two nodes printed them.
    """
    lines = TROUBLES.read_text(encoding="utf-8").splitlines()
    rows = [_cells(line, lines[1]) for line in lines]
    kept = [(wrong, after, words) for wrong, after, _, words in (*rows[:1], *rows[2:])]
    before = max(len(wrong) for wrong, _, _ in kept), max(len(after) for _, after, _ in kept)
    widths = (*before, MOST_LETTERS - sum(before) - 4)
    return "\n".join([*_wrapped(kept[0], widths), _line(["-" * width for width in widths], widths)]) + "".join(
        f"\n{line}" for row in kept[1:] for line in _wrapped(row, widths)
    )


def _cells(line: str, ruler: str) -> list[str]:
    """The columns of this line. The ruler has one dash per character of a column, and two blanks between columns."""
    widths = [len(dashes) for dashes in ruler.split()]
    ends = accumulate(width + 2 for width in widths)
    return [line[end - width - 2 : end - 2].strip() for width, end in zip(widths, ends, strict=True)]


def _wrapped(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [textwrap.wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return [_line(parts, widths) for parts in zip_longest(*columns, fillvalue="")]


def _line(parts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def name_of(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The name of the recording: the function and its arguments."""
    parts = [str(arg) for arg in args] + [f"{name}-{value}" for name, value in kwargs.items()]
    return re.sub(r"[^\w.-]+", "_", "_".join([getattr(function, "__name__", "attempt"), *parts]))


def recall(name: str, reason: str, of: str = "") -> Any:
    """The recording of this name. If `of` is given, the digest must match."""
    file = RECORDINGS / f"{name}.json"
    if not file.is_file():
        raise NotHere(f"this cannot run here, and there is no recording of {name}: {reason}")
    text = file.read_text(encoding="utf-8")
    told = json.loads(text)
    if of and told.get("of") != of:
        raise NotHere(
            f"this cannot be tried here ({reason}), and you changed it, or something that it uses: only the lesson's"
            f" own text was recorded"
        )
    return launch_from_plain(told, told["recorded"]) if "ranks" in told else Attempt.from_json(text)


def keep(name: str, done: Done, of: str = "") -> None:
    how = f"Linux, Python {sys.version_info.major}.{sys.version_info.minor}, torch {metadata.version('torch')}"
    RECORDINGS.mkdir(exist_ok=True)
    if isinstance(done, Attempt):
        content = json.loads(done.as_recorded(how).to_json(_without_this_machine))
    else:
        content = launch_as_plain(done, _without_this_machine) | {"recorded": how}
    indent = 1 if isinstance(done, Attempt) else None  # calls have very many fields
    (RECORDINGS / f"{name}.json").write_text(json.dumps(content | {"of": of}, indent=indent) + "\n", encoding="utf-8")


def _without_this_machine(line: str) -> str:
    """Remove folders and process ids of the machine that made the recording."""
    line = re.sub(
        rf"({re.escape(sys.prefix)}|{re.escape(sys.base_prefix)})/lib/python[\d.]+(/site-packages)?", "...", line
    )
    project = os.fspath(Path(__file__).parents[2])
    for place in (sys.prefix, os.path.realpath(sys.prefix), os.getcwd(), project):
        line = line.replace(place, "...")
    line = line.replace(os.uname().nodename, "thishost") if len(os.uname().nodename) > 3 else line
    return re.sub(r"(\bpid\W+|Process |\()\d{3,}", r"\g<1>N", line)
