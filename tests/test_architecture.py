"""Who may import whom: the picture in README.md, held."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

PACKAGE = pathlib.Path(__file__).parent.parent / "ddp_lessons"

# a part may import itself and these
MAY_IMPORT = {
    "run": {"run"},
    "train": {"train"},
    "show": {"show", "run", "machines"},
    "check": {"check", "run", "train"},
    "machines": {"machines", "run"},
    "script": {"script"},
    "backends": {"backends", "run", "train"},
    "quiz": {"quiz"},
    "room": {"room", "run"},
}
# these live in processes that are not the notebook's; they meet the launcher in the messages
IN_OTHER_PROCESSES = {
    "ddp_lessons.run.template",
    "ddp_lessons.run.rank",
    "ddp_lessons.run.own_process",
    "ddp_lessons.run.freedom",
    "ddp_lessons.run.functional",
    "ddp_lessons.run.groups",
    "ddp_lessons.run.guard",
    "ddp_lessons.run.holding",
    "ddp_lessons.run.witness",
    "ddp_lessons.run.callers",
    "ddp_lessons.run.interception",
    "ddp_lessons.run.lent_tensors",
    "ddp_lessons.run.private_store",
    "ddp_lessons.run.recorder",
}
SHARED = {
    f"ddp_lessons.run.{name}" for name in ("messages", "channel", "travel", "telling", "cells")
}  # functions travel by name


def imported_modules(file: pathlib.Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively; say the whole name"
            names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def modules_of(part: str) -> list[pathlib.Path]:
    return sorted((PACKAGE / part).rglob("*.py"))


def module_name(file: pathlib.Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


@pytest.mark.parametrize("part", [part for part in MAY_IMPORT if (PACKAGE / part).is_dir()])
def test_a_part_imports_only_what_the_picture_allows(part: str) -> None:
    for file in modules_of(part):
        ours = {name.split(".")[1] for name in imported_modules(file) if name.startswith("ddp_lessons.")}
        assert ours <= MAY_IMPORT[part], f"{module_name(file)} imports {ours - MAY_IMPORT[part]}"


def test_lesson_code_in_train_is_plain_pytorch() -> None:
    # torchvision needs the first, torch the second; the group over MPI imports the third when it is made
    come_with_these = {"PIL", "filelock", "mpi4py"}
    allowed = {"torch", "torchvision", "ddp_lessons", *come_with_these, *sys.stdlib_module_names}
    for file in modules_of("train"):
        assert {name.split(".")[0] for name in imported_modules(file)} <= allowed, module_name(file)


def test_launcher_and_ranks_meet_only_in_the_messages() -> None:
    for file in modules_of("run"):
        name, ours = module_name(file), {n for n in imported_modules(file) if n.startswith("ddp_lessons.run.")}
        ours = {n for n in ours if (PACKAGE.parent / n.replace(".", "/")).with_suffix(".py").exists()}
        forbidden = ours - SHARED - IN_OTHER_PROCESSES if name in IN_OTHER_PROCESSES else ours & IN_OTHER_PROCESSES
        assert not forbidden, f"{name} imports {forbidden}"


@pytest.mark.parametrize("heavy", ["torch", "matplotlib", "ipywidgets", "IPython", "numpy"])
def test_the_front_door_is_light(heavy: str) -> None:
    code = f"import sys; from ddp_lessons import launch, Workers, Results; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_rank_imports_nothing_of_the_launcher() -> None:
    code = "import sys, ddp_lessons.run.template; print([n for n in sys.modules if n.startswith('ddp_lessons.run.')])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    of_plain_scripts = {"ddp_lessons.run.witness"}
    assert set(ast.literal_eval(loaded)) == (IN_OTHER_PROCESSES | SHARED) - of_plain_scripts


def test_the_front_door_shows_few_names() -> None:
    import ddp_lessons

    assert 5 <= len(ddp_lessons.__all__) <= 8
    assert all(hasattr(ddp_lessons, name) for name in ddp_lessons.__all__)
