"""Check this machine before the workshop: what works, what does not, and which command fixes it.

Each check is one function that returns a Finding. torch is imported only inside the checks that need it, so that the
doctor also works when torch is missing or broken.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from ddp_lessons.own_files import NOTEBOOKS
from ddp_lessons.run.output.cards import Kind
from ddp_lessons.run.output.terminal_text import painted
from ddp_lessons.workshop.remedies import install_the_course, pip, take_both_from_one_index, type_these, version
from ddp_lessons.workshop.start import JUPYTERLAB
from ddp_lessons.workshop.working_copy import LESSONS

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 13)
RANKS = 4

# torchvision contains compiled code for one release and build of torch, which only using it shows.
_USE_THE_PAIR = "import torch, torchvision; torchvision.ops.nms(torch.ones(1, 4), torch.ones(1), 0.5)"

# Measured on Linux, as proportional set sizes: a kernel and its template have torch imported (0.65 GB together); a rank
# is forked from the template and shares nearly all of that.
LEARNER_MEGABYTES = 650 + RANKS * 15
# A later launch takes a tenth of a second, or a few seconds if ranks cannot be forked.
SLOW_LAUNCH_SECONDS = 5.0
# The output of a rank that prints a lot is written to a file there.
TEMPORARY_MEGABYTES = 200

# Where version 2 and version 1 of cgroups say how much memory a container or slice may use, and how much it uses.
_CGROUPS = (
    ("sys/fs/cgroup", "memory.max", "memory.current"),
    ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
_MAKE_ROOM = (
    f"Close other programs, or give this container more memory: a learner needs {LEARNER_MEGABYTES / 1e3:.1f} GB."
)
_SHOW_IT = "If you cannot tell from this line what is wrong, show it to your instructor."


@dataclass(frozen=True)
class Finding:
    """What one check found, and how to fix it if it is not ok."""

    verdict: Literal["ok", "note", "PROBLEM"]
    found: str
    remedy: str = ""


def check_python() -> Finding:
    found = f"{platform.python_version()} for {platform.system()} {platform.machine()}, in {sys.prefix}"
    if sys.version_info < OLDEST_PYTHON:
        return Finding("PROBLEM", found, "The lessons need Python 3.10 or newer: install it from python.org.")
    if sys.version_info[:2] > NEWEST_PYTHON:
        tried = "The lessons are tested with 3.10 to 3.13. If something fails, install one of these from python.org."
        return Finding("note", found, tried)
    return Finding("ok", found)


def check_pair() -> Finding:
    torch, torchvision = version("torch"), version("torchvision")
    remedy = take_both_from_one_index(torch, torchvision)
    if torch is None or torchvision is None:
        return Finding("PROBLEM", f"{'torch' if torch is None else 'torchvision'} is not installed", remedy)

    trial = subprocess.run([sys.executable, "-c", _USE_THE_PAIR], capture_output=True, text=True, timeout=300)
    if trial.returncode == 0:
        return Finding("ok", f"torch {torch} and torchvision {torchvision} match")
    if trial.returncode == -signal.SIGKILL:
        raise MemoryError("out of memory: the system killed the process (SIGKILL) while torch was imported")
    last_words = (trial.stderr.strip().splitlines() or [f"exit status {trial.returncode}"])[-1]
    return Finding("PROBLEM", f"torchvision {torchvision} does not work with torch {torch}: {last_words}", remedy)


def check_gloo() -> Finding:
    importlib.metadata.version("torch")  # raises at once if it is missing
    from ddp_lessons import launch

    launch(_sum_of_ranks, RANKS, backend="gloo", quiet=True)  # the first one waits for torch's import
    results = launch(_sum_of_ranks, RANKS, backend="gloo", quiet=True)
    sums, expected = list(results), sum(range(RANKS))
    if sums != [expected] * RANKS:
        return Finding("PROBLEM", f"{RANKS} ranks computed the sums {sums} instead of {expected} on each", _SHOW_IT)
    took = f"a second launch took {results.seconds:.2f} s"
    found = f"{RANKS} ranks connected over loopback, and their sum is {expected} ({took})"
    if results.seconds > SLOW_LAUNCH_SECONDS:
        return Finding("note", found, "That is slow. Close other programs if this machine is busy.")
    return Finding("ok", found)


def _sum_of_ranks(rank: int, world_size: int) -> int:
    import torch
    import torch.distributed as dist

    tensor = torch.tensor(rank)
    dist.all_reduce(tensor)
    return int(tensor)


def check_cores() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if cores == 1:
        shared = "All lessons work, but more ranks are not faster, because they share the core."
        return Finding("note", "1 core", shared)
    return Finding("ok", f"{cores} cores, shared by the ranks")


def check_memory() -> Finding:
    free = free_memory()
    learners = int(free / 1e6 // LEARNER_MEGABYTES)
    found = f"{free / 1e9:.1f} GB free: enough for {learners} learner{'s' * (learners != 1)} with {RANKS} ranks each"
    return Finding("ok", found) if learners else Finding("PROBLEM", found, _MAKE_ROOM)


def free_memory(root: Path = Path("/")) -> int:
    """Free bytes, within the limits of this machine and of our container or slice. `root`: where to look."""
    import psutil

    return min([psutil.virtual_memory().available, *_left_in_cgroups(root)])


def _left_in_cgroups(root: Path) -> Iterator[int]:
    with contextlib.suppress(OSError):  # not Linux
        paths = [line.split(":", 2)[2] for line in (root / "proc/self/cgroup").read_text().splitlines()]
        for path, (mount, limit, used) in itertools.product(paths, _CGROUPS):
            inner = root / mount / path.lstrip("/")
            for group in (inner, *inner.parents):  # in a container, the path may be the host's, and the mount is ours
                with contextlib.suppress(OSError, ValueError):  # "max", or nothing of this kind
                    most, now = int((group / limit).read_text()), int((group / used).read_text())
                    # what caches files is freed when memory is needed
                    cached = re.search(r"^(?:total_)?inactive_file (\d+)", (group / "memory.stat").read_text(), re.M)
                    yield max(0, most - now + int(cached[1] if cached else 0))


def check_mnist() -> Finding:
    from ddp_lessons.train.digits import digits
    from ddp_lessons.train.mnist import NotMnist, mnist_folder

    try:
        samples = sum(len(digits(train)) for train in (True, False))  # preprocessed now, so that no lesson has to
        return Finding("ok", f"{samples:,} samples in {mnist_folder()}")
    except (NotMnist, OSError) as error:
        what, *remedy = str(error).splitlines()
        return Finding("PROBLEM", what, " ".join(remedy) or "Download the course's data folder again.")


def check_jupyter() -> Finding:
    from jupyter_core.paths import jupyter_runtime_dir

    folder = jupyter_runtime_dir()
    if not _can_write(folder):
        remedy = "Set the environment variable JUPYTER_RUNTIME_DIR to a folder that you can write to."
        return Finding("PROBLEM", f"Jupyter cannot write to {folder}", remedy)
    importlib.import_module("ipywidgets")
    widgets = f"ipywidgets {version('ipywidgets')}"
    if (found := version("jupyterlab")) is None:
        remedy = f"To open the lessons in JupyterLab, install it. {type_these(pip('install', JUPYTERLAB))}"
        return Finding("note", f"{widgets}; JupyterLab is not installed, but other notebook servers work, too", remedy)
    return Finding("ok", f"jupyterlab {found}, {widgets}")


def check_kernel() -> Finding:
    from jupyter_client.kernelspec import KernelSpecManager

    program = Path(KernelSpecManager().get_kernel_spec("python3").argv[0])
    # A bare "python" means the one that runs Jupyter. Do not follow links: those of all environments end at one Python.
    if program.is_absolute() and program.parent != Path(sys.executable).parent:
        remedy = type_these([sys.executable, "-m", "ipykernel", "install", "--sys-prefix"])
        return Finding("PROBLEM", f'the kernel "python3" runs another Python: {program}', remedy)
    if re.match(r"7\.[0-3](\.|$)", found := version("ipykernel") or ""):
        what = f"ipykernel {found} sometimes loses a cell, which then never ends although the kernel is idle"
        remedy = type_these(pip("install", "ipykernel!=7.0.*,!=7.1.*,!=7.2.*,!=7.3.*"))
        return Finding("note", what, f"{remedy}\nUntil then, restart the kernel when a cell never ends.")
    return Finding("ok", 'the kernel "python3" runs this Python')


def check_gpu() -> Finding:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an old driver: reported below
        available = torch.cuda.is_available()
    if available:
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        nccl = torch.distributed.is_nccl_available()
        return Finding("ok", f"{names}, {'with' if nccl else 'without'} NCCL")
    if shutil.which("nvidia-smi") is None:
        return Finding("ok", "none, and none is needed: the lessons run on the CPU with gloo")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if torch.version.cuda is None:
        found = f"torch {torch.__version__} was built without CUDA"
        fix = "install a build of torch with CUDA, with the command that pytorch.org shows for your system."
    elif visible is not None:
        found = f"with CUDA_VISIBLE_DEVICES={visible!r}, torch sees no GPU"
        fix = "unset that variable, or set it to existing GPUs."
    else:
        found = f"torch {torch.__version__} sees no GPU"
        fix = "if `nvidia-smi -L` does not list all GPUs, restart the machine. Otherwise update the NVIDIA driver."
    remedy = f"The lessons run on the CPU. To use the GPU: {fix}"
    return Finding("note", f"this machine has an NVIDIA driver, but {found}", remedy)


def check_temporary_folder() -> Finding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free / 1e6
    found = f"{free / 1e3:.1f} GB free in {folder}"
    if free < TEMPORARY_MEGABYTES:
        remedy = f"Delete files there, or set TMPDIR to a folder with {TEMPORARY_MEGABYTES} MB free."
        return Finding("PROBLEM", found, remedy)
    return Finding("ok", found)


def check_notebooks() -> Finding:
    if not (lessons := list(NOTEBOOKS.glob(LESSONS))):
        return Finding("PROBLEM", f"no lessons in {NOTEBOOKS}", f"Install the course again. {install_the_course()}")
    if not _can_write("."):
        elsewhere = "Change to a folder that you can write to before you open the lessons."
        return Finding("note", f"{Path.cwd()} is not writable", elsewhere)
    return Finding("ok", f"{len(lessons)} lessons in {NOTEBOOKS}")


def _can_write(folder: Path | str) -> bool:
    # Only trying it is reliable: permission bits do not show a full or read-only disk, or root.
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"written by the doctor")
    except OSError:
        return False
    return True


PAIR: Mapping[str, Callable[[], Finding]] = {"torch and torchvision": check_pair}
CHECKS: Mapping[str, Callable[[], Finding]] = {
    "Python": check_python,
    **PAIR,
    "gloo": check_gloo,
    "cores": check_cores,
    "memory": check_memory,
    "MNIST": check_mnist,
    "Jupyter": check_jupyter,
    "kernel": check_kernel,
    "GPU": check_gpu,
    "temporary folder": check_temporary_folder,
    "notebooks": check_notebooks,
}
_KINDS: Mapping[str, Kind] = {"ok": "passed", "note": "open", "PROBLEM": "wrong"}


def report(checks: Mapping[str, Callable[[], Finding]], as_json: bool = False) -> int:
    """Make the checks, print each finding at once, and return the exit status: 1 for any PROBLEM."""
    findings = {}
    for name, check in checks.items():
        findings[name] = finding = _make(check)
        if not as_json:
            print(f"{painted(f'{finding.verdict:<8}', _KINDS[finding.verdict])} {name}: {finding.found}", flush=True)
            for line in finding.remedy.splitlines():
                print(f"{'':<8} {line}", flush=True)
    problems = [name for name, finding in findings.items() if finding.verdict == "PROBLEM"]
    if as_json:
        print(json.dumps([{"check": name, **asdict(finding)} for name, finding in findings.items()], indent=2))
    elif not problems:
        print(f"\n{painted('This machine is ready for the course.', 'passed')}")
    else:
        what = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        first = f"Start with {problems[0]}." if len(problems) > 1 else "The line below that check says what to do."
        print(f"\n{painted(what + ': ' + ', '.join(problems) + '.', 'wrong')} {first}")
    return int(bool(problems))


def _make(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except ModuleNotFoundError as error:
        return Finding("PROBLEM", f"{error.name} is not installed", install_the_course())
    except Exception as error:  # one failing check must not hide the others
        first_line = next(iter(str(error).splitlines()), "")
        remedy = _MAKE_ROOM if "SIGKILL" in first_line or isinstance(error, MemoryError) else _SHOW_IT
        return Finding("PROBLEM", f"{type(error).__name__}: {first_line}", remedy)
