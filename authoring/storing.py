"""Which outputs of a run are stored: what a reader sees, nothing temporary, and no change without a reason.

A cell with the same source and the same text as before keeps its stored outputs, and its pictures byte for byte,
because their bytes change with each release of matplotlib and each measured time. *The same* means the same for nbval.
"""

from __future__ import annotations

import base64
import binascii
import copy
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nbval.plugin import coalesce_streams

from ddp_lessons.workshop.stored_outputs import as_stored

VIEW = "application/vnd.jupyter.widget-view+json"  # without a kernel, it shows an error instead of the picture
STILL = "image/svg+xml"
PICTURES = {"image/png", "image/jpeg", STILL}
PRINTED = PICTURES | {"text/html"}  # a program's output, with other times and numbers in every run
MAY_DIFFER = "nbval-ignore-output"  # nbval's tag for a cell whose output is not compared
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NUMBER = re.compile(r"\d[\d.,]*")
OF_EACH_RUN = re.compile(r"\bh[0-9a-f]{6}-|<metadata>.*?</metadata>")  # made of all that the figure has, also of times
OF_THE_MOMENT = {"execution", "ExecuteTime", "collapsed", "scrolled", "trusted"}  # written by front ends


@dataclass
class Changes:
    """The cells with new outputs, and the cells whose pictures look different."""

    outputs: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)


def stored(fresh: Any, before: Any | None, new_pictures: bool = False) -> tuple[Any, Changes]:
    """The lesson to store after a run; `before` is the last good stored version."""
    lesson, changes = copy.deepcopy(fresh), Changes()
    known = {cell.id: cell for cell in before.cells if cell.cell_type == "code"} if before else {}
    lesson.metadata.pop("widgets", None)
    lesson.metadata.update(copy.deepcopy(METADATA))
    lesson.nbformat_minor = 5
    count = 0
    for cell in lesson.cells:
        for key in OF_THE_MOMENT & set(cell.metadata):
            del cell.metadata[key]
        if cell.cell_type != "code":
            continue
        count += 1
        outputs, old = tidy(cell.outputs), known.get(cell.id)
        kinds = looked_at(cell)
        kept = tidy(old.outputs) if old is not None and old.source == cell.source else None
        if kept is not None and not agree(outputs, kept, kinds):
            kept = None
        if kept is not None and look_different(outputs, kept, kinds):
            changes.pictures.append(cell.id)
        if kept is not None and new_pictures and pictures_of(outputs, kinds) != pictures_of(kept, kinds):
            kept = None
        cell.outputs = outputs if kept is None else kept
        if old is None or cell.outputs != old.outputs:
            changes.outputs.append(cell.id)
        number(cell, count)
    return lesson, changes


def number(cell: Any, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def tidy(outputs: Sequence[Any]) -> list[Any]:
    """Remove widget views and empty displays, and join text that was printed in pieces."""
    kept: list[Any] = []
    for output in map(as_stored, copy.deepcopy(list(outputs))):
        output.get("data", {}).pop(VIEW, None)
        if "data" in output and not output.data:
            continue
        last = kept[-1] if kept else None
        if last is not None and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            kept.append(output)
    return kept


def looked_at(cell: Any) -> set[str]:
    """Kinds of output that are not compared: pictures and, in cells with the tag, printed text."""
    return PRINTED if MAY_DIFFER in cell.metadata.get("tags", ()) else PICTURES


def agree(fresh: Sequence[Any], old: Sequence[Any], kinds: set[str] = PICTURES) -> bool:
    """Would nbval treat them as the same, and do their pictures have the same kinds and alternative texts?

    For outputs that also have other kinds than pictures, this is stricter than nbval, which then compares nothing: the
    text must be the same.
    """
    same_pictures = alternative_texts(fresh) == alternative_texts(old) and kinds_of(fresh, kinds) == kinds_of(
        old, kinds
    )
    return same_pictures and by_kind(fresh, kinds) == by_kind(old, kinds)


def by_kind(outputs: Sequence[Any], pictures: set[str] = PICTURES) -> dict[str, list[str]]:
    """Everything that nbval compares. The order matters only within a kind."""
    found: dict[str, list[str]] = defaultdict(list)
    for output in coalesce_streams(copy.deepcopy(list(outputs))):
        if output.output_type == "stream":
            found[output.name].append(output.text)
        elif output.output_type == "error":
            found["error"].append(f"{output.ename}: {output.evalue}")
        for kind, content in output.get("data", {}).items():
            if kind not in pictures | {VIEW}:
                found[kind].append(content)
    return dict(found)


def alternative_texts(outputs: Sequence[Any]) -> list[str]:
    """The alternative texts without numbers, because some are measured."""
    about = [one for output in outputs if pictures_of([output]) for one in output.metadata.values() if "alt" in one]
    texts = [one["alt"] for one in about]
    return [NUMBER.sub("#", text) for text in texts]


def kinds_of(outputs: Sequence[Any], kinds: set[str]) -> list[set[str]]:
    return [kinds & set(output.data) for output in outputs if pictures_of([output], kinds)]


def pictures_of(outputs: Sequence[Any], kinds: set[str] = PICTURES) -> list[str]:
    return [output.data[kind] for output in outputs for kind in sorted(kinds & set(output.get("data", {})))]


def look_different(fresh: Sequence[Any], old: Sequence[Any], kinds: set[str] = PICTURES) -> bool:
    """Whether the two pictures look different. Smooth edges may differ a little."""
    pairs = zip(pictures_of(fresh, kinds), pictures_of(old, kinds), strict=True)
    return any(one != other and is_seen(one, other) for one, other in pairs)


def _without_numbers(svg: str) -> str:
    return NUMBER.sub("#", OF_EACH_RUN.sub("", svg))


def is_seen(one: str, other: str) -> bool:
    import numpy
    from matplotlib.image import imread

    if one.startswith("<") or other.startswith("<"):  # shapes and text, at any position
        return _without_numbers(one) != _without_numbers(other)
    try:
        new, old = (imread(io.BytesIO(base64.b64decode(png)), format="png") for png in (one, other))
    except (binascii.Error, SyntaxError, OSError, ValueError):  # not a picture
        return True
    return new.shape != old.shape or bool(numpy.mean(numpy.abs(new - old) > 0.2) > 0.002)
