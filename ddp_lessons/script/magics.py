"""`%to_script train train.py`: calls `to_script`; loaded by `%load_ext ddp_lessons`."""

# mypy: allow-untyped-decorators

from __future__ import annotations

from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from ddp_lessons.script.history import History
from ddp_lessons.script.live import to_script, watching


@magics_class
class ScriptMagics(Magics):
    @magic_arguments()
    @argument("function", help="the name of the function")
    @argument("file", help="where to write it, such as train.py")
    @argument("--force", action="store_true", help="overwrite a file with different content")
    @line_magic("to_script")  # type: ignore[arg-type]
    def write_script(self, line: str) -> None:
        """Write a function of this notebook, with all that it needs, into a file that torchrun runs."""
        __tracebackhide__ = True
        asked = parse_argstring(self.write_script, line)
        to_script(asked.function, asked.file.strip("'\""), force=asked.force)


def load(shell: Any) -> None:
    shell.register_magics(ScriptMagics(shell))
    watching[shell] = History(shell)
    watching[shell].watch()


def unload(shell: Any) -> None:
    shell.magics_manager.registry.pop(ScriptMagics.__name__, None)
    if shell in watching:
        watching.pop(shell).forget()
