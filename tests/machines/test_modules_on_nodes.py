"""What lies next to the notebook and is not on the nodes: modules travel, files do not.

The nodes see an empty folder where the notebook's own folder is. What a function returns there, or how it fails, is
compared with a launch of the same function on this machine.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
from nights import nightly
from places import here
from torch.utils.data import DataLoader

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.machines import Machines
from ddp_lessons.run.nodes.node_group import disconnect

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SQUARES = """
class Squares:
    def __len__(self): return 8
    def __getitem__(self, number): return number ** 2
"""
FILES = {
    "squares_of_test.py": SQUARES,
    "package_of_test/__init__.py": "from .module import value",
    "package_of_test/module.py": "from package_of_test.inner.deep import value",
    "package_of_test/inner/__init__.py": "",
    "package_of_test/inner/deep.py": "value = 'deep'",
    "failing_of_test.py": "x = 1\nx / 0",
    "compiled_of_test.abi3.so": "",
    "numbers.txt": "1 2 3",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The notebook's: the current one, and first on its module path."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend("")
        yield folder


@pytest.fixture(scope="module")
def nodes(folder: Path) -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        for number in range(2):
            machines.run(number, ["mount", "-t", "tmpfs", "none", str(folder)]).check_returncode()
            assert not machines.run(number, ["ls", str(folder)]).stdout
        yield machines
        disconnect(machines)


def value_of(rank: int, world_size: int, name: str) -> Any:
    return Path(name).read_text() if "." in name else importlib.import_module(name).value


def test_a_module_that_only_the_rank_imports_travels(nodes: Machines) -> None:
    assert list(launch(value_of, 4, "package_of_test", on=nodes)) == ["deep"] * 4


@nightly
def test_objects_of_a_module_travel_also_to_workers_of_a_loader(nodes: Machines) -> None:
    def squares(rank: int, world_size: int, some: Any) -> tuple[list[int], Any]:
        return [int(one) for batch in DataLoader(some, num_workers=2) for one in batch], some

    of_module = importlib.import_module("squares_of_test").Squares
    for numbers, some in launch(squares, 2, of_module(), on=nodes):
        assert numbers == [number**2 for number in range(8)]
        assert type(some) is of_module


def failure(ranks: int, name: str, on: Machines | None) -> str:
    with pytest.raises(WorkerFailed) as failed:
        launch(value_of, ranks, name, on=on)
    return str(failed.value)


@nightly
def test_an_error_in_a_module_names_its_line_as_here(nodes: Machines) -> None:
    """Also if the ranks of several nodes raise it: they have the module in different folders."""
    there = failure(2, "failing_of_test", nodes)
    assert there.replace(" on machine0 and machine1", "") == failure(2, "failing_of_test", None)
    assert "failing_of_test.py" in there


@pytest.mark.parametrize(
    ("name", "raised", "step"),
    [
        ("numbers.txt", "FileNotFoundError", "pass the data as an argument to launch"),
        ("compiled_of_test", "ModuleNotFoundError", "install it on machine0, too: only Python files"),
    ],
)
def test_what_did_not_travel_is_explained(nodes: Machines, name: str, raised: str, step: str) -> None:
    said = failure(1, name, nodes)
    assert said.startswith(f"rank 0 of 1 on machine0 raised {raised}: ")
    assert step in said.rpartition("  Next: ")[2]


def test_a_changed_module_travels_again(nodes: Machines, folder: Path) -> None:
    for value in (1, 22):
        (folder / "changed_of_test.py").write_text(f"value = {value}")
        assert list(launch(value_of, 2, "changed_of_test", on=nodes)) == [value] * 2
