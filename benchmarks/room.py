"""Thirty learners on one machine: a kernel each, all launching at the same moment, then four idle ranks each.

With `--lessons 3 8` they run these lessons instead, all at once: see `lessons_at_once`.
"""

import argparse
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from .family import GIGABYTE, total_memory
from .kernel import CellFailed, Kernel, peer_cell
from .lessons_at_once import LessonsAtOnce
from .measurement import Target, at_most
from .tables import table, target_table
from .watch import MemoryWatch

WORLD_SIZE = 4
TIMEOUT_SECONDS = 300.0
RIGHT = [WORLD_SIZE * (WORLD_SIZE - 1) / 2] * WORLD_SIZE

LAUNCH = f"""
import time
begin = time.perf_counter()
got = answers({WORLD_SIZE})
said = (time.perf_counter() - begin, got)
"""
KEEP = f"""
from ddp_lessons import Workers
begin = time.perf_counter()
workers = Workers({WORLD_SIZE})
got = list(workers.__enter__().run(add_up))
said = (time.perf_counter() - begin, got)
"""


@dataclass
class Room:
    """What the learners saw, and the load on the machine."""

    learners: int
    launch_seconds: list[float] = field(default_factory=list)
    keep_seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    idle_gigabytes: float | None = None
    processes: int = 0
    left_over: int = 0

    def run(self, watch: MemoryWatch) -> None:
        """Start all kernels, let all launch, let all keep their ranks, measure, and kill them."""
        with ExitStack() as closing:
            kernels: list[Kernel] = []
            for _ in range(self.learners):
                if not watch.ran_out:
                    self.let_in(closing, kernels, watch)
            if not watch.ran_out:
                self.launch_seconds = self.all_at_once(kernels, LAUNCH)
                self.keep_seconds = self.all_at_once(kernels, KEEP)
            self.weigh(kernels)
            self.send_home(kernels)
        if watch.ran_out:
            self.failures.append("Stopped: less than 1 GiB was available on this machine. Try fewer kernels.")
            self.idle_gigabytes = None

    def let_in(self, closing: ExitStack, kernels: list[Kernel], watch: MemoryWatch) -> None:
        """One more learner runs the first cell; the next one starts when the machine is idle."""
        try:
            kernels.append(closing.enter_context(Kernel()))
            watch.families.append(kernels[-1].family)
            kernels[-1].run(peer_cell("ours"), timeout_seconds=TIMEOUT_SECONDS)
            kernels[-1].family.settle()
        except CellFailed as trouble:
            self.failures.append(": ".join(trouble.args))

    def all_at_once(self, kernels: list[Kernel], cell: str) -> list[float]:
        """Send the cell to all before waiting for any; return the seconds of those that were right."""
        sent = [(kernel, kernel.send(cell, "said")) for kernel in kernels]
        right = []
        for kernel, message_id in sent:
            try:
                seconds, answers = kernel.receive(message_id, TIMEOUT_SECONDS)
            except CellFailed as trouble:
                self.failures.append(": ".join(trouble.args))
                continue
            if answers == RIGHT:
                right.append(seconds)
            else:
                self.failures.append(f"wrong answer: {answers}")
        return right

    def weigh(self, kernels: list[Kernel]) -> None:
        for kernel in kernels:
            kernel.family.settle()
        self.processes = sum(len(kernel.family.members()) for kernel in kernels)
        self.idle_gigabytes = sum(kernel.family.megabytes() for kernel in kernels) / 1024

    def send_home(self, kernels: list[Kernel]) -> None:
        """SIGKILL every kernel, and count the processes that are left two seconds later."""
        for kernel in kernels:
            kernel.kill()
        time.sleep(2)
        self.left_over = sum(len(kernel.family.living()) for kernel in kernels)


def room_table(room: Room, watch: MemoryWatch, markdown: bool) -> str:
    rows = [
        (f"launch of {WORLD_SIZE} ranks, all at once", three(room.launch_seconds)),
        (f"Workers({WORLD_SIZE}) and a first run, all at once", three(room.keep_seconds)),
        ("failures", str(len(room.failures))),
        ("idle: processes", str(room.processes)),
        ("idle: sum of proportional set sizes", gigabytes(room.idle_gigabytes)),
        ("peak of the machine's used memory, above before", f"{watch.peak / GIGABYTE:.1f} GiB"),
        ("processes left 2 s after SIGKILL of all kernels", str(room.left_over)),
    ]
    return table((f"{room.learners} kernels, {room.learners * WORLD_SIZE} ranks", ""), rows, markdown)


def three(seconds: list[float]) -> str:
    if not seconds:
        return "none"
    return f"{min(seconds):.2f} / {median(seconds):.2f} / {max(seconds):.2f} s (min / median / max)"


def gigabytes(amount: float | None) -> str:
    return "not measured" if amount is None else f"{amount:.1f} GiB"


def promises(room: Room, watch: MemoryWatch) -> list[Target]:
    return [
        at_most("sum of proportional set sizes, idle", room.idle_gigabytes, 24, "GiB"),
        at_most("peak of used memory", watch.peak / GIGABYTE, 24, "GiB"),
        at_most("failures", len(room.failures), 0, ""),
        at_most("processes left", room.left_over, 0, ""),
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.room", description=__doc__)
    parser.add_argument("kernels", nargs="?", type=int, default=30, help="number of learners (30)")
    parser.add_argument(
        "--lessons",
        nargs="+",
        type=int,
        metavar="N",
        help="run whole lessons, assigned in turn: of 30 kernels, 15 run lesson 3 and 13 run lesson 8",
    )
    parser.add_argument("--limit", type=float, default=3600.0, metavar="SECONDS", help="for all lessons (3600)")
    parser.add_argument("--without-seed", action="store_true", help="let each kernel import torch for its template")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that kernels are killed
    return lessons(asked) if asked.lessons else launches(asked)


def lessons(asked: argparse.Namespace) -> int:
    room = LessonsAtOnce(asked.kernels, asked.lessons, asked.limit, not asked.without_seed)
    with MemoryWatch() as watch:
        room.run(watch)
    targets = room.promises(watch)
    print(f"{os.cpu_count()} cores, {total_memory() / GIGABYTE:.0f} GiB of memory\n")
    print(table((f"{asked.kernels} kernels", ""), room.rows(watch), asked.markdown), end="\n\n")
    print(target_table(targets, asked.markdown), *room.told_failures(), sep="\n")
    return int(any(target.met is not True for target in targets))


def launches(asked: argparse.Namespace) -> int:
    room = Room(asked.kernels)
    with MemoryWatch() as watch:
        room.run(watch)
    targets = promises(room, watch)
    print(f"{os.cpu_count()} cores, {total_memory() / GIGABYTE:.0f} GiB of memory\n")
    print(room_table(room, watch, asked.markdown), target_table(targets, asked.markdown), sep="\n\n")
    print(*sorted(set(room.failures)), sep="\n")
    unmet = [target for target in targets if not target.met]
    return int(bool(room.failures) or (asked.strict and bool(unmet)))


if __name__ == "__main__":
    sys.exit(main())
