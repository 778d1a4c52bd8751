"""Machines that are not as one expects, and notebooks that did a lot before: a launch is right, or says why not."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from notebook_session import NotebookSession
from processes import PROJECT, Program, eventually, template_of

from ddp_lessons import WorkerFailed, launch
from ddp_lessons.run.processes.process_pool import pool

DEFINE = """
import os, sys, time
from ddp_lessons import launch, Workers
def add_up(rank, size):
    import torch, torch.distributed as dist
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    print("\\xfc \\u6f22")
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()
"""
ADD_UP = DEFINE + "print(list(launch(add_up, 3)), flush=True)\n"
JOIN_BY_ITSELF = DEFINE + "print(list(launch(add_up, 3, join=False)), flush=True)\n"
RIGHT = ["[3.0, 3.0, 3.0]", "rank 0 | ü 漢", "rank 1 | ü 漢", "rank 2 | ü 漢"]


def said_by(
    source: str,
    *,
    prefix: Sequence[str] = (),
    environment: Mapping[str, str | None] | None = None,
    folder: Path | None = None,
    options: Sequence[str] = (),
    python: str = sys.executable,
) -> str:
    """All that a program says in these surroundings; nothing of it may be left afterwards."""
    with Program(
        source, prefix=prefix, environment=environment, folder=folder, options=options, python=python
    ) as program:
        said = program.finish()
        assert eventually(lambda: not program.marked())
    return said


def shell(before: str) -> list[str]:
    """Begin the program in a shell that did something before."""
    return ["sh", "-c", f'{before} && exec "$@"', "sh"]


def namespaces(kinds: str, before: str) -> list[str]:
    """The same in namespaces of its own, so that it may take away the network or change what is mounted."""
    if os.geteuid() != 0 or subprocess.run(["unshare", *kinds.split(), "true"], check=False).returncode != 0:
        pytest.skip("only root can take a network, a host name or a mount away from a program, and only with unshare")
    return ["unshare", *kinds.split(), *shell(before)]


def as_nobody(number: int = 1234) -> dict[str, Any]:
    """Another user, who sees the project at a place that everybody can reach, and who may have to use another Python
    of the same version, because the one that runs the tests may be in somebody's home."""
    command = [
        *namespaces("-m", f"mount --bind '{PROJECT}' /mnt"),
        *f"setpriv --reuid={number} --regid={number} --clear-groups".split(),
    ]
    packages = f"/mnt:{sysconfig.get_path('purelib')}".replace(os.fspath(PROJECT), "/mnt")
    for python in (sys.executable.replace(os.fspath(PROJECT), "/mnt"), f"/usr/bin/python3.{sys.version_info.minor}"):
        trial = [*command, "env", f"PYTHONPATH={packages}", python, "-c", "import numpy"]
        if subprocess.run(trial, check=False, cwd="/", capture_output=True).returncode == 0:
            environment = {"PYTHONPATH": packages, "TMPDIR": None, "HOME": "/root"}
            return {"prefix": command, "python": python, "environment": environment, "folder": Path("/")}
    pytest.skip("no Python of this version and no torch that another user may read")


UNKNOWN_HOST = "hostname nobody.knows.invalid && ip link set lo up"
ONLY_VERSION_6 = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"
PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}
SWITCHES = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONFAULTHANDLER", "PYTHONNOUSERSITE")
SPAWN = {"DDP_LESSONS_START_METHOD": "spawn"}

# program and surroundings; of a function, what it returns, because not every machine can do it
RIGHT_IN: dict[str, Callable[[], str]] = {
    "no network": lambda: said_by(ADD_UP, prefix=namespaces("-n -u", UNKNOWN_HOST)),
    "no network, joins by itself": lambda: said_by(JOIN_BY_ITSELF, prefix=namespaces("-n -u", UNKNOWN_HOST)),
    "no network, spawned": lambda: said_by(ADD_UP, prefix=namespaces("-n -u", UNKNOWN_HOST), environment=SPAWN),
    "only IPv6": lambda: said_by(ADD_UP, prefix=namespaces("-n", ONLY_VERSION_6)),
    "only IPv6, joins by itself": lambda: said_by(JOIN_BY_ITSELF, prefix=namespaces("-n", ONLY_VERSION_6)),
    "no home": lambda: said_by(ADD_UP, environment={"HOME": None, "XDG_CACHE_HOME": None}),
    "tiny shared memory": lambda: said_by(ADD_UP, prefix=namespaces("-m", "mount -t tmpfs -o size=1M none /dev/shm")),
    "another user": lambda: said_by(ADD_UP, **as_nobody()),
    "few open files": lambda: said_by(ADD_UP, prefix=shell("ulimit -n 256")),
    "strange OMP_NUM_THREADS": lambda: said_by(ADD_UP, environment={"OMP_NUM_THREADS": "many"}),
    "dev mode": lambda: said_by(ADD_UP, environment=dict.fromkeys(SWITCHES, "1"), options=["-X", "dev"]),
    "strict": lambda: said_by(ADD_UP, options=["-W", "error", "-B", "-u", "-O"]),
    "signals blocked": lambda: said_by(f"import signal; signal.pthread_sigmask(0, {{2, 10, 14, 15, 17}})\n{ADD_UP}"),
    "no stdin, closed umask": lambda: said_by(f"import os; os.close(0)\nos.umask(0o777)\n{ADD_UP}"),
    "socket timeout": lambda: said_by(f"import socket; socket.setdefaulttimeout(10)\n{ADD_UP}"),
}


@nightly
@pytest.mark.parametrize("where", RIGHT_IN)
def test_ranks_add_up_in_any_surroundings(where: str) -> None:
    assert sorted(RIGHT_IN[where]().splitlines()) == RIGHT


@nightly
@pytest.mark.parametrize("source", by_day([ADD_UP, JOIN_BY_ITSELF], 1), ids=["joined", "joins by itself"])
def test_without_even_loopback_the_error_says_so_at_once(source: str) -> None:
    said = said_by(source, prefix=namespaces("-n", "true"))
    message = said[said.index("WorkerFailed: ") :]
    assert "Next: run `ip link set lo up`: the loopback interface, which connects the ranks, is down" in message


def test_with_no_address_at_all_the_error_says_who_can_help() -> None:
    refuse = "import socket\nsocket.socket.bind = lambda *_: (_ for _ in ()).throw(OSError(99, 'no address'))\n"
    message = said_by(ADD_UP.replace("print(list", refuse + "print(list", 1)).splitlines()[-2]
    assert message.startswith("RuntimeError: the loopback interface, which connects the ranks, has no address")
    assert "Next: ask the administrator of this machine" in message


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
def test_the_usual_port_may_be_taken(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def add_up(rank: int, world_size: int) -> float:
        dist.init_process_group("gloo")
        total = torch.ones(1) * rank
        dist.all_reduce(total)
        return total.item()

    monkeypatch.setenv("MASTER_PORT", "29500")
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # then somebody else has taken it
            taken.bind((address, 29500))
            taken.listen()
        assert list(launch(add_up, 3, join=False, quiet=True)) == [3.0, 3.0, 3.0]


def test_a_file_that_hides_a_module_of_python_is_named(tmp_path: Path) -> None:
    (tmp_path / "struct.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", "from ddp_lessons import launch"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr.endswith("cannot be imported: module 'struct' has no attribute 'calcsize'\n"), done.stderr


@pytest.mark.parametrize(
    "variables",
    by_day(
        [
            dict.fromkeys(
                ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"), "http://10.255.255.1:9"
            ),
            {
                "RANK": "7",
                "WORLD_SIZE": "99",
                "MASTER_ADDR": "nobody.knows.invalid",
                "LOCAL_RANK": "x",
                "GROUP_RANK": "3",
                "TORCHELASTIC_USE_AGENT_STORE": "True",  # whose rank 0 serves no store
            },
            {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"},
            {"CUDA_VISIBLE_DEVICES": "", "NCCL_SOCKET_IFNAME": "eth7", "GLOO_DEVICE_TRANSPORT": "TCP"},
            {"GLOO_SOCKET_IFNAME": "eth77"},
            {"A": "with\nlines and = and ü 漢", "B": "x" * 100_000, "": ""},
        ],
        3,
    ),
    ids=["proxies", "another launcher's", "debug", "interfaces", "no such interface", "odd"],
)
def test_what_the_environment_says_does_no_harm(variables: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def add_up(rank: int, world_size: int) -> float:
        total = torch.ones(1) * rank
        dist.all_reduce(total)
        return total.item()

    def join_and_add_up(rank: int, world_size: int) -> float:
        dist.init_process_group("gloo")
        return add_up(rank, world_size)

    for name, value in variables.items():
        if name:
            monkeypatch.setenv(name, value)
    assert list(launch(add_up, 3, quiet=True)) == [3.0, 3.0, 3.0]
    assert list(launch(join_and_add_up, 3, join=False, quiet=True)) == [3.0, 3.0, 3.0]


def test_an_interface_that_is_not_there_is_named() -> None:
    def join(rank: int, world_size: int) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "eth77"
        dist.init_process_group("gloo")

    with pytest.raises(
        WorkerFailed,
        match="Next: do not set GLOO_SOCKET_IFNAME in the function that you launch: it names eth77, which this machine",
    ):
        launch(join, 2, join=False, quiet=True)


# --- folders and files ----------------------------------------------------------------------------------------------


@nightly
@pytest.mark.parametrize("name", ["lé çon 漢 'quoted\" $HOME %s \\n", "long " * 40])
def test_the_temporary_folder_may_have_any_name(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    folder.mkdir()
    environment = {"TMPDIR": os.fspath(folder)}
    said = said_by(ADD_UP + "launch(add_up, 2, join=False)", environment=environment, folder=folder)
    assert RIGHT[0] in said.splitlines()
    assert list(folder.iterdir()) == []


torch_can_be_imported = pytest.mark.skipif(
    not sys.prefix.isascii(),
    reason="torch itself is not imported from such a folder when the locale is C and not UTF-8",
)


@nightly
@torch_can_be_imported
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_the_project_s_folder_may_have_any_name_in_any_locale(start_method: str, tmp_path: Path) -> None:
    folder = tmp_path / "lé çon 漢"
    shutil.copytree(PROJECT / "ddp_lessons", folder / "ddp_lessons", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PYTHONPATH": os.fspath(folder), "TMPDIR": os.fspath(folder), **PLAIN}
    source = f"import ddp_lessons; assert 'on ' in ddp_lessons.__file__\n{ADD_UP}"
    said = said_by(source, environment={**environment, "DDP_LESSONS_START_METHOD": start_method}, folder=folder)
    assert RIGHT[0] in said.splitlines()
    assert said.count("rank 1 | ") == 1


@nightly
def test_the_current_folder_may_be_gone_before_the_import(tmp_path: Path) -> None:
    gone = f"os.chdir({os.fspath(tmp_path)!r}); os.rmdir({os.fspath(tmp_path)!r})\n"
    if "SystemError" in said_by(gone + "import socket"):
        pytest.skip("this Python can't import socket in a folder that is gone, like Python 3.13.0; nor can torch")
    tmp_path.mkdir()
    assert sorted(said_by(gone + ADD_UP).splitlines()) == RIGHT


@nightly
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_the_current_folder_may_be_deleted_later(
    start_method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(rank: int, world_size: int) -> int:
        return rank + world_size

    monkeypatch.setattr(pool, "prepare", lambda count, method: None)
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    assert list(launch(add, 2, start_method=start_method, quiet=True)) == [2, 3]
    tmp_path.mkdir()


SHADOWS = ("random", "socket", "queue", "signal", "pickle", "types", "array", "selectors", "numpy")


@pytest.fixture(scope="module")
def beside_files_with_famous_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookSession]:
    """A kernel whose folder holds what a learner might have written while trying things out."""
    folder = tmp_path_factory.mktemp("notebook")
    with NotebookSession(folder=os.fspath(folder)) as session:  # with them from the beginning, Jupyter itself fails
        for name in SHADOWS:
            (folder / f"{name}.py").write_text(f"print('{name}.py of the learner')\nraise ImportError('{name}')\n")
        yield session


@nightly
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_the_learner_s_files_do_not_stand_in_for_python_s_own(
    beside_files_with_famous_names: NotebookSession, start_method: str
) -> None:
    cell = beside_files_with_famous_names.run(
        f"{DEFINE}list(launch(add_up, 2, start_method={start_method!r})), launch(add_up, 3, join=False)[2]"
    )
    assert (cell.value, cell.error) == ("([1.0, 1.0], 3.0)", "")


# --- how Python was started -----------------------------------------------------------------------------------------


@nightly
@torch_can_be_imported
def test_letters_that_the_terminal_does_not_have_are_no_error() -> None:
    said = said_by(ADD_UP, environment=PLAIN)
    assert RIGHT[0] in said.splitlines()
    assert all(f"rank {rank} | " in said for rank in range(3))


@nightly
def test_ranks_have_the_hash_seed_of_the_notebook() -> None:
    source = DEFINE + "print(set(launch(lambda rank, size: hash('a'), 2)) == {hash('a')})"
    assert said_by(source, environment={"PYTHONHASHSEED": "5"}) == "True\n"


@pytest.mark.parametrize("start_method", by_day(["fork", "spawn"], 1))
@pytest.mark.parametrize("closed", by_day(["0<&- 2>&-", "0<&- 1>&- 2>&-", "1>&-", "1>/dev/full"], 1))
def test_standard_streams_may_be_closed_or_broken(closed: str, start_method: str, tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    source = f"{DEFINE}answer = list(launch(add_up, 2))\nopen({os.fspath(answer)!r}, 'w').write(str(answer))"
    said_by(source, prefix=shell(f"exec {closed}"), environment={"DDP_LESSONS_START_METHOD": start_method})
    assert answer.read_text() == "[1.0, 1.0]"


@nightly
def test_a_message_can_be_printed_in_a_terminal_that_knows_only_ascii() -> None:
    fail = "def fail(rank, size): raise ValueError('\\xfc \\u6f22')\n"
    report = "try:\n    launch(fail, 2)\nexcept RuntimeError as error:\n    print(error)"
    said = said_by(DEFINE + fail + report, environment={**PLAIN, "PYTHONIOENCODING": "ascii:strict"})
    assert said.startswith(r"both ranks raised ValueError: \xfc \u6f22")


# --- what the notebook did before -----------------------------------------------------------------------------------


def large_operation() -> float:
    return float((torch.ones(1500, 1500) @ torch.ones(1500, 1500)).sum())


def train_a_model() -> None:
    model = torch.nn.Linear(2000, 2000)
    for _ in range(2):
        model(torch.ones(500, 2000)).sum().backward()


def start_threads() -> None:
    for _ in range(4):
        threading.Thread(target=time.sleep, args=(3,), daemon=True).start()


def pages_asked_for_again(rank: int, world_size: int) -> float:
    """How often a process asks the system for a page of memory, when it needs as much as just before."""
    import resource

    def need() -> None:
        [b"x" * (100_000 + number) for number in range(300)]  # 30 MB

    need()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        need()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 10


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc")
@pytest.mark.parametrize("start_method", by_day(["fork", "spawn"], 1))
def test_a_rank_keeps_the_memory_that_it_freed(start_method: Any) -> None:
    assert launch(pages_asked_for_again, 1, start_method=start_method)[0] < 1000


@pytest.mark.parametrize("before", [large_operation, train_a_model, start_threads, torch.get_num_threads])
@pytest.mark.parametrize("world_size", by_day([4, 1], 1))
def test_what_the_notebook_did_before_makes_no_difference(before: Callable[[], object], world_size: int) -> None:
    def work(rank: int, world_size: int) -> float:
        product = torch.ones(1500, 1500) @ torch.ones(1500, 1500)
        weight = torch.ones(1000, 1000, requires_grad=True)
        (weight @ torch.ones(1000, 1000)).sum().backward()
        dist.all_reduce(weight.grad)  # type: ignore[arg-type]
        return float(product.sum()) + float(weight.grad.sum()) / world_size  # type: ignore[union-attr]

    before()
    results = launch(work, world_size, timeout_seconds=20, quiet=True)
    assert list(results) == pytest.approx([1500.0**3 + 1000.0**3] * world_size, rel=1e-5)


def test_what_ddp_imports_is_imported_once_for_all_later_launches() -> None:
    def wrap(rank: int, world_size: int) -> tuple[bool, bool]:
        was_there = "torch._dynamo" in sys.modules
        torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
        return was_there, torch.cuda.is_initialized()

    def fail(rank: int, world_size: int) -> None:
        wrap(rank, world_size)
        raise ValueError("lost")

    with pytest.raises(WorkerFailed):
        launch(fail, 2, quiet=True)
    assert list(launch(wrap, 2)) == [(True, False)] * 2
    assert template_of(os.getpid()).num_threads() == 1  # it can still be forked


def test_a_process_that_the_notebook_forks_while_torch_is_imported_is_silent() -> None:
    said = Program("from ddp_lessons import launch\nif os.fork():\n    os.wait()").finish()
    assert said == ""
