"""Inside a rank: run the source of a cell in the rank's own `__main__`, and format its last value.

Formatting is a small version of what IPython does: a rank does not have to import IPython for a tensor.
"""

from __future__ import annotations

import ast
import base64
import io
import linecache
import os
import pprint
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shown = dict[str, str]  # by MIME type, as in a notebook
_METHODS = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "image/svg+xml": "_repr_svg_"}
_WIDTH = 100
_openers: list[Callable[[], bool]] = []  # of the debugger


def run_cell(rank: int, world_size: int, source: str, file: str) -> list[Shown]:
    """Run a cell; return what it displays: the value of its last line, unless that ends in ;, and its figures."""
    names = _names_of_cells(rank, world_size)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    body = ast.parse(source, file).body
    if not body:
        return []
    *before, last = body
    value = None
    if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
        exec(compile(ast.Module(before, []), file, "exec"), names)
        value = eval(compile(ast.Expression(last.value), file, "eval"), names)
    else:
        exec(compile(ast.Module([*before, last], []), file, "exec"), names)
    if value is not None:
        names["_"] = value
    return [*([shown(value)] if value is not None else []), *_open_figures(value)]


def post_mortem(rank: int, world_size: int) -> bool:
    """Open the debugger where a function failed on this rank. False: none has."""
    return any(open_it() for open_it in _openers)


def opened_by(opener: Callable[[], bool]) -> None:
    _openers[:] = [opener]


def put(rank: int, world_size: int, name: str, value: object) -> None:
    """Set the variable."""
    _names_of_cells(rank, world_size)[name] = value


@dataclass(frozen=True)
class Fault:
    """Returned for a value that does not exist: a typo must not cost the ranks their process group."""

    words: str


def get(rank: int, world_size: int, expression: str) -> Any:
    """The value of a variable, or of any expression."""
    try:
        return eval(compile(expression.strip(), "<expression>", "eval"), _names_of_cells(rank, world_size))
    except Exception as error:
        return Fault(f"{type(error).__name__}: {error}")


def completions(rank: int, world_size: int, text: str) -> list[str]:
    """What Python's own console would offer after this text."""
    import rlcompleter

    completer = rlcompleter.Completer(_names_of_cells(rank, world_size))
    found: list[str] = []
    while (one := completer.complete(text, len(found))) is not None:
        found.append(one.rstrip("( "))
    return sorted(set(found))


def names_held(rank: int, world_size: int) -> dict[str, str]:
    """The learner's variables and their types."""
    names = _names_of_cells(rank, world_size)
    given = {"rank": rank, "world_size": world_size}
    return {
        name: type(value).__name__
        for name, value in names.items()
        if not name.startswith("_")
        and type(value).__name__ != "module"
        and not (name == "device" or (type(value) is int and value == given.get(name)))  # unless assigned
    }


def _names_of_cells(rank: int, world_size: int) -> dict[str, Any]:
    """Predefined variables of a cell. A learner may assign them."""
    names = vars(sys.modules["__main__"])
    if "rank" not in names:
        import torch
        import torch.distributed as dist

        _draw_into_files()
        names.update(rank=rank, world_size=world_size, torch=torch, dist=dist, device=_device())
    return names


def _draw_into_files() -> None:
    """A rank has neither a window nor a notebook: its figures are shown at the end of its cell."""
    if os.environ.get("MPLBACKEND", "").startswith("module:"):  # the notebook's
        os.environ["MPLBACKEND"] = "agg"
    warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def _device() -> Any:
    import torch

    local_rank, local_size = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    has_its_own = torch.cuda.is_available() and torch.cuda.device_count() >= local_size
    return torch.device("cuda", local_rank) if has_its_own else torch.device("cpu")


def shown(value: object) -> Shown:
    """As a notebook would display it: plain, and in rich formats that the value supports."""
    if type(value).__name__ == "Figure" and hasattr(value, "savefig"):
        return {"text/plain": repr(value), "image/png": _png(value)}
    found = _by_its_own_bundle(value)
    for kind, name in _METHODS.items():
        if kind not in found and (text := _called(value, name)):
            found[kind] = text
    if "image/png" not in found and (image := _called(value, "_repr_png_")):
        found["image/png"] = image if isinstance(image, str) else base64.b64encode(image).decode("ascii")
    plain = pprint.pformat(value, width=_WIDTH) if isinstance(value, (dict, list, tuple, set)) else repr(value)
    return {"text/plain": plain, **found}


def _by_its_own_bundle(value: object) -> Shown:
    bundle = _called(value, "_repr_mimebundle_")
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    return {kind: text for kind, text in (data or {}).items() if isinstance(text, str)}


def _called(value: object, method: str) -> Any:
    """Skip a class, whose methods are for its instances, and a method that fails."""
    if isinstance(value, type) or not callable(getattr(type(value), method, None)):
        return None
    try:
        return getattr(value, method)()
    except Exception:
        return None


def _open_figures(value: object) -> list[Shown]:
    """Figures drawn with pyplot, other than the value itself, as a notebook displays them after the cell."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    pyplot.close("all")
    return [shown(figure) for figure in figures if figure is not value]


def _png(figure: Any) -> str:
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return base64.b64encode(file.getvalue()).decode("ascii")
