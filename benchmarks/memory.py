"""The memory of idle ranks: the sum of proportional set sizes over a kernel and all processes that it started."""

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import linear_regression

from .family import Family
from .kernel import CellFailed, Kernel, peer_cell
from .measurement import HANG
from .tools import FloorProcess

TIMEOUT_SECONDS = 90.0


@dataclass
class IdleRanks:
    """Megabytes of the whole family, by the number of idle ranks."""

    title: str
    megabytes: dict[int, float] = field(default_factory=dict)
    trouble: str = ""

    @property
    def per_further_rank(self) -> float | None:
        """The slope of a line through all points."""
        if self.trouble or len(self.megabytes) < 2:
            return None
        return linear_regression(list(self.megabytes), list(self.megabytes.values())).slope


def measure_idle_ranks() -> list[IdleRanks]:
    return [
        weigh("ours: Workers", (1, 2, 4, 8), lambda found: weigh_in_kernel(found, "idle_ours")),
        weigh("mp.spawn", (1, 2, 4), lambda found: weigh_in_kernel(found, "idle_mp_spawn")),
        weigh("floor: bare fork", (1, 2, 4, 8), weigh_floor),
    ]


def weigh(title: str, counts: tuple[int, ...], method: Callable[[IdleRanks], None]) -> IdleRanks:
    found = IdleRanks(title, dict.fromkeys(counts, 0.0))
    try:
        method(found)
    except CellFailed as trouble:
        found.trouble = ": ".join(trouble.args)
    return found


def weigh_in_kernel(found: IdleRanks, cell: str) -> None:
    with Kernel() as kernel:
        kernel.run(peer_cell(cell), timeout_seconds=TIMEOUT_SECONDS)
        for count in found.megabytes:
            answers = kernel.run(f"got = hold({count})", "got", TIMEOUT_SECONDS)
            found.megabytes[count] = settled_weight(kernel.family)
            kernel.run("release()", timeout_seconds=TIMEOUT_SECONDS)
            check(answers, count)


def weigh_floor(found: IdleRanks) -> None:
    process = FloorProcess()
    try:
        for count in found.megabytes:
            process.say(f"hold {count}")
            reply = process.reply(TIMEOUT_SECONDS)
            found.megabytes[count] = settled_weight(process.family)
            process.say("release 0")
            if reply is None or process.reply(TIMEOUT_SECONDS) is None:
                raise CellFailed(HANG)
            check(reply[1], count)
    finally:
        process.close()


def settled_weight(family: Family) -> float:
    family.settle()
    return family.megabytes()


def check(answers: list[float], count: int) -> None:
    if answers != [count * (count - 1) / 2] * count:
        raise CellFailed("wrong answer", str(answers))
