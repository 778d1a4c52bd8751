"""`python -m ddp_lessons script lesson.ipynb train -o train.py`: from a stored notebook, without running it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ddp_lessons.script.cells import cells_of_file
from ddp_lessons.script.composing import Script, compose
from ddp_lessons.script.notebook import Notebook
from ddp_lessons.script.refusals import CannotCarry
from ddp_lessons.script.writing import WouldOverwrite, told, write

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "script",
        help="write a function of a notebook, with all that it needs, into a file that torchrun runs",
        description="Write a function of a stored notebook, with all that it needs, into a file that torchrun runs. "
        "The notebook is not run: its cells are read from the top. Exit status: 1 if the function needs something that "
        "a script cannot contain; the message names it, and nothing is written.",
    )
    parser.add_argument("notebook", type=Path, help="the notebook, such as lesson.ipynb")
    parser.add_argument("function", help="the name of the function")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it (default: print it)")
    parser.add_argument("--force", action="store_true", help="overwrite a file with different content")
    parser.set_defaults(run=write_script)


def write_script(asked: argparse.Namespace) -> int:
    try:
        script = script_of_file(asked.notebook, asked.function, asked.output)
        if asked.output is None:
            print(script.text, end="")
        else:
            write(script, asked.output, asked.force)
            print(told(script, asked.output))
    except (CannotCarry, WouldOverwrite, OSError, ValueError, KeyError, TypeError) as refusal:
        sys.stderr.write(f"{_in_words(refusal, asked.notebook)}\n")
        return 1
    return 0


def script_of_file(notebook: Path, function: str, output: Path | None = None) -> Script:
    """The script for a function of a stored notebook."""
    file = output.name if output else f"{function}.py"
    return compose(Notebook(cells_of_file(notebook)), function, file, notebook.parent, notebook.name)


def _in_words(refusal: Exception, notebook: Path) -> str:
    if isinstance(refusal, (CannotCarry, OSError)):
        return str(refusal)
    return f"{notebook} cannot be read as a notebook ({type(refusal).__name__}: {refusal})"
