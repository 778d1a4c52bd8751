"""Recordings: what ran on one machine, as a small JSON file, for machines where it can't run.

A recording is of one program on one place. If one of them changes, so does the digest, and the recording no longer
applies. With DDP_LESSONS_RECORDINGS=recorded nothing runs live; with =record each live run becomes the new recording.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeVar

T = TypeVar("T")
VARIABLE = "DDP_LESSONS_RECORDINGS"
_PROJECT = str(Path(__file__).parents[2])
_FILE = re.compile(r"[\w.-]+\.\w+")  # in the current folder
_LARGEST_BYTES = 100_000
_PLAIN = (str, int, float, bool, tuple, list, dict, type(None))  # values that a cell may define next to its functions


class NotHere(RuntimeError):
    """This machine can't run it, and there is no recording; the message says what is missing and how to get it."""


def live_or_recorded(
    file: Path,
    of: str,
    why_not: Callable[[], str],
    live: Callable[[], T],
    as_plain: Callable[[T], Mapping[str, Any]],
    from_plain: Callable[[Mapping[str, Any]], T],
) -> T:
    """Return what `live()` gives. If there is a reason why it can't run here, return the recording.

    Args:
        file: the recording. The recording of another program is never returned: its digest has to be `of`.
        why_not: says what is missing on this machine, or "". `live` may also raise NotHere.
        as_plain: makes dicts, lists, text and numbers of what ran; `from_plain` makes the same of these.

    Raises:
        NotHere: it can't run here, and there is no recording of it.
    """
    wish = os.environ.get(VARIABLE, "")
    reason = f"{VARIABLE}=recorded" if wish == "recorded" else why_not()
    if not reason:
        try:
            done = live()
        except NotHere as refusal:
            reason = str(refusal)
        else:
            if wish == "record":
                keep(file, {**as_plain(done), "recorded": this_system(), "of": of})
            return done
    if wish == "record":
        raise NotHere(f"{file.stem} cannot be recorded: {reason}")
    if not file.is_file():
        raise NotHere(f"this cannot run here ({reason}), and there is no recording of {file.stem}")
    told = json.loads(file.read_text(encoding="utf-8"))
    if told["of"] != of:
        raise NotHere(
            f"this cannot run here ({reason}), and there is no recording of your version: you"
            " changed it, or something that it uses"
        )
    return from_plain(told)


def keep(file: Path, content: Mapping[str, Any]) -> None:
    """Write a recording, without what is specific to this machine."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(_cleaned(dict(content)), indent=1) + "\n", encoding="utf-8")


def this_system() -> str:
    python, torch = f"{sys.version_info.major}.{sys.version_info.minor}", metadata.version("torch")
    return f"{platform.system()}, Python {python}, torch {torch}"


def without_this_machine(line: str) -> str:
    """Without its folders, its name, and numbers of processes."""
    line = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in line)
    places = {sys.prefix, sys.base_prefix, os.path.realpath(sys.prefix), os.getcwd(), _PROJECT, tempfile.gettempdir()}
    for place in sorted({*places, str(Path.home())}, key=len, reverse=True):
        line = line.replace(place, "...") if len(place) > 1 else line
    line = re.sub(r"\.\.\./lib/python[\d.]+(/site-packages)?", "...", line)
    line = re.sub(r"/\S*/([\w.-]+\.(?:cc|cpp|hpp|h|cu):\d+)", r"\1", line)  # sources of torch's build
    node = platform.node()
    line = re.sub(rf"\b{re.escape(node)}\b", "thishost", line) if len(node) > 3 else line
    return re.sub(r"(\bpid\W+|Process |\()\d{3,}", r"\g<1>N", line)


def digest(*texts: str) -> str:
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


def digest_of(function: Callable[..., object], place: object) -> str:
    """Of the function, of the functions, values and files that it uses, and of its place. Comments don't count."""
    return digest(repr(place), *_parts(function, set()))


def _cleaned(told: Any) -> Any:
    if isinstance(told, dict):
        return {name: _cleaned(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [_cleaned(one) for one in told]
    return without_this_machine(told) if isinstance(told, str) else told


def _parts(function: object, known: set[object]) -> Iterator[str]:
    if not isinstance(function, FunctionType) or function in known:
        return
    known.add(function)
    lines = inspect.getsource(function).splitlines()
    text = "\n".join(line.rstrip() for line in lines if line.strip() and not line.lstrip().startswith("#"))
    yield text
    yield from _files_in(text, known)
    for name in sorted(_globals_of(function.__code__) & function.__globals__.keys()):
        value = function.__globals__[name]
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__:
            yield from _parts(value, known)
        elif isinstance(value, _PLAIN):
            yield f"{name} = {value!r}"
            yield from _files_in(repr(value), known)


def _globals_of(code: CodeType) -> set[str]:
    """The global names that it reads, including those of inner functions."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return names.union(*(_globals_of(inner) for inner in code.co_consts if isinstance(inner, CodeType)))


def _files_in(text: str, known: set[object]) -> Iterator[str]:
    """The content of every file that is named in the text, and of the files that these name."""
    for name in sorted(set(_FILE.findall(text)) - known):
        path = Path(name)
        if path.is_file() and path.stat().st_size <= _LARGEST_BYTES:
            known.add(name)
            content = path.read_text(encoding="utf-8", errors="replace")
            yield f"{name}:\n{content.strip()}"
            yield from _files_in(content, known)
