"""Attempts live where this machine can, else as they were recorded: a lesson reads the same in both cases.

With DDP_LESSONS_MACHINES=recorded nothing is live; with =record what is done is kept as the new recording.
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
from typing import Any, Concatenate, ParamSpec, TypeVar

from ddp_lessons.machines.attempts import Attempt
from ddp_lessons.machines.places import NotHere, Place
from ddp_lessons.machines.sources import digest_of

RECORDINGS = Path(__file__).with_name("recordings")
TROUBLES = RECORDINGS / "troubles.txt"
VARIABLE = "DDP_LESSONS_MACHINES"
MOST_LETTERS = 100  # of a line that a notebook shows without wrapping it

A = ParamSpec("A")
P = TypeVar("P")


def attempt(
    function: Callable[Concatenate[P, A], Attempt], place: Place[P], *args: A.args, **kwargs: A.kwargs
) -> Attempt:
    """Make the place, call `function(place, ...)` and return what it returns; or what was recorded of such a call.

    A recording is of the function's own text, of what it uses, and of the place: what you change runs live or not at
    all.

    Raises:
        NotHere: the place cannot be made here, and nobody has recorded this call.
        TypeError: there is no function or no place, or the function does not return what happened.
    """
    _check(function, place)
    name = name_of(function, args, kwargs)
    of = digest_of(function, place)
    wish = os.environ.get(VARIABLE, "")
    reason = f"{VARIABLE}=recorded" if wish == "recorded" else place.why_not()
    if not reason:
        try:
            with place as made:
                done = _returned(function, function(made, *args, **kwargs))
        except NotHere as refusal:
            reason = str(refusal)
        else:
            if wish == "record":
                keep(name, done, of)
            return done
    if wish == "record":
        raise NotHere(f"{name} cannot be recorded: {reason}")
    return recall(name, reason, of)


def _check(function: object, place: object) -> None:
    if isinstance(place, type):
        raise TypeError(f"attempt() makes the place itself, but of how many machines? {place.__name__}(2) says it")
    if not callable(function) or not hasattr(place, "why_not"):
        raise TypeError("attempt() takes a function and a place: attempt(look, Machines(2))")


def _returned(function: Callable[..., object], done: object) -> Attempt:
    if isinstance(done, Attempt):
        return done
    name = getattr(function, "__name__", "the function")
    raise TypeError(
        f"{name}() returned {f'a {type(done).__name__}' if done is not None else 'None'}, and not what happened: let"
        f" it return what everywhere(), launch() or sbatch() gives"
    )


def troubles() -> str:
    """A table of what goes wrong with several machines, as it was measured: `python -m benchmarks.machines`.

    It is narrow enough for a notebook: long words go on below, and who of the two machines said them is left out.
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
    """The columns of this line: a ruler has as many dashes as each is wide, and two blanks between them."""
    widths = [len(dashes) for dashes in ruler.split()]
    ends = accumulate(width + 2 for width in widths)
    return [line[end - width - 2 : end - 2].strip() for width, end in zip(widths, ends, strict=True)]


def _wrapped(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    columns = [textwrap.wrap(cell, width) for cell, width in zip(cells, widths, strict=True)]
    return [_line(parts, widths) for parts in zip_longest(*columns, fillvalue="")]


def _line(parts: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(part.ljust(width) for part, width in zip(parts, widths, strict=True)).rstrip()


def name_of(function: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The name of the recording: the function, and what it was called with."""
    parts = [str(arg) for arg in args] + [f"{name}-{value}" for name, value in kwargs.items()]
    return re.sub(r"[^\w.-]+", "_", "_".join([getattr(function, "__name__", "attempt"), *parts]))


def recall(name: str, reason: str, of: str = "") -> Attempt:
    """The recording of this name. Where `of` is given, it must be what was recorded."""
    file = RECORDINGS / f"{name}.json"
    if not file.is_file():
        raise NotHere(f"this cannot be tried here, and nobody has recorded {name}: {reason}")
    text = file.read_text(encoding="utf-8")
    if of and json.loads(text).get("of") != of:
        raise NotHere(
            f"this cannot be tried here ({reason}), and you changed it, or something that it uses: only the lesson's"
            f" own text was recorded"
        )
    return Attempt.from_json(text)


def keep(name: str, done: Attempt, of: str = "") -> None:
    how = f"Linux, Python {sys.version_info.major}.{sys.version_info.minor}, torch {metadata.version('torch')}"
    RECORDINGS.mkdir(exist_ok=True)
    content = json.loads(done.as_recorded(how).to_json(_without_this_machine)) | {"of": of}
    (RECORDINGS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _without_this_machine(line: str) -> str:
    """A recording is for all: no folders of the one who made it, no process numbers."""
    line = re.sub(
        rf"({re.escape(sys.prefix)}|{re.escape(sys.base_prefix)})/lib/python[\d.]+(/site-packages)?", "...", line
    )
    project = os.fspath(Path(__file__).parents[2])
    for place in (sys.prefix, os.path.realpath(sys.prefix), os.getcwd(), project):
        line = line.replace(place, "...")
    line = line.replace(os.uname().nodename, "thishost") if len(os.uname().nodename) > 3 else line
    return re.sub(r"(\bpid\W+|Process |\()\d{3,}", r"\g<1>N", line)
