"""Inside a rank on another node: import the notebook's own modules, whose source the notebook sends on request."""

from __future__ import annotations

import linecache
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import decode_source
from types import ModuleType

from ddp_lessons.run.wire.messages import ModuleSource, WantsModule

_SECONDS_TO_ARRIVE = 30.0


class NotebookModules(MetaPathFinder, InspectLoader):
    """Comes before all other finders, because a file of the same name on the node may be older, or another one."""

    def __init__(self, ask: Callable[[WantsModule], None]) -> None:
        self._ask = ask
        self._names: frozenset[str] = frozenset()
        self._arrived: queue.SimpleQueue[ModuleSource] = queue.SimpleQueue()
        self._one_request = threading.Lock()
        self._sources: dict[str, ModuleSource] = {}
        os.register_at_fork(after_in_child=lambda: self.offer(frozenset()))  # a child process can't ask

    def offer(self, names: frozenset[str]) -> None:
        """From now on, the notebook provides these top-level modules and packages."""
        self._names = names
        if names and self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def take(self, module: ModuleSource) -> None:
        """Called from the thread that listens to the notebook."""
        self._arrived.put(module)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] not in self._names or (module := self._asked(name)).source is None:
            return None
        if not module.file and PathFinder.find_spec(name, path) is not None:
            return None  # only a folder of this name: anything that the node has comes before it, as on one machine
        self._sources[name] = module
        spec = ModuleSpec(name, self, origin=module.file or None, is_package=module.folders is not None)
        spec.has_location = bool(module.file)
        if module.folders is not None:
            spec.submodule_search_locations = list(module.folders)
        return spec

    def get_source(self, name: str) -> str | None:
        source = self._sources[name].source
        return None if source is None else decode_source(source)

    def exec_module(self, module: ModuleType) -> None:
        found = self._sources[module.__name__]
        source = found.source or b""
        text = source.decode(errors="replace")
        linecache.cache[found.file] = (len(text), None, text.splitlines(keepends=True), found.file)
        exec(compile(source, found.file, "exec", dont_inherit=True), vars(module))

    def _asked(self, name: str) -> ModuleSource:
        with self._one_request:
            self._ask(WantsModule(name))
            try:
                while (module := self._arrived.get(timeout=_SECONDS_TO_ARRIVE)).name != name:
                    pass  # the answer to a request that was interrupted
            except queue.Empty:
                raise ImportError(f"the notebook did not send its module {name}", name=name) from None
            return module
