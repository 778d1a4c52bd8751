"""Recordings: what ran on one machine, as a small JSON file, for machines where it can't run.

A recording is of one program on one place. If one of them changes, so does the digest, and the recording no longer
applies.
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
from typing import Any

_PROJECT = str(Path(__file__).parents[2])
_FILE = re.compile(r"[\w.-]+\.\w+")  # in the current folder
_LARGEST_BYTES = 100_000
_PLAIN = (str, int, float, bool, tuple, list, dict, type(None))  # values that a cell may define next to its functions


def keep(file: Path, content: Mapping[str, Any]) -> None:
    """Write a recording, without what is specific to this machine."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(_cleaned(dict(content)), indent=1) + "\n", encoding="utf-8")


def recall(file: Path) -> dict[str, Any] | None:
    """The recording; None if there is none."""
    told: dict[str, Any] | None = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    return told


def this_system() -> str:
    return f"Linux, Python {sys.version_info.major}.{sys.version_info.minor}, torch {metadata.version('torch')}"


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
