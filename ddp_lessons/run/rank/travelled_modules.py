"""On a node: the notebook's own modules, which lie in a folder there, but are named by their path in the notebook.

So a line of such a module is the same line on every node, and the one that the learner can open.
"""

from __future__ import annotations

import sys
from importlib.abc import PathEntryFinder
from importlib.machinery import FileFinder, SourceFileLoader
from types import CodeType

from ddp_lessons.run.wire.relayed import TRAVELLED


class _Loader(SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        code: CodeType = compile(self.get_data(self.path), self.path.partition(TRAVELLED)[2], "exec", dont_inherit=True)
        return code


def _finder(folder: str) -> PathEntryFinder:
    if TRAVELLED not in folder:
        raise ImportError  # another finder is asked
    return FileFinder(folder, (_Loader, [".py"]))


def install() -> None:
    """From now on, `import` treats the folders with that mark in this way."""
    sys.path_hooks.insert(0, _finder)
