"""Put the course into the package when a wheel is built; everything else is in pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

COURSE = {
    "notebooks": ("*.ipynb", "*.md"),
    "scripts": ("**/*",),
    "data": ("README.md", "MNIST/raw/*.gz"),
    "docs": ("it_hangs.md",),
}


class BuildWithCourse(build_py):
    """In an editable installation the lessons stay where they are: see ddp_lessons/own_files.py."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            course = Path(self.build_lib, "ddp_lessons", "course")
            shutil.rmtree(course, ignore_errors=True)
            for file in course_files():
                copy = course / file
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def course_files() -> list[Path]:
    found = (path for folder, patterns in COURSE.items() for pattern in patterns for path in Path(folder).glob(pattern))
    return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)


setup(cmdclass={"build_py": BuildWithCourse})
