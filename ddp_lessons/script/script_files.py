"""Write a script: `%to_script train train.py` in a notebook, and `python -m ddp_lessons script` for a stored one.

A notebook's cells are those that ran, as IPython's history has them. A stored one is not run, but read from the top.
"""

# mypy: allow-untyped-decorators

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ddp_lessons.own_files import write_whole
from ddp_lessons.script.script_text import NoSuchFunction, Script, compose
from ddp_lessons.script.statements import cells_of_file

if TYPE_CHECKING:
    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_ABOUT = "write a function from a notebook, and everything that it needs, to a script for torchrun"
_written: dict[Path, str] = {}  # digests of what this process wrote


class WouldOverwrite(FileExistsError):
    """The file exists, and may contain your own changes."""

    def _render_traceback_(self) -> list[str]:
        return [f"{type(self).__name__}: {self}"]


def add_command(commands: Commands) -> None:
    parser = commands.add_parser(
        "script",
        help=_ABOUT,
        description=f"{_ABOUT.capitalize()}. The notebook is not run; its cells are read from top to bottom. A line "
        "that needs something only the notebook has becomes a TODO. Exit status: 1 if nothing was written.",
    )
    parser.add_argument("notebook", type=Path, help="the notebook, such as lesson.ipynb")
    parser.add_argument("function", help="the name of the function")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write it (default: print it)")
    parser.add_argument("--force", action="store_true", help="overwrite a file with different content")
    parser.set_defaults(run=_of_stored_notebook)


def _of_stored_notebook(asked: argparse.Namespace) -> int:
    try:
        cells = cells_of_file(asked.notebook)
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"{asked.notebook} cannot be read as a notebook ({type(error).__name__}: {error})\n")
        return 1
    file = asked.output or Path(f"{asked.function}.py")
    try:
        script = compose(cells, asked.function, file.name, asked.notebook.parent, asked.notebook.name)
        if asked.output is None:
            print(script.text, end="")
        else:
            _write(script, file, asked.force)
    except (NoSuchFunction, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def load(shell: Any) -> None:
    """Make `%to_script` known to IPython."""
    from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

    @magic_arguments()
    @argument("function", help="the name of the function")
    @argument("file", help="where to write it, such as train.py")
    @argument("--force", action="store_true", help="overwrite a file with different content")
    def to_script(line: str) -> None:
        """Write a function from this notebook, and everything that it needs, to a script for torchrun."""
        asked = parse_argstring(to_script, line)
        file = Path(asked.file.strip("'\""))
        cells_that_ran = shell.history_manager.input_hist_raw[1:]
        _write(compose(cells_that_ran, asked.function, file.name, Path.cwd()), file, asked.force)

    shell.register_magic_function(to_script, "line", "to_script")


def unload(shell: Any) -> None:
    shell.magics_manager.magics["line"].pop("to_script", None)


def _write(script: Script, file: Path, force: bool) -> None:
    """Write it, unless the file has content that this process did not write, and say how to start it."""
    path = file.resolve()
    if path.exists() and not force:
        old = path.read_bytes()
        if old != script.text.encode() and _written.get(path) != hashlib.sha256(old).hexdigest():
            raise WouldOverwrite(
                f"{file} exists with different content, so nothing was written. "
                "Next: choose another name, or overwrite it with --force."
            )
    write_whole(path, script.text, 0o666)
    _written[path] = hashlib.sha256(script.text.encode()).hexdigest()
    print(f"wrote {file}. Start it with: {script.command}")
    if script.todo:
        print(f"{file} has a TODO for {_listed(script.todo)}: fill in what only the notebook has.")
    if script.computed:
        print(f"Every rank computes {_listed(script.computed)} itself, so set a seed before any random values.")
    for name in script.own_modules:
        print(f"{file} imports {name} from the notebook's folder: keep that module in the script's folder.")


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
