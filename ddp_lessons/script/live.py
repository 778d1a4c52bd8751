"""`to_script(train, "train.py")` in a notebook: from the cells that were run, in order, and what the names are now.

To find out whether a variable still has the value of its statement, the statement is run once more on the side.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import random
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ddp_lessons.script import refusals
from ddp_lessons.script.composing import Script, compose
from ddp_lessons.script.history import History
from ddp_lessons.script.notebook import Notebook
from ddp_lessons.script.refusals import CannotCarry, Refusal
from ddp_lessons.script.sameness import same
from ddp_lessons.script.statements import Statement
from ddp_lessons.script.writing import told, write

watching: dict[Any, History] = {}  # by shell; there is one where the extension was loaded


def to_script(function: Callable[..., object] | str, file: str | Path, force: bool = False) -> None:
    """Write a function of this notebook, with all that it needs, into a file that torchrun runs.

    Args:
        function: the function, or its name.
        file: where to write it. A file with content that this notebook did not write is kept.
        force: overwrite it in any case.

    Raises:
        CannotCarry: the function needs what a file cannot hold; the message names it all, and what to do.
        WouldOverwrite: the file exists, and may contain your own changes.
    """
    __tracebackhide__ = True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        raise RuntimeError(
            "to_script works only in a notebook. "
            "For a stored notebook, run: python -m ddp_lessons script lesson.ipynb train -o train.py"
        )
    path = Path(file)
    script = script_of(shell, function, path)
    write(script, path, force)
    print(told(script, path))


def script_of(shell: Any, function: Callable[..., object] | str, file: Path) -> Script:
    live: Mapping[str, object] = shell.user_ns
    name = function if isinstance(function, str) else _name_of(function, live)
    notebook = Notebook((watching.get(shell) or History(shell)).cells(), live, _says_the_same)
    script = compose(notebook, name, file.name, Path.cwd())
    if changed := [*_changed(script, notebook, live)]:
        raise CannotCarry(name, changed)
    return script


def _name_of(function: Callable[..., object], live: Mapping[str, object]) -> str:
    own = getattr(function, "__name__", "")
    if live.get(own) is function:
        return str(own)
    for name, value in live.items():
        if value is function and not name.startswith("_"):
            return name
    what = "it has no name in this notebook"
    raise CannotCarry(own or repr(function), [refusals.no_plain_function(own or "train", "", what)])


def _says_the_same(definition: Statement, value: object) -> bool:
    """Does the value come from this definition? A cell that was edited and failed half-way has a newer one."""
    if not inspect.isfunction(value):
        return True
    try:
        source = inspect.getsource(value)
    except (OSError, TypeError):
        return True
    return textwrap.dedent(source).strip() == definition.code.strip()


def _changed(script: Script, notebook: Notebook, live: Mapping[str, object]) -> Iterator[Refusal]:
    """The variables whose value differs from what the script would compute."""
    values = {name: one for name, one in script.bindings.items() if not one.is_definition}
    if not values:
        return
    fresh: dict[str, Any] = {"__name__": "ddp_lessons_script"}
    try:
        with _nothing_else_changed():
            code = compile(f"{script.imports}\n\n{script.body}", "<the script>", "exec", dont_inherit=True)
            exec(code, fresh)
    except Exception as error:
        yield refusals.fails_anew(", ".join(values), error)
        return
    for name, one in values.items():
        if _differ(fresh[name], live[name]):
            yield refusals.not_what_it_says(name, one)


def _differ(fresh: object, live: object) -> bool:
    try:
        return not same(fresh, live)
    except Exception:  # an == of the learner's; what cannot be compared counts as equal
        return False


@contextlib.contextmanager
def _nothing_else_changed() -> Iterator[None]:
    """Leave the random state as it was, and print nothing."""
    torch, state = sys.modules.get("torch"), random.getstate()
    torch_state = torch.get_rng_state() if torch else None
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        random.setstate(state)
        if torch:
            torch.set_rng_state(torch_state)
        if numpy:
            numpy.random.set_state(numpy_state)
