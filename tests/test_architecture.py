"""Which part may import which: the picture in docs/package.md."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys
from types import ModuleType

import pytest

from ddp_lessons import check, show

PACKAGE = pathlib.Path(__file__).parent.parent / "ddp_lessons"

# a part of the package may import itself and these
MAY_IMPORT = {
    "record": {"record"},
    "run": {"run", "record", "__version__"},
    "train": {"train"},
    "show": {"show", "run", "record", "machines"},
    "check": {"check", "run", "record", "train", "capstone", "clinic"},
    "capstone": {"capstone", "check", "run", "record", "sameness", "show", "train"},
    "clinic": {"clinic", "check", "dumps"},
    "machines": {"machines", "run", "record"},
    "sameness": {"sameness", "run", "record", "show"},
    "script": {"script"},
    "dumps": {"dumps", "run", "record", "show"},
    "backends": {"backends", "run", "record", "train"},
    "gpu": {"gpu", "run", "record", "train", "show"},
    "quiz": {"quiz", "show"},
    "workshop": {
        "workshop",
        "run",
        "record",
        "check",
        "clinic",
        "capstone",
        "train",
        "Results",
        "launch",
        "__version__",
    },
}
ALL_MAY_IMPORT = {"older_torch", "own_files"}
# what the lessons import, by theme
MOST_MODULES = {"train": 29}
# these live in processes that are not the notebook's; they meet the launcher in what goes over the wire
IN_OTHER_PROCESSES = ("ddp_lessons.run.rank.", "ddp_lessons.run.recording.", "ddp_lessons.run.debugging.rank_")
SHARED = (
    "ddp_lessons.run.wire.",
    "ddp_lessons.run.rank.tell",
    "ddp_lessons.run.rank.run_cell",
    "ddp_lessons.run.rank.run_script",
)  # functions travel by name


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
        assert ours <= MAY_IMPORT[part] | ALL_MAY_IMPORT, f"{module_name(file)} imports {ours - MAY_IMPORT[part]}"


def test_lesson_code_in_train_is_plain_pytorch() -> None:
    # torchvision needs the first, torch the second; the group over MPI imports the third when it is made; the last
    # says where this user's cache is, on each system
    come_with_these = {"PIL", "filelock", "mpi4py", "platformdirs"}
    allowed = {"torch", "torchvision", "ddp_lessons", *come_with_these, *sys.stdlib_module_names}
    for file in modules_of("train"):
        assert {name.split(".")[0] for name in imported_modules(file)} <= allowed, module_name(file)


def test_launcher_and_ranks_meet_only_in_the_messages() -> None:
    for file in modules_of("run"):
        name, ours = module_name(file), {n for n in imported_modules(file) if n.startswith("ddp_lessons.run.")}
        ours = {n for n in ours if (PACKAGE.parent / n.replace(".", "/")).with_suffix(".py").exists()}
        of_ranks = {n for n in ours if n.startswith(IN_OTHER_PROCESSES)}
        shared = {n for n in ours if n.startswith(SHARED)}
        forbidden = (ours - of_ranks if name.startswith(IN_OTHER_PROCESSES) else of_ranks) - shared
        assert not forbidden, f"{name} imports {forbidden}"


@pytest.mark.parametrize("heavy", ["torch", "matplotlib", "ipywidgets", "IPython", "numpy"])
def test_the_front_door_is_light(heavy: str) -> None:
    code = f"import sys; from ddp_lessons import launch, Workers, Results; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_rank_imports_nothing_of_the_launcher() -> None:
    code = (
        "import sys, ddp_lessons.run.rank.template; print([n for n in sys.modules if n.startswith('ddp_lessons.run.')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    modules = {name for name in ast.literal_eval(loaded) if name.count(".") == 3}
    assert "ddp_lessons.run.recording.recorder" in modules
    assert all(name.startswith((*IN_OTHER_PROCESSES, *SHARED)) for name in modules), modules


@pytest.mark.parametrize("folder", sorted({file.parent for file in modules_of("")}), ids=lambda folder: folder.name)
def test_a_folder_can_be_taken_in_at_a_glance(folder: pathlib.Path) -> None:
    modules = [file for file in folder.glob("*.py") if not file.name.startswith("__")]
    assert len(modules) <= MOST_MODULES.get(folder.relative_to(PACKAGE).as_posix(), 17)


def test_no_two_modules_have_one_name() -> None:
    names = [file.name for file in modules_of("") if not file.name.startswith("__")]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice


@pytest.mark.parametrize("part", [show, check], ids=["show", "check"])
def test_no_folder_hides_a_name_that_learners_type(part: ModuleType) -> None:
    folders = {folder.name for folder in (PACKAGE / part.__name__.split(".")[1]).iterdir() if folder.is_dir()}
    assert not folders & set(part.__all__)


def test_the_front_door_shows_few_names() -> None:
    import ddp_lessons

    assert 5 <= len(ddp_lessons.__all__) <= 9
    assert all(hasattr(ddp_lessons, name) for name in ddp_lessons.__all__)
