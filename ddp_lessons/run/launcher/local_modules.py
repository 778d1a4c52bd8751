"""The notebook's own modules, which ranks on other nodes get from it: Python files that are not installed.

A rank asks for such a module when it imports it, so it gets the file as it is then, even if the notebook itself never
imported it.
"""

from __future__ import annotations

import importlib
import os
import site
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder

from ddp_lessons.run.launcher.private_folders import module_path
from ddp_lessons.run.wire.messages import ModuleSource

_PACKAGE = __name__.partition(".")[0]
_OF_PACKAGES = ("site-packages", "dist-packages")  # such a folder may also be another Python's
_INSTALLED = tuple(
    os.path.join(os.path.abspath(folder), "")
    for folder in {
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
        *(*site.getsitepackages(), site.getusersitepackages()),
    }
)


def names_of_local_modules() -> frozenset[str]:
    """The names that `import` would find in the notebook's own folders: modules, and packages with all they contain."""
    importlib.invalidate_caches()
    path = module_path()
    names = {name for folder in path if not _is_installed(folder) for name in _importable(folder)}
    found = {name: PathFinder.find_spec(name, path) for name in names - {_PACKAGE} - set(sys.builtin_module_names)}
    return frozenset(name for name, spec in found.items() if spec is not None and _is_own(spec))


def source_of_local_module(name: str) -> ModuleSource:
    """For a rank. Without a source, the notebook has no such module, or it is compiled."""
    spec = _spec(name)
    if spec is None or not _is_own(spec):
        return ModuleSource(name)
    folders = spec.submodule_search_locations
    inside = tuple(folders) if folders is not None else None
    if spec.origin is None:
        return ModuleSource(name, b"", inside)
    try:
        if spec.origin.endswith(".py"):
            with open(spec.origin, "rb") as file:
                return ModuleSource(name, file.read(), inside, spec.origin)
    except OSError:  # it may not be read, or is gone already
        pass
    return ModuleSource(name)


def _spec(name: str) -> ModuleSpec | None:
    """Found as `import` does it, but without importing the packages around it."""
    path: Sequence[str] | None = module_path()
    spec, whole = None, ""
    for part in name.split("."):
        whole = f"{whole}.{part}" if whole else part
        spec = PathFinder.find_spec(whole, path) if path is not None else None
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _importable(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder or ".") as entries:
            for entry in entries:
                name, kind = os.path.splitext(entry.name)
                if name.isidentifier() and (kind == ".py" or (not kind and entry.is_dir())):
                    yield name
    except OSError:  # a folder that does not exist, or the standard library as a zip file
        return


def _is_own(spec: ModuleSpec) -> bool:
    places = [spec.origin] if spec.origin is not None else spec.submodule_search_locations or []
    return bool(places) and not any(map(_is_installed, places))


def _is_installed(place: str) -> bool:
    whole = os.path.join(os.path.abspath(place), "")
    return whole.startswith(_INSTALLED) or any(f"{os.sep}{name}{os.sep}" in whole for name in _OF_PACKAGES)
