"""Machines that are not as one expects, and notebooks that did a lot before: a launch is right, or says why not."""

from __future__ import annotations

import contextlib
import os
import pty
import re
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


# --- network --------------------------------------------------------------------------------------------------------


@nightly
@pytest.mark.parametrize("source", by_day([ADD_UP, JOIN_BY_ITSELF], 1), ids=["joined", "joins by itself"])
def test_without_a_network_and_with_a_host_name_that_nobody_knows(source: str) -> None:
    alone = namespaces("-n -u", "hostname nobody.knows.invalid && ip link set lo up")
    assert sorted(said_by(source, prefix=alone).splitlines()) == RIGHT


@nightly
def test_spawned_ranks_need_no_network_either() -> None:
    alone = namespaces("-n -u", "hostname nobody.knows.invalid && ip link set lo up")
    said = said_by(ADD_UP, prefix=alone, environment={"DDP_LESSONS_START_METHOD": "spawn"})
    assert sorted(said.splitlines()) == RIGHT


@nightly
@pytest.mark.parametrize("source", by_day([ADD_UP, JOIN_BY_ITSELF], 1), ids=["joined", "joins by itself"])
def test_without_even_loopback_the_error_says_so_at_once(source: str) -> None:
    said = said_by(source, prefix=namespaces("-n", "true"))
    message = said[said.index("WorkerFailed: ") :]
    assert "Next: run `ip link set lo up`: the loopback interface, which connects the ranks, is down" in message


@nightly
@pytest.mark.parametrize("source", [ADD_UP, JOIN_BY_ITSELF], ids=["joined", "joins by itself"])
def test_loopback_may_know_only_version_6(source: str) -> None:
    only_version_6 = namespaces("-n", "ip link set lo up && ip addr del 127.0.0.1/8 dev lo")
    assert RIGHT[0] in said_by(source, prefix=only_version_6).splitlines()


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


def test_an_interface_that_is_not_there_is_named_beside_those_that_are() -> None:
    def join(rank: int, world_size: int) -> None:
        os.environ["GLOO_SOCKET_IFNAME"] = "eth77"
        dist.init_process_group("gloo")

    with pytest.raises(
        WorkerFailed,
        match=r"Next: do not set GLOO_SOCKET_IFNAME in the function that you launch: it names eth77, but "
        "this machine has the interfaces .*lo",
    ):
        launch(join, 2, join=False, quiet=True)


@nightly
@pytest.mark.parametrize("threads", ["", "many"])
def test_a_number_of_threads_that_is_none_does_no_harm(threads: str) -> None:
    source = ADD_UP.replace("from ddp", f"os.environ['OMP_NUM_THREADS'] = {threads!r}\nfrom ddp", 1)
    assert RIGHT[0] in said_by(source).splitlines()


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


PLAIN = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": None}


@nightly
def test_there_may_be_no_home() -> None:
    assert sorted(said_by(ADD_UP, environment={"HOME": None, "XDG_CACHE_HOME": None}).splitlines()) == RIGHT


@nightly
def test_shared_memory_may_be_tiny() -> None:
    source = ADD_UP + (
        "def large(rank, size):\n    import torch; return torch.ones(5_000_000)\n"
        "print([len(tensor) for tensor in launch(large, 2)])"
    )
    said = said_by(source, prefix=namespaces("-m", "mount -t tmpfs -o size=1M none /dev/shm"))
    assert said.splitlines()[-1] == "[5000000, 5000000]"


@nightly
def test_a_full_temporary_folder_is_survived_or_named(tmp_path: Path) -> None:
    fill = f"mount -t tmpfs -o size=64k none '{tmp_path}' && (head -c 1M /dev/zero > '{tmp_path}/fill' 2>&- || true)"
    said = said_by(ADD_UP, prefix=namespaces("-m", fill), environment={"TMPDIR": os.fspath(tmp_path)})
    assert RIGHT[0] in said or "No space left" in said
    assert "terminate called" not in said


@nightly
def test_a_temporary_folder_that_fills_up_while_ranks_print_only_cuts_what_they_said(tmp_path: Path) -> None:
    source = DEFINE + (
        "def talk(rank, size):\n    for _ in range(200_000): print('many words of rank', rank)\n    return rank\n"
        "print(list(launch(talk, 2, quiet=True)))"
    )
    tiny = namespaces("-m", f"mount -t tmpfs -o size=1M none '{tmp_path}'")
    assert said_by(source, prefix=tiny, environment={"TMPDIR": os.fspath(tmp_path)}) == "[0, 1]\n"


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


@nightly
def test_a_torch_py_of_the_learner_is_survived_or_named(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("print('my first steps with torch')\n")
    with NotebookSession(folder=os.fspath(tmp_path)) as session:
        session.run("import torch")
        cell = session.run("from ddp_lessons import launch\ndef run(rank, size): return rank\nlist(launch(run, 2))")
        assert cell.value == "[0, 1]" or "torch.py" in cell.error, cell.error


# --- limits and users -----------------------------------------------------------------------------------------------


@nightly
def test_few_open_files_are_enough_for_many_ranks() -> None:
    source = DEFINE + "print([sum(launch(add_up, size, quiet=True)) for size in (16, 40, 4)])"
    assert said_by(source, prefix=shell("ulimit -n 256")) == "[1920.0, 31200.0, 24.0]\n"


TOO_MANY = DEFINE + (
    "try:\n    print(sum(launch(add_up, 30, quiet=True)))\nexcept Exception as error:\n    print(repr(error))\n"
    "print(list(launch(add_up, 2, quiet=True)))"
)


@nightly
def test_too_few_open_files_are_named_and_the_next_launch_works() -> None:
    said = said_by(TOO_MANY, prefix=shell("ulimit -n 48"))
    assert "files" in said.splitlines()[0]
    assert said.splitlines()[-1] == "[1.0, 1.0]"


@nightly
def test_too_few_processes_are_named_and_the_next_launch_works() -> None:
    nobody = as_nobody()
    nobody["prefix"] += ["prlimit", "--nproc=20:20"]
    said = said_by(TOO_MANY, **nobody)
    assert "process" in said or "Resource temporarily unavailable" in said
    assert said.splitlines()[-1] == "[1.0, 1.0]"


@nightly
def test_the_user_need_not_be_root_nor_own_anything() -> None:
    assert sorted(said_by(ADD_UP, **as_nobody()).splitlines()) == RIGHT


# --- how Python was started -----------------------------------------------------------------------------------------


@nightly
@torch_can_be_imported
def test_letters_that_the_terminal_does_not_have_are_no_error() -> None:
    said = said_by(ADD_UP, environment=PLAIN)
    assert RIGHT[0] in said.splitlines()
    assert all(f"rank {rank} | " in said for rank in range(3))


@nightly
@pytest.mark.parametrize(
    ("environment", "options"),
    [
        (
            {
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUNBUFFERED": "1",
                "PYTHONFAULTHANDLER": "1",
                "PYTHONNOUSERSITE": "1",
            },
            ["-X", "dev"],
        ),
        ({}, ["-W", "error", "-B", "-u", "-O"]),
    ],
    ids=["dev", "strict"],
)
def test_python_s_own_switches_change_nothing(environment: Mapping[str, str], options: Sequence[str]) -> None:
    assert sorted(said_by(ADD_UP, environment=environment, options=options).splitlines()) == RIGHT


@nightly
def test_ranks_have_the_hash_seed_of_the_notebook() -> None:
    source = DEFINE + "print(set(launch(lambda rank, size: hash('a'), 2)) == {hash('a')})"
    assert said_by(source, environment={"PYTHONHASHSEED": "5"}) == "True\n"


@nightly
@pytest.mark.parametrize(
    "before",
    [
        "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {2, 10, 14, 15, 17})",
        "os.close(0)\nos.umask(0o777)",
        "import socket; socket.setdefaulttimeout(10)",
    ],
    ids=["signals blocked", "no stdin, closed umask", "socket timeout"],
)
def test_what_the_program_did_before_does_no_harm(before: str) -> None:
    assert sorted(said_by(f"{before}\n{ADD_UP}").splitlines()) == RIGHT


@nightly
def test_a_notebook_with_signals_ignored_still_tells_a_death() -> None:
    source = (
        DEFINE + "try:\n    launch(lambda rank, size: os._exit(3), 2)\nexcept RuntimeError as error:\n    print(error)"
    )
    said = said_by(f"import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n{source}")
    assert said.startswith("both ranks exited with code 3")


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


def slow_torch(folder: Path) -> Mapping[str, str | None]:
    """Surroundings in which torch takes three seconds longer to import than it does anyway."""
    (folder / "sitecustomize.py").write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': time.sleep(3)\n"
        "sys.meta_path.insert(0, Slow())\n"
    )
    return {"PYTHONPATH": os.pathsep.join([os.fspath(folder), os.fspath(PROJECT)])}


WAITING = re.compile(r"the ranks are starting: importing torch … \d+ s")


@nightly
def test_a_terminal_says_what_a_launch_waits_for_and_takes_it_back(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, **slow_torch(tmp_path)}
    program = [sys.executable, "-c", f"import os\n{ADD_UP}"]
    with subprocess.Popen(program, env=environment, stdin=theirs, stdout=theirs, stderr=theirs):  # type: ignore[arg-type]
        os.close(theirs)
        said = b""
        with contextlib.suppress(OSError):  # Linux: the other end is closed
            while data := os.read(ours, 65536):
                said += data
    os.close(ours)
    lines = [line.rpartition("\r\x1b[K")[2] for line in said.decode().replace("\r\n", "\n").strip().split("\n")]
    assert WAITING.search(said.decode())
    assert len(lines) == 4
    assert not any("starting" in line for line in lines)


@nightly
def test_a_notebook_says_what_a_launch_waits_for_and_takes_it_back(tmp_path: Path) -> None:
    with NotebookSession({name: value or "" for name, value in slow_torch(tmp_path).items()}) as session:
        cell = session.run(f"{DEFINE}list(launch(add_up, 2))")
    assert any(WAITING.fullmatch(data.get("text/plain", "")) for _, data in cell.updates)
    assert "starting" not in cell.text


@nightly
def test_a_file_gets_nothing_but_what_the_ranks_print(tmp_path: Path) -> None:
    assert sorted(said_by(ADD_UP, environment=slow_torch(tmp_path)).splitlines()) == RIGHT


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
