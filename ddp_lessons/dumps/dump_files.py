"""The files of a set of dumps: one per rank, named PREFIX followed by the rank, as a pickle or as JSON.

A pickle is a program that may call whatever it names, and a dump may come from a stranger: here, it can name nothing.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

_NAME = re.compile(r"(.*?)(\d{1,6})(\.json|\.pickle|\.pkl|\.bin|\.dump)?")
_KNOWN_MAJOR = "2"
_A_PICKLE, _JSON = b"\x80", b"{"
_LARGEST = 300_000_000  # bytes of a file
_DEEPEST = 20
_MOST_VALUES = 100_000_000
_LARGEST_NUMBER = 2**64


class Unreadable(ValueError):
    """A file that is no dump of the Flight Recorder, or a damaged one: a sentence that names it."""


def find_dumps(place: str) -> tuple[dict[int, Path], list[str]]:
    """The file of each rank, and sentences about files that are left out. There may be none.

    `place` is their folder, or the beginning of their names, as in TORCH_FR_DUMP_TEMP_FILE.
    """
    folder, prefix = (Path(place), "") if os.path.isdir(place) else (Path(place).parent, Path(place).name)
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    found = {name: match for name in names if (match := _NAME.fullmatch(name)) and prefix in ("", match[1])}
    ((usual, _),) = Counter(match[1] for match in found.values()).most_common(1) or [("", 0)]
    by_rank: dict[int, Path] = {}
    left_out = []
    for name in found if prefix else names:
        if not (folder / name).is_file() or name.startswith("."):  # torch may have left a pipe there, too
            continue
        if name not in found or found[name][1] != usual:
            left_out.append(f"{name} is not named {usual or 'PREFIX_'}RANK.")
        elif (rank := int(found[name][2])) in by_rank:
            left_out.append(f"{name} is a second dump of rank {rank}.")
        else:
            by_rank[rank] = folder / name
    return by_rank, left_out


def read_dump(path: Path) -> Mapping[str, Any]:
    """The content of one file, as torch wrote it.

    Raises:
        Unreadable: it is foreign, damaged, or contains more than data.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise Unreadable(f"{path.name} could not be read ({error.strerror}).") from error
    if len(data) > _LARGEST:
        raise Unreadable(f"{path.name} is larger than {_LARGEST:,} bytes.")
    if not data:
        raise Unreadable(f"{path.name} is empty: the rank ended before it wrote its dump.")
    content = _content(path.name, data)
    if not isinstance(content, dict) or "version" not in content or "pg_config" not in content:
        raise Unreadable(f"{path.name} is not a dump of the Flight Recorder.")
    try:
        _measure(content, {}, 1)
    except ValueError as found:
        raise Unreadable(f"{path.name} is damaged: {found}.") from found
    version = str(content["version"])
    if version.partition(".")[0] != _KNOWN_MAJOR:
        raise Unreadable(f"{path.name} has format version {version}, but only versions 2.x can be read.")
    return content


class _NamesCode(pickle.UnpicklingError):
    """The pickle wants to call or build something."""


class _PlainUnpickler(pickle.Unpickler):
    """Reads containers, text, numbers, True, False and None, and runs nothing."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _NamesCode(f"{module}.{name}")

    def persistent_load(self, name: object) -> NoReturn:
        raise _NamesCode(str(name))


def _content(name: str, data: bytes) -> Any:
    try:
        if data.startswith(_A_PICKLE):
            return _PlainUnpickler(io.BytesIO(data)).load()
        if data.lstrip()[:1] == _JSON:
            return json.loads(data)
    except _NamesCode as found:
        raise Unreadable(
            f"{name} was refused, and nothing in it was run: the pickle names {found}, but dumps contain only data."
        ) from found
    except (pickle.UnpicklingError, EOFError, json.JSONDecodeError) as error:
        raise Unreadable(f"{name} is truncated: the rank ended while it was writing its dump.") from error
    except Exception as error:  # pickle raises many kinds for a damaged file
        raise Unreadable(f"{name} is damaged ({type(error).__name__}).") from error
    raise Unreadable(f"{name} is not a dump of the Flight Recorder.")


def _measure(value: Any, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """How many values a container holds, and how deep it is. One that is named in many places counts at each of them.

    Raises:
        ValueError: that is more than any rank writes.
    """
    if id(value) not in known and depth <= _DEEPEST:
        count, height = len(value), 1
        for one in value.values() if isinstance(value, dict) else value:
            kind = type(one)
            if kind is str:
                count += len(one) // 100
            elif kind is int and abs(one) > _LARGEST_NUMBER:
                raise ValueError("a number has too many digits")
            elif kind in (dict, list, tuple):
                more, below = _measure(one, known, depth + 1)
                count, height = count + more, max(height, below + 1)
        known[id(value)] = count, height
    count, height = known.get(id(value), (0, _DEEPEST))
    if count > _MOST_VALUES or depth + height > _DEEPEST:
        raise ValueError("its lists are nested too deeply")
    return count, height
