"""The doctor is asked as a learner asks it, on machines where something is not well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from nights import nightly

from ddp_lessons.workshop import doctor
from ddp_lessons.workshop.doctor import CHECKS, free_memory

PROJECT = Path(__file__).parent.parent


def ask(*arguments: str, python: Path | str = sys.executable, **changes: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    changes = {"PYTHONPATH": str(PROJECT)} | changes
    return subprocess.run(
        [python, *arguments], env=environment | changes, cwd=PROJECT, text=True, stdout=-1, stderr=subprocess.STDOUT
    )


def ask_about(*checks: str, **changes: str) -> subprocess.CompletedProcess[str]:
    """Ask for some checks only, because all of them take ten seconds."""
    code = f"from ddp_lessons.workshop.doctor import *; sys.exit(report({{name: CHECKS[name] for name in {checks}}}))"
    return ask("-c", code, **changes)


def package(folder: Path, name: str, version: str, code: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code)
    (folder / f"{name}-{version}.dist-info").mkdir()
    (folder / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")


def broken_pair(folder: Path, torch: str) -> None:
    package(folder, "torch", torch, "")
    package(folder, "torchvision", "0.28.0", "raise RuntimeError('operator torchvision::nms does not exist')")


@nightly
def test_a_machine_that_was_set_up_is_ready() -> None:
    answer = ask("-m", "ddp_lessons", "doctor", "--json")
    findings = json.loads(answer.stdout)
    assert [finding["check"] for finding in findings] == list(CHECKS)
    assert [finding for finding in findings if finding["verdict"] == "PROBLEM"] == []
    assert answer.returncode == 0


@nightly
def test_it_ends_with_a_verdict() -> None:
    assert ask_about("Python", "cores").stdout.endswith("\n\nThis machine is ready for the course.\n")
    one = ask_about("Python", "MNIST", DDP_LESSONS_MNIST="/nowhere").stdout
    assert one.endswith("\n\n1 problem: MNIST. The line below that check says what to do.\n")
    bad = "from ddp_lessons.workshop.doctor import *; report({'one': lambda: [][0], 'two': lambda: 1 / 0})"
    assert ask("-c", bad).stdout.endswith("\n\n2 problems: one, two. Start with one.\n")


def test_only_a_terminal_gets_colors() -> None:
    code = "import sys; sys.stdout.isatty = lambda: True; from ddp_lessons.workshop.doctor import *; "
    code += "report({'Python': CHECKS['Python']})"
    assert "\x1b[32mok      \x1b[0m Python: " in ask("-c", code).stdout
    assert "\x1b" not in ask("-c", code, NO_COLOR="1").stdout
    assert "\x1b" not in ask_about("Python").stdout


def test_where_nothing_is_installed_yet_it_says_what_to_type(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)
    answer = ask("-m", "ddp_lessons", "doctor", python=tmp_path / "bare" / "bin" / "python", PATH="", UV="")
    assert "PROBLEM  torch and torchvision: torch is not installed" in answer.stdout
    assert "-m pip install -r requirements.txt" in answer.stdout
    assert "ok       Python" in answer.stdout
    assert "Traceback" not in answer.stdout
    assert answer.returncode == 1


@pytest.mark.parametrize(("torch", "command"), [(None, "-r"), ("2.13.0+cpu", "--torch-backend cpu")])
def test_where_pip_is_missing_it_names_uv(torch: str | None, command: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True, with_pip=False)  # as uvx and pipx make environments
    python = tmp_path / "bare" / "bin" / "python"
    if torch:
        broken_pair(tmp_path, torch)
    answer = ask("-m", "ddp_lessons", "pair", python=python, PATH="", UV="/a/uv", PYTHONPATH=str(tmp_path))
    assert f"/a/uv pip install --python {python} {command} " in answer.stdout
    assert "-m pip" not in answer.stdout
    assert answer.returncode == 1


@pytest.mark.parametrize(
    ("torch", "command"),
    [("2.13.0+cpu", "-m uv pip install --torch-backend cpu"), ("2.15.0", "-m pip uninstall --yes torch torchvision")],
    ids=["of another index", "of another release"],
)
def test_a_torchvision_that_does_not_fit_is_refused_with_the_command_that_repairs_it(
    torch: str, command: str, tmp_path: Path
) -> None:
    broken_pair(tmp_path, torch)
    answer = ask("-m", "ddp_lessons", "pair", PYTHONPATH=str(tmp_path))
    assert f"torchvision 0.28.0 does not work with torch {torch}: RuntimeError: operator" in answer.stdout
    assert command in answer.stdout
    assert answer.returncode == 1


def test_a_check_that_breaks_does_not_hide_the_others(tmp_path: Path) -> None:
    (tmp_path / "psutil.py").write_text("raise OSError('no such thing as memory')")
    answer = ask_about("memory", "cores", PYTHONPATH=f"{tmp_path}{os.pathsep}{PROJECT}")
    assert "PROBLEM  memory: OSError: no such thing as memory" in answer.stdout
    assert " cores: " in answer.stdout
    assert answer.returncode == 1


@nightly
def test_a_folder_that_does_not_hold_mnist_is_a_problem(tmp_path: Path) -> None:
    raw = tmp_path / "données à moi" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(b"something else")
    answer = ask_about("MNIST", DDP_LESSONS_MNIST=str(raw.parent.parent))
    assert "PROBLEM  MNIST: these files" in answer.stdout
    assert "train-images-idx3-ubyte is damaged, or belongs to another data set" in answer.stdout
    assert "t10k-labels-idx1-ubyte is missing" in answer.stdout
    assert answer.returncode == 1


@pytest.mark.parametrize(
    ("cuda", "visible", "found"),
    [(None, None, "was built without CUDA"), ("13.0", "7", "CUDA_VISIBLE_DEVICES='7'"), ("13.0", None, "sees no GPU")],
)
def test_why_torch_sees_no_gpu_is_told(
    cuda: str | None, visible: str | None, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.version.cuda", cuda)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    finding = doctor.check_gpu()
    assert (finding.verdict, found in finding.found) == ("note", True)
    assert finding.remedy.startswith("The lessons run on the CPU. To use the GPU: ")


@nightly
def test_a_home_that_cannot_be_written_to_is_a_problem_for_jupyter_and_for_nothing_else() -> None:
    answer = ask_about("Jupyter", "gloo", "MNIST", HOME="/dev/null", XDG_DATA_HOME="", DDP_LESSONS_MNIST="")
    assert "PROBLEM  Jupyter: Jupyter cannot write to /dev/null" in answer.stdout
    assert "ok       gloo" in answer.stdout
    assert "ok       MNIST: 70,000 samples in " in answer.stdout


def test_without_jupyterlab_it_says_how_to_get_it_and_that_other_notebooks_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor, "version", lambda package: None if package == "jupyterlab" else "8.1.0")
    finding = doctor.check_jupyter()
    assert finding.verdict == "note"
    assert "JupyterLab is not installed, but other notebook servers work, too" in finding.found
    assert finding.remedy.endswith(f"{sys.executable.removeprefix(f'{PROJECT}/')} -m pip install 'jupyterlab>=4.2,<5'")


def test_a_kernel_of_another_python_is_a_problem(tmp_path: Path) -> None:
    spec = tmp_path / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text('{"argv": ["/somewhere/else/python"], "display_name": "Python 3", "language": "python"}')
    answer = ask_about("kernel", JUPYTER_PATH=str(tmp_path))
    assert 'PROBLEM  kernel: the kernel "python3" runs another Python: /somewhere/else/python' in answer.stdout


@pytest.mark.parametrize(("version", "is_told"), [("6.31.0", False), ("7.3.0", True), ("7.4.0", False)])
def test_an_ipykernel_that_loses_cells_is_told(version: str, is_told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: version)
    finding = doctor.check_kernel()
    assert (finding.verdict == "note", "sometimes loses a cell" in finding.found) == (is_told, is_told)


def test_without_a_command_it_names_the_doctor() -> None:
    answer = ask("-m", "ddp_lessons")
    assert "python -m ddp_lessons doctor" in answer.stdout
    assert answer.returncode == 0


@pytest.mark.parametrize(("python", "verdict"), [((3, 9), "PROBLEM"), ((3, 13), "ok"), ((3, 14), "note")])
def test_a_python_that_was_not_tried_is_noted(
    python: tuple[int, int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.version_info", (*python, 1))
    assert doctor.check_python().verdict == verdict


GB = 10**9
V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"
SURROUNDINGS: dict[str, dict[str, object]] = {
    "a slice above a scope": {
        "proc/self/cgroup": "0::/user.slice/anna.slice/jupyter.scope",
        f"{V2}/user.slice/anna.slice/jupyter.scope/memory.max": "max",
        f"{V2}/user.slice/anna.slice/memory.max": GB,
        f"{V2}/user.slice/anna.slice/memory.current": GB // 4,
        f"{V2}/user.slice/anna.slice/memory.stat": "anon 7",
    },
    "version 1, in a container that is named as outside of it": {
        "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/abc",
        f"{V1}/memory.limit_in_bytes": GB,
        f"{V1}/memory.usage_in_bytes": GB // 4,
        f"{V1}/memory.stat": "rss 7",
    },
    "a container, and files that were read": {
        "proc/self/cgroup": "0::/",
        f"{V2}/memory.max": GB,
        f"{V2}/memory.current": GB,
        f"{V2}/memory.stat": f"anon {GB // 4}\ninactive_file {GB // 4 * 3}",
    },
}


@pytest.mark.parametrize("files", SURROUNDINGS.values(), ids=SURROUNDINGS)
def test_a_limit_of_the_container_or_slice_counts_less_what_is_used(files: dict[str, object], tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{content}\n")
    assert free_memory(tmp_path) == GB - GB // 4


def test_the_doctor_calls_a_python_that_was_killed_short_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_USE_THE_PAIR", f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    with pytest.raises(MemoryError, match="out of memory: the system killed the process"):
        doctor.check_pair()


@pytest.mark.parametrize("words", ["SIGKILL", "MemoryError"])
def test_short_of_memory_it_says_how_much_is_needed(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    def ill() -> doctor.Finding:
        raise MemoryError if words == "MemoryError" else RuntimeError(words)

    assert doctor.report({"gloo": ill}) == 1
    assert "give this container more memory: a learner needs 0.7 GB" in capsys.readouterr().out
