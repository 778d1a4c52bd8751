"""Many learners on one machine: real kernels that run whole lessons at the same time, as fast as a learner can click.

After its lesson, every learner submits a correct answer to each exercise, which must pass even on a slow machine.
"""

import argparse
import os
import re
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from statistics import median
from textwrap import shorten
from typing import Any

import nbformat
import psutil

from ddp_lessons.workshop.seed import Seed
from tools.benchmarks.kernels import GIGABYTE, ROOT, CellFailed, Family, Kernel
from tools.benchmarks.tables import Target, print_table

LEAST_AVAILABLE = GIGABYTE
# records the time of each launch from a cell, but not those of checks
SETUP = """
import time as _time, functools as _functools, ddp_lessons as _ddp_lessons
_seconds, _launch = [], _ddp_lessons.launch
@_functools.wraps(_launch)
def _timed(*args, **options):
    begin = _time.monotonic()
    try:
        return _launch(*args, **options)
    finally:
        _seconds.append(round(_time.monotonic() - begin, 3))
_ddp_lessons.launch = _timed
"""
EXERCISE = re.compile(r"^check\.(\w+)\((\w+)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Step:
    """A cell, and an expression to evaluate after it."""

    what: str
    source: str
    value: str = "None"
    may_raise: bool = False


@dataclass
class Learner:
    """One kernel that runs one lesson."""

    lesson: int
    kernel: Kernel
    steps: list[Step]
    at: int = -1
    sent: str = ""
    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    took: float = 0.0

    @property
    def is_through(self) -> bool:
        return self.at >= len(self.steps)

    def go_on(self) -> None:
        self.at += 1
        if not self.is_through:
            self.sent = self.kernel.send(self.steps[self.at].source, self.steps[self.at].value)

    def look(self) -> None:
        """If the cell is done, send the next one."""
        try:
            reply = self.kernel.reply_to(self.sent, 0)
        except CellFailed as trouble:
            return self.give_up(str(trouble))
        if reply:
            self.note(self.steps[self.at], reply)
            self.go_on()
        return None

    def note(self, step: Step, reply: dict[str, Any]) -> None:
        if reply["status"] != "ok":
            if not step.may_raise:
                self.fail(f"{reply.get('ename')}: {reply.get('evalue')}")
            return
        value = reply["user_expressions"]["value"]
        text = value.get("data", {}).get("text/plain", value.get("evalue", ""))
        if step.value == "_seconds":
            self.seconds = [float(number) for number in re.findall(r"[\d.]+", text)]
        elif step.value != "None" and text != "''":
            self.fail(f"a correct answer was rejected: {text}")

    def give_up(self, why: str) -> None:
        self.fail(why)
        self.at = len(self.steps)

    def fail(self, what: str) -> None:
        self.failures.append(f"lesson {self.lesson}, {self.steps[self.at].what}: {shorten(what, 400)}")


def steps_of(lesson: int) -> list[Step]:
    """The code cells of the lesson, then correct answers to its exercises, then the times."""
    (path,) = (ROOT / "notebooks").glob(f"{lesson:02}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
    steps = [
        Step(f"cell {number}", cell.source, may_raise="raises-exception" in cell.metadata.get("tags", []))
        for number, cell in enumerate(cells)
        if cell.cell_type == "code"
    ]
    exercises = [match[1] for step in steps for match in EXERCISE.finditer(step.source)]
    answers = [step for exercise in exercises for step in right_answer(exercise)]
    return [Step("the beginning", SETUP), *steps, *answers, Step("the end", "", "_seconds")]


def right_answer(exercise: str) -> list[Step]:
    """The solution is the package's function of the same name."""
    for file in sorted((ROOT / "ddp_lessons" / "train").glob("*.py")):
        if re.search(rf"^(def|class) {exercise}\b", file.read_text(), re.MULTILINE):
            source = (
                f"from ddp_lessons import check\nfrom ddp_lessons.train.{file.stem} import {exercise} as _answer\n"
                f"_report = check.{exercise}(_answer)"
            )
            return [Step(f"the answer to {exercise}", source, "'' if _report.passed else _report.text")]
    return []


class Watch:
    """Inside the `with`, record peaks, and stop all kernels if less than 1 GiB of memory is free."""

    def __init__(self) -> None:
        self.families: list[Family] = []
        self.before = self.least = psutil.virtual_memory().available
        self.heaviest, self.most_processes, self.ran_out = 0, 0, False
        self.over = threading.Event()

    def __enter__(self) -> "Watch":
        for look in (self.look, self.weigh):
            threading.Thread(target=look, daemon=True).start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.over.set()

    def look(self) -> None:
        while not self.over.wait(0.05):
            self.least = min(self.least, available := psutil.virtual_memory().available)
            if available < LEAST_AVAILABLE:
                self.ran_out = True
                for family in self.families:
                    family.kill()

    def weigh(self) -> None:
        """Measure memory, but rarely, because reading it from hundreds of processes slows down the kernels."""
        while not self.over.wait(5.0):
            families = list(self.families)
            self.heaviest = max(self.heaviest, sum(family.bytes() for family in families))
            self.most_processes = max(self.most_processes, sum(len(family.members()) for family in families))


def run_lessons(asked: argparse.Namespace, watch: Watch) -> list[Learner]:
    with ExitStack() as closing:
        variables = {"DDP_LESSONS_PROGRESS": "off"}
        if not asked.without_seed:  # otherwise, as set by `python -m ddp_lessons room`
            watch.families.append(seeds := Family())
            os.environ.update(seeds.environment)
            seed = closing.enter_context(Seed())
            seed.wait_until_ready(300)
            closing.callback(seeds.kill)
            variables |= seed.variables
        room = list[Learner]()
        for number in range(asked.kernels):
            lesson = asked.lessons[number % len(asked.lessons)]
            with suppress(CellFailed):
                room.append(Learner(lesson, closing.enter_context(Kernel(variables)), steps_of(lesson)))
                watch.families.append(room[-1].kernel.family)
        begin = time.monotonic()
        for learner in room:
            learner.go_on()
        while (busy := [learner for learner in room if not learner.is_through]) and not watch.ran_out:
            for learner in busy:
                learner.look()
                learner.took = time.monotonic() - begin
                if learner.took > asked.limit:
                    learner.give_up(f"not finished after {asked.limit:g} s")
            time.sleep(0.1)
    return room


def middle_and_worst(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} / {max(seconds):.2f} s (median / worst)" if seconds else "none"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernels", nargs="?", type=int, default=30, help="number of learners (30)")
    parser.add_argument("--lessons", nargs="+", type=int, metavar="N", default=[3, 8], help="lessons, in turn (3 8)")
    parser.add_argument("--limit", type=float, default=3600.0, metavar="SECONDS", help="time limit (3600)")
    parser.add_argument("--without-seed", action="store_true", help="let each kernel import torch itself")


def measure(asked: argparse.Namespace) -> list[Target]:
    with Watch() as watch:
        room = run_lessons(asked, watch)
    failures = [failure for learner in room for failure in learner.failures]
    if watch.ran_out:
        failures.append("Stopped: this machine had less than 1 GiB of memory left. Next: use fewer kernels.")
    rows: list[tuple[str, str]] = []
    for lesson in asked.lessons:
        some = [learner for learner in room if learner.lesson == lesson]
        cells = sum(step.what.startswith("cell") for step in steps_of(lesson))
        launches = [each for learner in some for each in learner.seconds]
        rows += [
            (f"lesson {lesson}: learners, cells", f"{len(some)}, {cells}"),
            (f"lesson {lesson}: time of a launch", middle_and_worst(launches)),
            (f"lesson {lesson}: time of the lesson", middle_and_worst([learner.took for learner in some])),
        ]
    heaviest, peak = watch.heaviest / GIGABYTE, (watch.before - watch.least) / GIGABYTE
    rows += [
        ("failures", str(len(failures))),
        ("total time", f"{max((learner.took for learner in room), default=0):.0f} s"),
        ("peak number of processes", str(watch.most_processes)),
        ("peak of the sum of proportional set sizes", f"{heaviest:.1f} GiB"),
        ("peak increase of the machine's used memory", f"{peak:.1f} GiB"),
    ]
    print(f"{psutil.virtual_memory().total / GIGABYTE:.0f} GiB of memory\n")
    print_table((f"{asked.kernels} kernels", ""), rows)
    for failure, count in Counter(failures).most_common():
        print(f"{count} x {failure}")
    return [
        Target("peak of the sum of proportional set sizes", heaviest or None, 20, "GiB"),
        Target("peak of used memory", peak, 20, "GiB"),
        Target("failures", len(failures), 0, ""),
        Target("learners that did not start", asked.kernels - len(room), 0, ""),
    ]
