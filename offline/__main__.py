"""`make offline`: choose wheels, report their size, download the missing ones, and write the folder."""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
from collections.abc import Collection, Sequence
from pathlib import Path

from offline import contents
from offline.systems import PYTHONS, SYSTEMS, NotPacked, System, asked_for
from offline.torch_index import index_of
from offline.wheels import PAIR, PROJECT, Wheel, choose, fetch, in_words, requirements

FAT32 = 4_294_967_295
_LESSONS_BYTES = 25_000_000  # with packed MNIST


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m offline", description=__doc__)
    systems = f"{', '.join(SYSTEMS)}; may be repeated (default: this system)"
    parser.add_argument("--for", dest="systems", action="append", metavar="SYSTEM", help=systems)
    pythons = f"{', '.join(PYTHONS)}; may be repeated (default: this Python)"
    parser.add_argument("--python", dest="pythons", action="append", metavar="3.N", help=pythons)
    parser.add_argument("--torch", metavar="KIND", help="cpu: the CPU build, from PyTorch's own server")
    parser.add_argument("--without", choices=["torch"], help="torch: participants have torch and torchvision already")
    parser.add_argument("--tar", choices=["yes", "no"], default="no", help="yes: also write the folder as one file")
    parser.add_argument("--folder", type=Path, default=PROJECT / "dist" / "ddp-lessons-offline", help="target folder")
    chosen = parser.parse_args(arguments)
    try:
        _make(chosen)
    except (NotPacked, OSError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run it again to continue; downloaded files are kept.", file=sys.stderr)
        return 1
    return 0


def _make(chosen: argparse.Namespace) -> None:
    folder: Path = chosen.folder.absolute()
    machines = asked_for(chosen.systems or [], chosen.pythons or [])
    if chosen.torch and chosen.without:
        raise NotPacked("TORCH chooses the torch to pack, and WITHOUT=torch packs none. Use only one of them.")
    index = index_of(chosen.torch) if chosen.torch else None
    without = PAIR if chosen.without else ()
    notes = folder.with_name(f"{folder.name}.notes")
    sets: dict[str, list[Wheel]] = {}
    for system, python in machines:
        print(f"Asking pip for the wheels of {system.words} with Python {python}...", flush=True)
        sets[f"{system.name} {python}"] = choose(system, python, notes, index, without)
    _unfinished(folder).unlink(missing_ok=True)
    _say_sizes(folder, sets, chosen.tar == "yes")
    for system, python in machines:
        fetch(system, python, sets[f"{system.name} {python}"], folder / "wheels", index)
    contents.remove_other_wheels(folder, [wheel for wheels in sets.values() for wheel in wheels])
    if missing := contents.missing_of_mnist():
        raise NotPacked(f"This copy of the course lacks {', '.join(missing)} in data/MNIST/raw.")
    contents.write_lessons(folder)
    needed = {name: line for name, line in requirements().items() if name in without}
    contents.write_contents(folder, sets, needed)
    _say_what_there_is(folder, machines)
    _say_what_to_do(folder, chosen.tar == "yes", needed.values())


def _say_sizes(folder: Path, sets: dict[str, list[Wheel]], tar: bool) -> None:
    all_wheels = {wheel.file: wheel for wheels in sets.values() for wheel in wheels}
    sizes = {file: wheel.size or 0 for file, wheel in all_wheels.items()}
    unknown = sum(wheel.size is None for wheel in all_wheels.values())
    here = {file for file in sizes if (folder / "wheels" / file).is_file()}
    total, missing = sum(sizes.values()), sum(size for file, size in sizes.items() if file not in here)
    at_least = f"at least (of {unknown} the index does not say it) " if unknown else ""
    to_fetch = in_words(missing) if missing else "nothing"
    print(f"{len(sizes)} wheels, {at_least}{in_words(total)}; to download: {to_fetch}")
    for file in sorted(sizes, key=lambda file: -sizes[file])[:3]:
        print(f"  the largest: {file}, {in_words(sizes[file])}")
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    # pip keeps a second copy of downloads in its cache
    needed = 2 * missing + _LESSONS_BYTES + (total if tar else 0)
    if free < needed:
        raise NotPacked(f"{in_words(needed)} are needed, including pip's cache, but only {in_words(free)} are free.")


def _say_what_there_is(folder: Path, machines: list[tuple[System, str]]) -> None:
    print(f"\n{_shown(folder)}: {in_words(contents.size_of(folder))}, with the lessons and MNIST, for")
    for system, python in machines:
        print(f"  {system.words}, Python {python}")


def _say_what_to_do(folder: Path, tar: bool, already: Collection[str]) -> None:
    archive = folder.with_name(f"{folder.name}.tar")
    if tar:
        print(f"Writing {_shown(archive)}, the folder as one file...", flush=True)
        _pack(folder, archive)
        if archive.stat().st_size > FAT32:
            print("A FAT32 stick can't hold a file above 4.3 GB. Copy the folder to it instead.")
    elif archive.is_file():
        print(f"{_shown(archive)} is from an earlier run, not from this folder.")
    if changed := contents.changed_lessons():
        print("These lessons are packed with your changes, including your answers:", *changed, sep="\n  ")
    print("Copy the folder to a stick. Each participant runs there: python3 install.py")
    if already:
        print(f"with a Python that has {' and '.join(already)}, which this folder leaves out.")


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _unfinished(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.tar.unfinished")


def _pack(folder: Path, archive: Path) -> None:
    with tarfile.open(_unfinished(folder), "w") as tar:  # not compressed, because wheels are
        tar.add(folder, folder.name)
    _unfinished(folder).replace(archive)


if __name__ == "__main__":
    sys.exit(main())
