"""Ranks that stay between cells: how fast they start, how fast a cell answers, and what works after a failure.

Each tool has its own notebook, and the tools take turns. The time of a cell is from sending it until the kernel is idle
again; afterwards its answer is checked. Linux only, on CPUs, over loopback.
"""

import argparse
import importlib.util
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from textwrap import shorten
from typing import Any, Literal

from .kernel import CellFailed, Kernel
from .measurement import HANG, NOT_INSTALLED, Sample, Series, Target, at_most
from .tables import table, target_table

WORLD_SIZE = 4
EVERYBODY = set(range(WORLD_SIZE))
START_SECONDS = 90.0  # the longest start of a tool,
ANSWER_SECONDS = 10.0  # the longest answer of a cell,
PATIENCE_SECONDS = 10.0  # the time for a cell to fail before the learner presses the stop button,
INTERRUPTED_SECONDS = 3.0  # and the time to end after that
INTERRUPTS = 3
READING_SECONDS = 4.0  # a learner's pause after the import
ENVIRONMENT = {"GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}

_ANSI = re.compile(r"\x1b\[[\d;]*m")
_SHOWN = re.compile(r"\(([0-3]), (-?\d+\.\d+)\)")


@dataclass(frozen=True)
class Tool:
    """`prepare` is a cell before the clock starts, `start` are cells that start ranks, `magic` runs a cell on them."""

    title: str
    needs: str
    magic: str
    prepare: str = ""
    start: Sequence[str] = ()
    join: str = ""  # on each rank, if the tool leaves this to the learner
    replace_kernel: Callable[[Kernel], None] | None = None

    @property
    def is_installed(self) -> bool:
        return importlib.util.find_spec(self.needs) is not None

    @property
    def first_cell(self) -> str:
        lines = ["import torch", "import torch.distributed as dist", *self.join.splitlines()]
        return self.on_ranks("\n".join([*lines, "rank = dist.get_rank()", "kept = 11.0 * rank", "(rank, kept)"]))

    def on_ranks(self, code: str) -> str:
        return f"{self.magic}\n{code}".lstrip()


def become_a_group(kernel: Kernel) -> None:
    """As the server extension of jupyter-distributed does: restart the kernel as the leader of four others."""
    from jupyter_distributed.coordinator import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        KernelLaunchAdapter,
    )

    adapter: Any = KernelLaunchAdapter()
    registry = Path(kernel.folder.name, "registry.json")
    adapter.configure_proxy(kernel.manager, adapter.capture(kernel.manager), WORLD_SIZE, registry)
    kernel.manager.restart_kernel(now=True)
    kernel.family.root = kernel.manager.provisioner.pid  # type: ignore[union-attr]
    kernel.client.wait_for_ready(timeout=START_SECONDS)


OURS = Tool(
    "ours: %%ranks",
    "ddp_lessons",
    f"%%ranks {WORLD_SIZE}",
    "from ddp_lessons import launch\n%load_ext ddp_lessons",  # the import starts the helper process
)
IPYPARALLEL = Tool(
    "ipyparallel: %%px --block",
    "ipyparallel",
    "%%px --block",
    "import os\nimport ipyparallel",
    (
        f"cluster = ipyparallel.Cluster(n={WORLD_SIZE}, profile_dir=os.path.abspath('profile'))\n"
        "view = cluster.start_and_connect_sync(activate=True)[:]\n"
        f"view.scatter('number', range({WORLD_SIZE}), flatten=True, block=True)\n"
        "view.push({'meeting': os.path.abspath('meeting')}, block=True)\n",
    ),
    f"dist.init_process_group('gloo', f'file://{{meeting}}', rank=number, world_size={WORLD_SIZE})",
)
# It starts its workers as "python", so ours must come first on PATH. It reports them as ready after two seconds, but
# messages to a worker that is not ready are lost, which it notices only after 30 s. So ask until all answer. (Never
# call its %dist_shutdown or %dist_reset here: they kill every process of the user with "python" and "worker" in its
# command.)
NBDISTRIBUTED = Tool(
    "nbdistributed: %%distributed",
    "nbdistributed",
    "%%distributed",
    "import os, sys\n"
    "os.environ['PATH'] = os.path.dirname(sys.executable) + os.pathsep + os.environ['PATH']\n"
    "%load_ext nbdistributed",
    (
        f"%dist_init -n {WORLD_SIZE}\n"
        "magics = get_ipython().find_line_magic('dist_init').__self__\n"
        "while True:\n"
        "    try:\n"
        "        magics._comm_manager.send_to_all('get_status', {}, timeout=0.2)\n"
        "        break\n"
        "    except TimeoutError:\n"
        "        pass",
    ),
)
JUPYTER_DISTRIBUTED = Tool(
    "jupyter-distributed: every cell",
    "jupyter_distributed",
    "",
    join="dist.init_process_group('gloo')",
    replace_kernel=become_a_group,
)
TOOLS = (OURS, IPYPARALLEL, NBDISTRIBUTED, JUPYTER_DISTRIBUTED)


@dataclass
class Cell:
    """The output of a cell so far; `seconds` is set when it has ended."""

    message_id: str
    begin: float
    pieces: list[str] = field(default_factory=list)
    seconds: float | None = None

    @property
    def text(self) -> str:
        return _ANSI.sub("", "\n".join(self.pieces))

    @property
    def values(self) -> dict[int, float]:
        """The values by rank: a cell's last line is (rank, value), which each tool prints in its own way."""
        return {int(rank): float(value) for rank, value in _SHOWN.findall(self.text)}


class Notebook:
    """One tool in a real kernel, judged by the output of its cells, as a reader sees it."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool
        self.kernel = Kernel()
        if tool.prepare:
            self.ended(tool.prepare, START_SECONDS)

    def start(self) -> Sample:
        """From sending the first cell until each of four ranks has joined, imported torch and printed its rank."""
        begin = time.perf_counter()
        try:
            if self.tool.replace_kernel:
                self.tool.replace_kernel(self.kernel)
            for code in self.tool.start:
                self.ended(code, START_SECONDS)
            cell = self.ended(self.tool.first_cell, START_SECONDS)
        except (CellFailed, RuntimeError) as trouble:
            return as_sample(trouble)
        seconds = time.perf_counter() - begin
        return judged(cell, seconds, {rank: 11.0 * rank for rank in EVERYBODY})

    def time_sum(self, number: int) -> Sample:
        try:
            cell = self.ended(self.tool.on_ranks(adding(number)), ANSWER_SECONDS)
        except CellFailed as trouble:
            return as_sample(trouble)
        assert cell.seconds is not None
        return judged(cell, cell.seconds, sums(number))

    def time_nothing(self) -> Sample:
        return Sample(self.ended("0", ANSWER_SECONDS).seconds or 0.0)

    def ended(self, code: str, timeout_seconds: float) -> Cell:
        cell = self.send(code)
        if not self.follow(cell, timeout_seconds):
            raise CellFailed(HANG, shorten(cell.text, 160))
        return cell

    def send(self, code: str) -> Cell:
        begin = time.perf_counter()
        return Cell(str(self.kernel.client.execute(code, allow_stdin=False)), begin)

    def follow(self, cell: Cell, timeout_seconds: float) -> bool:
        """Read its output until the kernel is idle again (True) or the time is over."""
        deadline = time.perf_counter() + timeout_seconds
        while cell.seconds is None and time.perf_counter() < deadline:
            try:
                message = self.kernel.client.get_iopub_msg(timeout=min(1.0, timeout_seconds))
            except Empty:
                if not self.kernel.manager.is_alive():
                    raise CellFailed("kernel died") from None
                continue
            if message["parent_header"].get("msg_id") == cell.message_id:
                take(message, cell)
        return cell.seconds is not None

    def interrupt(self, cell: Cell) -> bool:
        """Press the stop button, and again if needed; True when the cell has ended."""
        for _ in range(INTERRUPTS):
            self.kernel.manager.interrupt_kernel()
            if self.follow(cell, INTERRUPTED_SECONDS):
                return True
        return False


def take(message: dict[str, Any], cell: Cell) -> None:
    kind, content = message["msg_type"], message["content"]
    if kind == "status" and content["execution_state"] == "idle":
        cell.seconds = time.perf_counter() - cell.begin
    elif kind == "stream":
        cell.pieces.append(content["text"])
    elif kind == "error":
        cell.pieces.append(f"{content['ename']}: {content['evalue']}")
    elif "data" in content:
        cell.pieces.append(content["data"].get("text/plain", ""))


def adding(number: int) -> str:
    return f"total = torch.tensor([{number}.0 + rank])\ndist.all_reduce(total)\n(rank, total.item())"


def sums(number: int) -> dict[int, float]:
    return dict.fromkeys(EVERYBODY, float(sum(number + rank for rank in EVERYBODY)))


def as_sample(trouble: Exception) -> Sample:
    return trouble.as_sample() if isinstance(trouble, CellFailed) else Sample(trouble="failed", detail=str(trouble))


def judged(cell: Cell, seconds: float, right: dict[int, float]) -> Sample:
    if cell.values == right:
        return Sample(seconds, tuple(right.values()))
    return Sample(trouble="wrong answer" if cell.values else "no answer", detail=shorten(cell.text, 160))


Mistake = Literal["a rank raises", "an interrupt"]
MISTAKES: dict[Mistake, str] = {
    "a rank raises": "if rank == 1:\n    raise ValueError('no such file')\n",
    "an interrupt": "if rank == 1:\n    import time\n    time.sleep(1000)\n",
}
STALE = "total = torch.tensor([666.0])\ndist.all_reduce(total)\n(rank, total.item())"


@dataclass(frozen=True)
class Aftermath:
    """How a cell ended in which rank 1 never called all_reduce, and what happened afterwards, in words."""

    end: str
    next_sum: str = "-"
    variables: str = "-"


def aftermath(notebook: Notebook, mistake: Mistake, patience_seconds: float) -> Aftermath:
    try:
        end = make(notebook, mistake, patience_seconds)
        total = notebook.send(notebook.tool.on_ranks(adding(100)))
        notebook.follow(total, ANSWER_SECONDS)
        if total.seconds is None:
            return Aftermath(end, in_words(total, sums(100)))
        kept = notebook.send(notebook.tool.on_ranks("(rank, kept)"))
        notebook.follow(kept, ANSWER_SECONDS)
    except CellFailed as trouble:
        return Aftermath(trouble.args[0])
    return Aftermath(end, in_words(total, sums(100)), survivors(kept))


def make(notebook: Notebook, mistake: Mistake, patience_seconds: float) -> str:
    """Run the cell as a learner would: wait, and press the stop button if nothing happens."""
    cell = notebook.send(notebook.tool.on_ranks(MISTAKES[mistake] + STALE))
    if notebook.follow(cell, 2.0 if mistake == "an interrupt" else patience_seconds):
        return f"ends after {cell.seconds:.1f} s"
    return "ends when interrupted" if notebook.interrupt(cell) else "hangs, interrupted or not"


def in_words(cell: Cell, right: dict[int, float]) -> str:
    wrong = [f"rank {rank} has {value:.0f}" for rank, value in cell.values.items() if value != right[rank]]
    if wrong:
        return f"wrong: {', '.join(wrong)}, not {right[0]:.0f}"
    if cell.values == right:
        return "right"
    return "hangs" if cell.seconds is None else "no answer"


def survivors(cell: Cell) -> str:
    ranks = [rank for rank, value in cell.values.items() if value == 11.0 * rank]
    if len(ranks) == WORLD_SIZE:
        return "kept"
    return f"kept by {len(ranks)} of {WORLD_SIZE}" if ranks else "lost"


@dataclass
class Found:
    """All measurements of one tool."""

    starts: Series = field(default_factory=Series)
    cells: Series = field(default_factory=Series)
    empty_cells: Series = field(default_factory=Series)  # the time of a cell without ranks
    after: dict[Mistake, Aftermath] = field(default_factory=dict)


Findings = dict[Tool, Found]


def measure(tools: Sequence[Tool], rounds: int, patience_seconds: float) -> Findings:
    """Two worlds of each tool, because a mistake ends one of them."""
    findings = {tool: Found() for tool in tools}
    for mistake in MISTAKES:
        with begun(findings) as notebooks, ThreadPoolExecutor(len(tools)) as pool:
            if mistake == "a rank raises":
                said(f"{rounds} cells of each")
                time_cells(notebooks, findings, rounds)
            said(mistake)
            stories = {one.tool: pool.submit(aftermath, one, mistake, patience_seconds) for one in notebooks}
            for tool, story in stories.items():
                findings[tool].after[mistake] = story.result()
    return findings


@contextmanager
def begun(findings: Findings) -> Iterator[list[Notebook]]:
    """A notebook for each tool, started one after the other; only those that started successfully."""
    with ExitStack() as closing:
        notebooks = []
        for tool in findings:
            if tool.is_installed:
                notebooks.append(Notebook(tool))
                closing.callback(notebooks[-1].kernel.close)
        time.sleep(READING_SECONDS)
        for notebook in notebooks:
            notebook.kernel.family.settle()
            said(f"start of {notebook.tool.title}")
            findings[notebook.tool].starts.samples.append(notebook.start())
        yield [one for one in notebooks if not findings[one.tool].starts.samples[-1].trouble]


def said(what: str) -> None:
    print(what, "...", file=sys.stderr, flush=True)


def time_cells(notebooks: Sequence[Notebook], findings: Findings, rounds: int) -> None:
    """In turns, forwards and backwards, so that the order does not matter; the first round is a warm-up."""
    for number in range(rounds + 1):
        for notebook in notebooks[:: 1 if number % 2 else -1]:
            notebook.kernel.family.settle(limit_seconds=2.0)
            sample = notebook.time_sum(1000 + number)
            if number:
                findings[notebook.tool].cells.samples.append(sample)
            if number and notebook.tool is OURS:
                findings[OURS].empty_cells.samples.append(notebook.time_nothing())


def seconds(series: Series) -> str:
    number = [] if series.median is None else [f"{series.median:.4f}"]
    return ", ".join([*number, *filter(None, [series.trouble])]) or "-"


def spread(series: Series) -> str:
    return "" if series.median is None else f"{min(series.seconds):.4f}-{max(series.seconds):.4f}"


def speed_table(findings: Findings, markdown: bool) -> str:
    rows = [
        (
            tool.title,
            seconds(found.starts) if tool.is_installed else NOT_INSTALLED,
            spread(found.starts),
            seconds(found.cells),
            spread(found.cells),
        )
        for tool, found in findings.items()
    ]
    nothing = findings[OURS].empty_cells
    rows.append(("a cell with nothing for ranks", "", "", seconds(nothing), spread(nothing)))
    header = (f"{WORLD_SIZE} ranks that stay, seconds", "start", "min-max", "a cell with an all_reduce", "min-max")
    return table(header, rows, markdown)


def aftermath_table(findings: Findings, markdown: bool) -> str:
    rows = [
        (f"{mistake}, {tool.title.partition(':')[0]}", after.end, after.next_sum, after.variables)
        for mistake in MISTAKES
        for tool, found in findings.items()
        for after in [found.after.get(mistake, Aftermath("not measured" if tool.is_installed else NOT_INSTALLED))]
    ]
    header = ("rank 1 does not come to an all_reduce", "the cell", "the next all_reduce", "variables")
    return table(header, rows, markdown)


def promises(findings: Findings) -> list[Target]:
    ours = findings[OURS]
    others = [found.cells.median for tool, found in findings.items() if tool is not OURS]
    best = min((median for median in others if median is not None), default=None)
    ratio = None if best is None or ours.cells.median is None else ours.cells.median / best
    unhappy = [after for after in ours.after.values() if (after.next_sum, after.variables) != ("right", "kept")]
    return [
        at_most(f"start of {WORLD_SIZE} ranks that stay", ours.starts.median, 0.15),
        at_most("a cell with an all_reduce", ours.cells.median, 0.010),
        at_most("a cell with an all_reduce / the best peer", ratio, 1 / 4, "x"),
        at_most("failures that cost variables, or a right answer", len(unhappy) if ours.after else None, 0, ""),
    ]


def troubles(findings: Findings) -> list[str]:
    """One line for each kind of trouble."""
    named = [(tool.title, series) for tool, found in findings.items() for series in (found.starts, found.cells)]
    lines = [f"{title}: {series.trouble} {series.detail}".strip() for title, series in named if series.trouble]
    missing = [tool.needs for tool in findings if not tool.is_installed]
    if missing:
        lines.append(f"Not installed: {', '.join(missing)}. See the extra named bench in pyproject.toml.")
    return list(dict.fromkeys(lines))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cells", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of timed cells (20)")
    parser.add_argument(
        "--patience",
        type=float,
        default=PATIENCE_SECONDS,
        metavar="SECONDS",
        help=f"before the first interrupt of a cell that failed on one rank ({PATIENCE_SECONDS:.0f}; "
        "65 shows what comes after nbdistributed gives up by itself)",
    )
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    asked = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    findings = measure(TOOLS, max(asked.rounds, 1), asked.patience)
    targets = promises(findings)
    tables = [
        speed_table(findings, asked.markdown),
        aftermath_table(findings, asked.markdown),
        target_table(targets, asked.markdown),
    ]
    print(*tables, *troubles(findings), sep="\n\n")
    is_broken = bool(findings[OURS].starts.trouble or findings[OURS].cells.trouble)
    return int(is_broken or (asked.strict and not all(target.met for target in targets)))


if __name__ == "__main__":
    sys.exit(main())
