"""A full room: many real kernels that run whole lessons at the same time, as fast as a learner can click.

After its lesson, every learner submits the right answer to each exercise, which must pass even on a slow machine.
"""

import os
import re
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from textwrap import shorten
from typing import Any

import nbformat

from ddp_lessons.workshop.seed import Seed

from .family import GIGABYTE, MARK, Family, proportional_set_size, read
from .kernel import ROOT, CellFailed, Kernel
from .measurement import Target, at_most
from .tables import Row
from .watch import MemoryWatch

BETWEEN_LOOKS = 0.1
BETWEEN_WEIGHINGS = 5.0
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
    """One cell, and its expected result."""

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
        """Read new output; if the cell is done, send the next one."""
        self.kernel.drop_output()
        while self.kernel.client.shell_channel.msg_ready():
            message = self.kernel.client.get_shell_msg(timeout=1)
            if message["parent_header"].get("msg_id") == self.sent:
                self.note(message["content"])
                self.go_on()
                return
        if not self.kernel.manager.is_alive():
            self.give_up("its kernel died")

    def note(self, reply: dict[str, Any]) -> None:
        step = self.steps[self.at]
        if reply["status"] != "ok":
            if not step.may_raise:
                self.failures.append(self.told(f"{reply.get('ename')}: {reply.get('evalue')}"))
        elif step.value != "None":
            self.read(step, reply["user_expressions"]["value"])

    def read(self, step: Step, value: dict[str, Any]) -> None:
        text = value.get("data", {}).get("text/plain", value.get("evalue", ""))
        if step.value == "_seconds":
            self.seconds = [float(number) for number in re.findall(r"[\d.]+", text)]
        elif text != "''":
            self.failures.append(self.told(f"a right answer was refused: {text}"))

    def give_up(self, why: str) -> None:
        self.failures.append(self.told(why))
        self.at = len(self.steps)

    def told(self, what: str) -> str:
        step = self.steps[min(self.at, len(self.steps) - 1)].what
        return f"lesson {self.lesson}, {step}: {shorten(what, 400)}"


@dataclass
class LessonsAtOnce:
    """What thirty learners saw while they ran lessons at the same time, and the load on the machine."""

    learners: int
    lessons: list[int]
    limit_seconds: float
    has_seed: bool = True  # as set by `python -m ddp_lessons room`
    variables: dict[str, str] = field(default_factory=lambda: {"DDP_LESSONS_PROGRESS": "off"})
    seed: Family = field(default_factory=Family)
    room: list[Learner] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    heaviest: int = 0
    most_processes: int = 0
    seconds: float = 0.0

    def run(self, watch: MemoryWatch) -> None:
        over = threading.Event()
        with ExitStack() as closing:
            if self.has_seed:
                self.sow(closing, watch)
            for number in range(self.learners):
                if not watch.ran_out:
                    self.let_in(closing, self.lessons[number % len(self.lessons)], watch)
            closing.callback(over.set)
            threading.Thread(target=self.weigh, args=(over,), daemon=True).start()
            begin = time.monotonic()
            self.go_through(watch, begin)
            self.seconds = time.monotonic() - begin
        self.failures += [failure for learner in self.room for failure in learner.failures]
        if watch.ran_out:
            self.failures.append("Stopped: less than 1 GiB was available on this machine. Try fewer kernels.")

    def sow(self, closing: ExitStack, watch: MemoryWatch) -> None:
        os.environ.update({**self.seed.environment, "PYTHONPATH": str(ROOT)})  # as in the kernels
        seed = closing.enter_context(Seed())
        seed.wait_until_ready(300)
        self.seed.root = seed.process.pid
        watch.families.append(self.seed)
        closing.callback(self.seed.kill)
        self.variables |= seed.variables

    def let_in(self, closing: ExitStack, lesson: int, watch: MemoryWatch) -> None:
        try:
            kernel = closing.enter_context(Kernel(self.variables))
        except CellFailed as trouble:
            self.failures.append(": ".join(trouble.args))
            return
        watch.families.append(kernel.family)
        self.room.append(Learner(lesson, kernel, steps_of(lesson)))

    def go_through(self, watch: MemoryWatch, begin: float) -> None:
        for learner in self.room:
            learner.go_on()
        while (busy := [learner for learner in self.room if not learner.is_through]) and not watch.ran_out:
            for learner in busy:
                learner.look()
                learner.took = time.monotonic() - begin
                if learner.took > self.limit_seconds:
                    learner.give_up(f"not done after {self.limit_seconds:g} s")
            time.sleep(BETWEEN_LOOKS)

    def weigh(self, over: threading.Event) -> None:
        """Measure rarely, because reading the memory of hundreds of processes slows down the kernels."""
        families = [self.seed, *(learner.kernel.family for learner in self.room)]
        marks = {f"{MARK}={family.mark}" for family in families}
        while not over.wait(BETWEEN_WEIGHINGS):
            ours = [
                process
                for process in everybody()
                if process != os.getpid() and marks & set(read(process, "environ").split("\0"))
            ]
            self.heaviest = max(self.heaviest, sum(map(proportional_set_size, ours)))
            self.most_processes = max(self.most_processes, len(ours))

    def rows(self, watch: MemoryWatch) -> list[Row]:
        rows: list[Row] = []
        for lesson in self.lessons:
            through = [learner for learner in self.room if learner.lesson == lesson]
            seconds = [each for learner in through for each in learner.seconds]
            took = [learner.took for learner in through]
            cells = len([step for step in steps_of(lesson) if step.what.startswith("cell")])
            rows += [
                (f"lesson {lesson}: learners, cells of each", f"{len(through)}, {cells}"),
                (f"lesson {lesson}: a launch", middle_and_worst(seconds)),
                (f"lesson {lesson}: the whole", middle_and_worst(took)),
            ]
        return [
            *rows,
            ("failures", str(len(self.failures))),
            ("all done after", f"{self.seconds:.0f} s"),
            ("processes at most", str(self.most_processes)),
            ("peak of the sum of proportional set sizes", f"{self.heaviest / GIGABYTE:.1f} GiB"),
            ("peak of the machine's used memory, above before", f"{watch.peak / GIGABYTE:.1f} GiB"),
        ]

    def promises(self, watch: MemoryWatch) -> list[Target]:
        heaviest = self.heaviest / GIGABYTE if self.heaviest else None
        return [
            at_most("peak of the sum of proportional set sizes", heaviest, 20, "GiB"),
            at_most("peak of used memory", watch.peak / GIGABYTE, 20, "GiB"),
            at_most("failures", len(self.failures), 0, ""),
            at_most("learners that did not come", self.learners - len(self.room), 0, ""),
        ]

    def told_failures(self) -> list[str]:
        return [f"{count} x {failure}" for failure, count in Counter(self.failures).most_common()]


def steps_of(lesson: int) -> list[Step]:
    """Each code cell of the lesson, then the right answers to its exercises, then the times."""
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


def everybody() -> list[int]:
    with suppress(OSError):
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return []


def middle_and_worst(seconds: list[float]) -> str:
    return f"{median(seconds):.2f} / {max(seconds):.2f} s (median / worst)" if seconds else "none"
