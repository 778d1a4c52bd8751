"""Time from a cell to its answer, compared with other tools; a notebook's first minute; the memory of idle ranks."""

import argparse
import ast
import importlib.util
import inspect
import json
import random
import select
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from statistics import linear_regression, median, quantiles

from tools.benchmarks import peers
from tools.benchmarks.kernels import ROOT, CellFailed, Family, Kernel
from tools.benchmarks.tables import Target, print_table

WORLD_SIZES = (2, 4)
LARGER = max(WORLD_SIZES)
MANY = 64
TIMEOUT_SECONDS = 90.0
READING_SECONDS = 5.0
IMPORT_OURS = "from ddp_lessons import launch"
# as a learner types it, with a function of the notebook
CELL = (
    f"{IMPORT_OURS}\nimport time\nimport torch\nimport torch.distributed as dist\n\n{inspect.getsource(peers.add_up)}"
)
STANDING = "get_ipython().run_cell_magic('ranks', '', 'dist.all_reduce(x)')"
FIRST_STANDING = (
    f"%load_ext ddp_lessons\nimport time\nget_ipython().run_cell_magic('ranks', '{LARGER}', 'x = torch.ones(1)')"
)
IDLE_OURS = "from ddp_lessons import Workers\nworkers = Workers({0}).__enter__()\ngot = list(workers.run(add_up))"
IDLE_SPAWN = """
import tempfile, time
from torch.multiprocessing.spawn import spawn
from tools.benchmarks.peers import free_port, join_add_and_sleep, written
folder = tempfile.mkdtemp()
spawn(join_add_and_sleep, ({0}, folder, free_port()), {0}, join=False)
got = None
while not got:
    time.sleep(0.2)
    try:
        got = written(folder, {0})
    except (FileNotFoundError, ValueError):
        pass
"""


@dataclass
class Times:
    """The seconds of calls with correct answers, and what happened in the others."""

    seconds: list[float] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    def note(self, measure: Callable[[], float]) -> bool:
        try:
            self.seconds.append(measure())
        except CellFailed as trouble:
            self.troubles.append(str(trouble))
            return False
        return True

    @property
    def median(self) -> float | None:
        return median(self.seconds) if self.seconds else None

    def words(self) -> str:
        known = [] if self.median is None else [f"{self.median:.3f}"]
        failed = [f"{len(self.troubles)} x {self.troubles[0]}"] if self.troubles else []
        return ", ".join(known + failed) or "-"

    def spread(self) -> str:
        return f"{min(self.seconds):.3f}-{max(self.seconds):.3f}" if self.seconds else ""


def checked(seconds: float, answers: list[float], world_size: int) -> float:
    if answers != [world_size * (world_size - 1) / 2] * world_size:
        raise CellFailed(f"wrong answer: {answers}")
    return seconds


def time_call(kernel: Kernel, call: str, world_size: int, before: str = "") -> float:
    """Time a call inside the kernel."""
    cell = f"{before}\nimport time\nbegin = time.perf_counter()\ngot = list({call.format(world_size)})\n"
    seconds, got = kernel.run(f"{cell}said = (time.perf_counter() - begin, got)", "said", TIMEOUT_SECONDS)
    return checked(seconds, got, world_size)


class Floor:
    """The process of `python -m tools.benchmarks.peers`, which answers as a kernel's cell does."""

    def __init__(self) -> None:
        self.family = Family()
        variables = {**self.family.environment, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tools.benchmarks.peers"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, env=variables, cwd=ROOT, stdin=pipe, stdout=pipe, bufsize=0)

    def start(self, world_size: int) -> float:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{world_size}\n".encode())
        if not select.select([self.process.stdout], [], [], TIMEOUT_SECONDS)[0]:
            raise CellFailed("hang")
        seconds, answers = json.loads(self.process.stdout.readline())
        return checked(seconds, answers, world_size)

    def end(self) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"\n")

    def close(self) -> None:
        self.family.kill()
        self.process.wait()


@dataclass(frozen=True)
class Tool:
    """One row of the table: a call in a kernel of its own, so that no tool has another one's imports."""

    title: str
    call: str  # in which {0} is the number of ranks
    first_cell: str = ""
    needs: str = "torch"
    is_slow: bool = False  # takes part only in a few rounds
    in_a_row: bool = False  # without the pause in which a tool may prepare, as while a learner reads

    @property
    def is_floor(self) -> bool:
        return not self.call

    @property
    def is_ours(self) -> bool:
        return "launch(add_up" in self.call


def peer(title: str, function: Callable[[int], list[float]], needs: str = "torch", is_slow: bool = True) -> Tool:
    name = function.__name__
    return Tool(title, f"{name}({{0}})", f"from tools.benchmarks.peers import {name}", needs, is_slow)


FLOOR = Tool("floor: bare fork, gloo, one all_reduce", "")
OURS = Tool("ours: launch", "launch(add_up, {0})", CELL)
MP_SPAWN = peer("mp.spawn of a module's function", peers.mp_spawn)
TOOLS = (
    FLOOR,
    OURS,
    Tool("ours: launch, right after another", "launch(add_up, {0})", CELL, in_a_row=True),
    Tool('ours: launch, start_method="spawn"', 'launch(add_up, {0}, start_method="spawn")', CELL, is_slow=True),
    peer("plain fork from the kernel", peers.plain_fork, is_slow=False),
    peer("accelerate notebook_launcher", peers.notebook_launcher, "accelerate", is_slow=False),
    MP_SPAWN,
    peer("torchrun --standalone of a script", peers.torchrun),
    peer("torchrunx", peers.torchrunx, "torchrunx"),
)


class Runner:
    """One tool with one world size."""

    def __init__(self, tool: Tool, world_size: int) -> None:
        self.tool, self.world_size = tool, world_size
        self.first, self.later = Times(), Times()
        self.place: Kernel | Floor
        self.open()
        self.call(self.first)

    def open(self) -> None:
        if self.tool.is_floor:
            self.place = Floor()
        else:
            self.place = Kernel()
            self.place.run(self.tool.first_cell)
        self.place.family.settle()

    def call(self, times: Times) -> None:
        """Make one call, and wait until its after-effects are over. After a failure, the tool gets a new kernel."""
        fine = times.note(self.seconds)
        self.place.family.settle()
        if not fine:
            self.place.close()
            self.open()

    def seconds(self) -> float:
        if isinstance(self.place, Floor):
            seconds = self.place.start(self.world_size)
            self.place.end()
            return seconds
        before = f"list({self.tool.call.format(self.world_size)})" if self.tool.in_a_row else ""
        return time_call(self.place, self.tool.call, self.world_size, before)


def contest(world_size: int, rounds: int, slow_rounds: int) -> dict[Tool, Runner]:
    """Run the tools in turns, so that changes of the machine affect all of them equally."""
    installed = [tool for tool in TOOLS if importlib.util.find_spec(tool.needs)]
    runners: dict[Tool, Runner] = {}
    try:
        for tool in installed:
            runners[tool] = Runner(tool, world_size)
        dice = random.Random(0)  # each round has a different order, the same in every run
        for number in range(rounds):
            turn = [runner for runner in runners.values() if number < slow_rounds or not runner.tool.is_slow]
            for runner in dice.sample(turn, len(turn)):
                if len(runner.later.troubles) < 2:
                    runner.call(runner.later)
    finally:
        for runner in runners.values():
            runner.place.close()
    return runners


def print_contest(found: dict[int, dict[Tool, Runner]]) -> list[float | None]:
    """Print our times, and return them relative to the floor, the best peer and mp.spawn, with more ranks."""
    larger = {tool: runner.later for tool, runner in found[LARGER].items()}
    known = [times.median for tool, times in larger.items() if not tool.is_ours and not tool.is_floor]
    best = min((seconds for seconds in known if seconds is not None), default=None)
    references = [larger[FLOOR].median, best, larger[MP_SPAWN].median]
    rows = []
    for tool, later in larger.items():
        row = [tool.title]
        for runners in found.values():
            row += ["" if tool.in_a_row else runners[tool].first.words(), runners[tool].later.words()]
        shares = [ratio(later.median, reference) for reference in references]
        numbers = ["" if share is None else f"{share:.3g}" for share in shares]
        rows.append([*row, later.spread(), *numbers, str(len(later.seconds))])
    header = ["cell to answer, seconds"]
    for world_size in found:
        header += [f"{world_size} ranks, first", "later"]
    print_table([*header, "min-max", "/ floor", "/ best peer", "/ mp.spawn", "launches"], rows)
    if missing := [tool.title for tool in TOOLS if tool not in larger]:
        print(f"Not installed: {', '.join(missing)}. Run pip install -e .[bench]\n")
    return [ratio(larger[OURS].median, reference) for reference in references]


def ratio(seconds: float | None, reference: float | None) -> float | None:
    return None if seconds is None or reference is None else seconds / reference


def time_import(statement: str) -> float:
    """Time an import in a new process, without Python's own startup and exit."""
    program = f"import time; begin = time.perf_counter(); {statement}; print(time.perf_counter() - begin)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise CellFailed(done.stderr)
    return float(ast.literal_eval(done.stdout))


def after(first_cell: str, call: str, world_size: int = LARGER, reading_seconds: float = 0.0) -> Generator[float]:
    """Repeat the same call in a new kernel, with pauses."""
    with Kernel() as kernel:
        kernel.run(first_cell)
        time.sleep(reading_seconds)
        while True:
            yield time_call(kernel, call, world_size)
            kernel.family.settle()


def time_first_cell(before: str) -> float:
    with Kernel() as kernel:
        kernel.run(before)
        cell = f"import time\nbegin = time.perf_counter()\n{CELL}\nalone = time.perf_counter()"
        cell += f"\ngot = list(launch(add_up, {LARGER}))\nend = time.perf_counter()"
        begin, alone, end, got = kernel.run(cell, "(begin, alone, end, got)", TIMEOUT_SECONDS)
    return checked(end - (alone if before else begin), got, LARGER)


def beginnings(times: int) -> dict[str, Times]:
    """Measure how a notebook begins, each time in a new process or kernel."""
    found: dict[str, Times] = {}

    def note(title: str, measure: Callable[[], float]) -> None:
        found.setdefault(title, Times()).note(measure)

    for _ in range(times):
        note("import torch, new process", lambda: time_import("import torch"))
        note(f"{IMPORT_OURS}, new process", lambda: time_import(IMPORT_OURS))
        note(f"a whole first cell: both imports and a launch of {LARGER}", lambda: time_first_cell(""))
        note(f"first launch of {LARGER}, right after the import", lambda: time_first_cell("import torch"))
        launches = after(CELL, OURS.call, reading_seconds=READING_SECONDS)
        note(f"first launch of {LARGER}, after 5 s of reading", launches.__next__)
        for _ in range(6):
            note(f"later launch of {LARGER} in the same kernel", launches.__next__)
        launches.close()
        many = after(CELL, OURS.call, MANY, READING_SECONDS)
        for _ in range(2):
            note(f"launch of {MANY}", many.__next__)
        many.close()
        with Kernel() as kernel:
            kernel.run(FIRST_STANDING)
            timed = f"begin = time.perf_counter()\n{STANDING}\nsaid = time.perf_counter() - begin"
            for _ in range(10):
                note(f"a cell of {LARGER} standing ranks with an all_reduce", lambda: float(kernel.run(timed, "said")))  # noqa: B023
    rows = [(title, one.words(), one.spread(), str(len(one.seconds))) for title, one in found.items()]
    print_table(("the start of a notebook, seconds", "median", "min-max", "times"), rows)
    return found


def kernel_with_idle(first_cell: str, idle: str, count: int) -> int:
    with Kernel() as kernel:
        kernel.run(first_cell)
        checked(0.0, kernel.run(idle.format(count), "got", TIMEOUT_SECONDS), count)
        kernel.family.settle()
        return kernel.family.bytes()


def floor_with_idle(count: int) -> int:
    floor = Floor()
    try:
        floor.start(count)
        floor.family.settle()
        return floor.family.bytes()
    finally:
        floor.close()


def idle_megabytes() -> float:
    """Print the memory of idle ranks, and return that of each additional rank of ours: the slope of a fitted line."""
    ways: dict[str, tuple[tuple[int, ...], Callable[[int], int]]] = {
        "ours: Workers": ((1, 2, 4, 8), lambda count: kernel_with_idle(CELL, IDLE_OURS, count)),
        "mp.spawn": ((1, 2, 4), lambda count: kernel_with_idle("", IDLE_SPAWN, count)),
        "floor: bare fork": ((1, 2, 4, 8), floor_with_idle),
    }
    rows, slopes = [], []
    for title, (counts, weigh) in ways.items():
        megabytes = {count: weigh(count) / 1024**2 for count in counts}
        slopes.append(linear_regression(list(megabytes), list(megabytes.values())).slope)
        cells = [f"{megabytes[count]:.0f}" if count in megabytes else "" for count in (1, 2, 4, 8)]
        rows.append([title, *cells, f"{slopes[-1]:.1f}"])
    print_table(("kernel and all its processes, MB", *(f"{n} idle" for n in (1, 2, 4, 8)), "each added rank"), rows)
    return slopes[0]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="only a few repetitions, for a quick test")


def measure(asked: argparse.Namespace) -> list[Target]:
    rounds, slow_rounds, fresh_starts = (4, 1, 1) if asked.quick else (20, 2, 3)
    found = {}
    for world_size in WORLD_SIZES:
        print(f"launches of {world_size} ranks, which takes some minutes...", file=sys.stderr, flush=True)
        found[world_size] = contest(world_size, rounds, slow_rounds)
    floor, best, spawn = print_contest(found)
    import_torch, import_ours, _, at_once, reading, later, many, standing = beginnings(fresh_starts).values()
    further = idle_megabytes()
    # the upper quartile minus the median: targets can't be checked more precisely
    noise = quantiles(later.seconds, n=4)[-1] / median(later.seconds) if len(later.seconds) > 1 else None
    allowed = None if import_torch.median is None else import_torch.median + 0.3
    return [
        Target(f"launch of {LARGER}, second and later / the floor", floor, 1.1, "x"),
        Target(f"launch of {LARGER}, second and later / the best peer", best, 1 / 2, "x"),
        Target(f"launch of {LARGER}, second and later / mp.spawn", spawn, 1 / 50, "x"),
        Target(IMPORT_OURS, import_ours.median, 0.3),
        Target("first launch right after it: import torch + 0.3 s", at_once.median, allowed),
        Target("first launch after 5 s of reading / a later one", ratio(reading.median, later.median), noise, "x"),
        Target("a cell of standing ranks with an all_reduce", standing.median, 0.012),
        Target(f"launch of {MANY}", many.median, 2.5),
        Target("each added idle rank", further, 7, "MB"),
    ]
