"""Put the course into wheels, and everything that tests and builds it into sdists; the rest is in pyproject.toml."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

DATA = ("README.md", "MNIST/raw/*.gz")
IN_WHEELS = {"notebooks": ("*.ipynb", "*.md"), "scripts": ("**/*",), "data": DATA, "docs": ("it_hangs.md",)}
IN_SDISTS = {
    ".": ("CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "requirements.txt", "environment.yml", "conftest.py"),
    **dict.fromkeys(("notebooks", "scripts", "docs", "tests", "tools"), ("**/*",)),
    "data": DATA,
}
LEFT_OVER = ("__pycache__", ".ipynb_checkpoints", ".DS_Store")


class BuildWithCourse(build_py):  # type: ignore[misc]
    """In an editable installation the lessons stay where they are: see ddp_lessons/own_files.py."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            course = Path(self.build_lib, "ddp_lessons", "course")
            shutil.rmtree(course, ignore_errors=True)
            for file in files_of(IN_WHEELS):
                copy = course / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


class SourceWithCourse(sdist):  # type: ignore[misc]
    def make_distribution(self) -> None:
        self.filelist.extend(map(str, files_of(IN_SDISTS)))
        self.filelist.remove_duplicates()
        super().make_distribution()


def files_of(patterns: Mapping[str, Sequence[str]]) -> Iterator[Path]:
    for folder in patterns:
        for path in sorted(path for pattern in patterns[folder] for path in Path(folder).glob(pattern)):
            if path.is_file() and not set(path.parts) & set(LEFT_OVER) and not path.name.startswith("Untitled"):
                yield path
