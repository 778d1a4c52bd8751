"""What identifies a recording: its function's source, the lesson's functions and files that it uses, and its place.

If one of them changes, the recording no longer applies.
"""

from __future__ import annotations

import dis
import hashlib
import inspect
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType

_FILE = re.compile(r"[\w.-]+\.\w+")  # in the current folder
_LARGEST_BYTES = 100_000
_PLAIN = (str, int, float, bool, tuple, list, dict, type(None))  # values that a cell may define next to its functions


def digest_of(function: Callable[..., object], place: object) -> str:
    """A digest that changes with anything but comments and empty lines."""
    parts = [repr(place), *_parts(function, set())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _parts(function: object, known: set[object]) -> Iterator[str]:
    if not isinstance(function, FunctionType):
        return
    known.add(function)
    yield _text_of(function)
    used, texts = _used_by(function.__code__)
    for text in texts:
        yield from _files_in(text, known)
    for name in sorted(used):
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and value.__globals__ is function.__globals__ and value not in known:
            yield from _parts(value, known)
        elif isinstance(value, _PLAIN) and name in function.__globals__:
            yield f"{name} = {value!r}"
            yield from _files_in(repr(value), known)


def _text_of(function: FunctionType) -> str:
    try:
        return without_comments(inspect.getsource(function))
    except (OSError, TypeError, tokenize.TokenError, SyntaxError):
        return function.__code__.co_code.hex()  # it has no source; there are no recordings of such functions


def without_comments(source: str) -> str:
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _used_by(code: CodeType) -> tuple[set[str], list[str]]:
    """The global names that it reads, and its string constants, including those of inner functions."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    texts: list[str] = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner_names, inner_texts = _used_by(constant)
            names, texts = names | inner_names, texts + inner_texts
        elif isinstance(constant, str):
            texts.append(constant)
    return names, texts


def _files_in(text: str, known: set[object]) -> Iterator[str]:
    """The content of every file that is named in the text, and of the files that these name."""
    for name in sorted(set(_FILE.findall(text)) - known):
        path = Path(name)
        if path.is_file() and path.stat().st_size <= _LARGEST_BYTES:
            known.add(name)
            content = path.read_text(encoding="utf-8", errors="replace")
            yield f"{name}:\n{content.strip()}"
            yield from _files_in(content, known)
