"""What lies next to the notebook and is not on the nodes: modules travel, files do not.

The nodes see an empty folder where the notebook's own folder is. What a function returns there, or how it fails, is
compared with a launch of the same function on this machine.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import pytest
import torch
import torch.distributed as dist
from nights import nightly
from places import here
from torch.utils.data import DataLoader

from ddp_lessons import Hosts, WorkerFailed, Workers, launch
from ddp_lessons.machines import Machines
from ddp_lessons.train.digits import digits
from ddp_lessons.train.mnist import mnist_folder

pytestmark = nightly

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FILES = {
    "helpers_of_test.py": """
        import threading
        LOCK = threading.Lock()  # cannot be pickled
        FACTOR = 3
        class Point:
            def __init__(self, x): self.x = x
        class HelperError(Exception): pass
        def scaled(x):
            with LOCK: return x * FACTOR
        def fail(x):
            raise HelperError(f"no {x}")
        class Squares:
            def __len__(self): return 8
            def __getitem__(self, number): return number ** 2
        """,
    "package_of_test/__init__.py": "from . import inner\nfrom .module import value",
    "package_of_test/module.py": "from package_of_test.inner.deep import deep\nvalue = deep()",
    "package_of_test/inner/__init__.py": "",
    "package_of_test/inner/deep.py": "def deep():\n    from ..late import name\n    return name",
    "package_of_test/late.py": "name = 'late'",
    "space_of_test/part.py": "x = 5",
    "tabnanny.py": "whose = 'the notebook'",  # the standard library has one, too
    "nbformat/notes.txt": "a folder that is no package",  # another one is installed
    "only_there/notes.txt": "a folder that is no package; the nodes have a module of this name",
    "compiled_of_test.abi3.so": "",
    "numbers.txt": "1 2 3",
    "packages/site-packages/installed_of_test.py": "there = True",
    "packages/site-packages/installed_test-1.5.dist-info/METADATA": "Name: Installed-Test\nVersion: 1.5\n",
    "packages/site-packages/installed_test-1.5.dist-info/RECORD": "installed_of_test.py,,\n",
}


def write(folder: Path, name: str, text: str) -> None:
    lines = [line.removeprefix(" " * 8) for line in text.strip("\n").splitlines()]
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The notebook's: the current one, and first on its module path."""
    folder = tmp_path_factory.mktemp("own")
    for name, text in FILES.items():
        write(folder, name, text)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.syspath_prepend(folder / "packages" / "site-packages")
        patched.syspath_prepend("")
        yield folder


@pytest.fixture(scope="module")
def nodes(folder: Path) -> Iterator[Machines]:
    with here(Machines(2)) as machines:
        for number in range(2):
            machines.run(number, ["mount", "-t", "tmpfs", "none", str(folder)]).check_returncode()
            assert not machines.run(number, ["ls", str(folder)]).stdout
        yield machines


def both_ways(nodes: Machines, function: Callable[..., Any], *args: object, ranks: int = 2) -> tuple[list[Any], ...]:
    return list(launch(function, ranks, *args)), list(launch(function, ranks, *args, on=nodes))


def test_functions_and_classes_of_a_module_are_the_same_on_the_nodes(nodes: Machines) -> None:
    helpers: Any = importlib.import_module("helpers_of_test")

    def run(rank: int, world_size: int, point: Any) -> Any:
        gathered: list[Any] = [None] * world_size
        dist.all_gather_object(gathered, helpers.Point(rank))
        return helpers.scaled(point.x + rank), helpers.Point(rank), [one.x for one in gathered], helpers.__file__

    here, there = both_ways(nodes, run, helpers.Point(1), ranks=4)
    assert [type(one[1]) for one in there] == [helpers.Point] * 4
    assert [(one[0], one[1].x, *one[2:]) for one in there] == [(one[0], one[1].x, *one[2:]) for one in here]


def test_a_module_that_only_the_rank_imports_travels_too(nodes: Machines) -> None:
    def run(rank: int, world_size: int) -> tuple[object, ...]:
        import tabnanny

        import nbformat
        import package_of_test  # type: ignore[import-not-found]
        import space_of_test.part as part  # type: ignore[import-not-found]

        whose = tabnanny.whose  # type: ignore[attr-defined]
        return package_of_test.value, package_of_test.inner.__name__, part.x, whose, nbformat.__version__

    here, there = both_ways(nodes, run)
    assert here == there
    assert here[0][:4] == ("late", "package_of_test.inner", 5, "the notebook")


def test_what_a_node_has_comes_before_a_folder_that_is_no_package(nodes: Machines, tmp_path: Path) -> None:
    write(tmp_path, "only_there.py", "whose = 'the node'")

    def run(rank: int, world_size: int) -> str:
        sys.path.append(str(tmp_path))
        import only_there  # type: ignore[import-not-found]

        return str(only_there.whose)

    assert list(launch(run, 2, on=nodes)) == ["the node"] * 2


@pytest.mark.parametrize(("coding", "text"), [("latin-1", "Gr\xfc\xdfe"), ("utf-8", "Gr\u00fc\u00dfe \u2713")])
def test_a_module_may_have_another_encoding(nodes: Machines, folder: Path, coding: str, text: str) -> None:
    name = f"encoded_in_{coding.replace('-', '_')}"
    (folder / f"{name}.py").write_bytes(f"# -*- coding: {coding} -*-\nwords = '{text}'\n".encode(coding))

    def run(rank: int, world_size: int) -> str:
        return str(importlib.import_module(name).words)

    assert both_ways(nodes, run) == ([text] * 2, [text] * 2)


def test_a_module_with_a_wrong_encoding_is_an_error_as_here(nodes: Machines, folder: Path) -> None:
    (folder / "wrongly_encoded.py").write_bytes(b"words = '\xff'\n")

    def run(rank: int, world_size: int) -> None:
        importlib.import_module("wrongly_encoded")

    here, there = failures(nodes, run)
    assert named_on_nodes(str(here)).splitlines()[:2] == str(there).splitlines()[:2]
    assert "raised SyntaxError" in str(there)


def test_a_changed_module_travels_again(nodes: Machines, folder: Path) -> None:
    def run(rank: int, world_size: int) -> int:
        import changed_of_test  # type: ignore[import-not-found]

        return int(changed_of_test.value)

    for value in (1, 22):
        write(folder, "changed_of_test.py", f"value = {value}")
        assert both_ways(nodes, run) == ([value] * 2, [value] * 2)


def test_so_it_does_for_ranks_that_stay_if_they_reload_it(nodes: Machines, folder: Path) -> None:
    def run(rank: int, world_size: int) -> int:
        import staying_of_test  # type: ignore[import-not-found]

        return int(staying_of_test.value)

    def reload(rank: int, world_size: int) -> None:
        importlib.reload(sys.modules["staying_of_test"])

    for on in (None, nodes):
        with Workers(2, on=on) as workers:
            write(folder, "staying_of_test.py", "value = 1")
            assert list(workers.run(run)) == [1, 1]
            write(folder, "staying_of_test.py", "value = 22")
            assert list(workers.run(run)) == [1, 1]
            workers.run(reload)
            assert list(workers.run(run)) == [22, 22]


def test_workers_of_a_loader_have_the_modules_of_their_rank(nodes: Machines) -> None:
    helpers: Any = importlib.import_module("helpers_of_test")

    def run(rank: int, world_size: int) -> list[int]:
        return [int(one) for batch in DataLoader(helpers.Squares(), num_workers=2) for one in batch]

    here, there = both_ways(nodes, run)
    assert here == there == [[number**2 for number in range(8)]] * 2


def test_several_ranks_and_threads_import_at_once(nodes: Machines, folder: Path) -> None:
    names = [f"many_of_test_{number}" for number in range(20)]
    for number, name in enumerate(names):
        write(folder, f"{name}.py", f"value = {number}")

    def run(rank: int, world_size: int) -> list[int]:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(4) as threads:
            return [module.value for module in threads.map(importlib.import_module, names)]

    assert list(launch(run, 4, on=nodes)) == [list(range(20))] * 4


def named_on_nodes(message: str) -> str:
    """The message about both ranks, as it is if they run on nodes."""
    return message.replace("both ranks raised", "both ranks on machine0 and machine1 raised", 1)


def failures(nodes: Machines, function: Callable[..., object]) -> tuple[WorkerFailed, WorkerFailed]:
    caught = []
    for on in (None, nodes):
        with pytest.raises(WorkerFailed) as failed:
            launch(function, 2, on=on)
        caught.append(failed.value)
    return caught[0], caught[1]


def test_an_exception_of_a_module_that_travelled_is_explained_as_here(nodes: Machines) -> None:
    helpers: Any = importlib.import_module("helpers_of_test")

    def run(rank: int, world_size: int) -> None:
        if rank == 1:
            helpers.fail(rank)
        dist.barrier()

    here, there = failures(nodes, run)
    assert str(here) == re.sub(r" on machine1", "", str(there))
    assert 'helpers_of_test.py line 10:   raise HelperError(f"no {x}")' in str(there)
    assert here.traceback(1) == there.traceback(1)


def test_a_mistake_in_a_module_names_its_line(nodes: Machines, folder: Path) -> None:
    write(folder, "wrong_of_test.py", "x = 1\ny = x +")

    def run(rank: int, world_size: int) -> None:
        import wrong_of_test  # type: ignore[import-not-found]  # noqa: F401

    here, there = failures(nodes, run)
    assert named_on_nodes(str(here)) == str(there)
    assert "SyntaxError: invalid syntax (wrong_of_test.py, line 2)" in str(there)


def test_what_no_machine_has_is_an_error_as_here(nodes: Machines) -> None:
    def run(rank: int, world_size: int) -> None:
        import nowhere_of_test  # type: ignore[import-not-found]  # noqa: F401

    here, there = failures(nodes, run)
    assert named_on_nodes(str(here)) == str(there)


def next_step(nodes: Any, function: Callable[..., object], ranks: int = 2) -> str:
    with pytest.raises(WorkerFailed) as failed:
        launch(function, ranks, on=nodes)
    return str(failed.value).rpartition("  Next: ")[2]


def test_a_package_that_a_node_lacks_is_named_with_the_command_that_installs_it(nodes: Machines) -> None:
    def run(rank: int, world_size: int) -> None:
        import installed_of_test  # type: ignore[import-not-found]  # noqa: F401

    install = "`pip install Installed-Test==1.5` on machine0"
    assert next_step(nodes, run, 1) == f"install Installed-Test==1.5 on machine0, as on this machine: {install}."
    assert "on machine0 and machine1, as on this machine: `pip" in next_step(nodes, run)


def test_so_it_is_if_the_function_itself_comes_from_there(nodes: Machines) -> None:
    installed: Any = importlib.import_module("installed_of_test")

    def of_package(rank: int, world_size: int) -> None: ...

    of_package.__module__ = installed.__name__
    of_package.__qualname__ = "of_package"
    installed.of_package = of_package
    assert next_step(nodes, of_package, 1).startswith("install Installed-Test==1.5 on machine0")


def test_hosts_say_how_their_python_is_reached() -> None:
    (alpha,) = Hosts("alpha", python="/opt/py thon/bin/python", options=["-p", "2222"]).commands()
    said = subprocess.run(
        ["sh", "-c", f"ssh() {{ printf '%s\\n' \"$@\"; }}; {alpha.python} -m pip install x"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said[:3] == ["-p", "2222", "alpha"]
    assert shlex.split(" ".join(said[3:])) == ["/opt/py thon/bin/python", "-m", "pip", "install", "x"]


def test_a_compiled_module_of_the_notebooks_folder_cannot_travel(nodes: Machines) -> None:
    def run(rank: int, world_size: int) -> None:
        import compiled_of_test  # type: ignore[import-not-found]  # noqa: F401

    assert next_step(nodes, run, 1).startswith("install compiled_of_test on machine0. Of what is not installed")


def test_a_file_that_did_not_travel_is_explained(nodes: Machines) -> None:
    def run(rank: int, world_size: int) -> str:
        with open("numbers.txt") as file:
            return file.read()

    assert list(launch(run, 1)) == ["1 2 3\n"]
    step = next_step(nodes, run, 1)
    assert step == (
        "pass the data as an argument of launch, or use a folder that all nodes share: files of this machine do not "
        "travel to machine0."
    )


def test_the_data_of_the_course_is_there(nodes: Machines) -> None:
    def run(rank: int, world_size: int) -> tuple[int, torch.Tensor, bool]:
        return len(digits()), digits(train=False)[rank][0], os.path.isdir(mnist_folder())

    here, there = both_ways(nodes, run)
    assert str(here) == str(there)
