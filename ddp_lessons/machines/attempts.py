"""The output of each node, with times and exit statuses: plain data that can be stored and drawn."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

_COMPLAINT = re.compile(r"(\[rank\d+\]: )?[\w.]*(Error|Timeout|Exception): \S")  # the last line of a Python traceback


class Said(NamedTuple):
    """One line of output, its node, and the seconds since the start."""

    machine: int
    seconds: float
    line: str


@dataclass(frozen=True, repr=False)
class Attempt:
    """One command on all nodes, or one job, from start to end. A notebook displays it as a log.

    `statuses` has an exit status for each node, or None if it was stopped by the timeout.
    """

    statuses: tuple[int | None, ...]
    said: tuple[Said, ...]
    seconds: float
    recorded: str = ""  # the system of the recording; "" if it ran live
    happened: tuple[Said, ...] = ()  # done to a node, such as cutting its link; not its output

    @property
    def ended_well(self) -> bool:
        return all(status == 0 for status in self.statuses)

    def lines(self, machine: int | None = None) -> list[str]:
        """The output of this node, or of all nodes, in order of time."""
        return [said.line for said in self.said if machine in (None, said.machine)]

    def has(self, words: str, machine: int | None = None) -> bool:
        return any(words in line for line in self.lines(machine))

    def complaint(self, machine: int) -> Said | None:
        """The first line of this node that names an error: the exception without its traceback."""
        mine = (said for said in self.said if said.machine == machine)
        return next((said for said in mine if _COMPLAINT.match(said.line)), None)

    def __repr__(self) -> str:
        told = sorted(
            [*((said, "|") for said in self.said), *((one, "*") for one in self.happened)],
            key=lambda told: told[0].seconds,
        )
        rows = [f"{said.seconds:6.1f} s  machine {said.machine} {mark} {said.line}" for said, mark in told]
        ends = [f"machine {number}: {_ending(status)}" for number, status in enumerate(self.statuses)]
        return "\n".join([*rows, *ends, *([f"recorded: {self.recorded}"] if self.recorded else [])])

    def as_plain(self) -> dict[str, Any]:
        def plain(said: Sequence[Said]) -> list[list[Any]]:
            return [[machine, round(seconds, 2), line] for machine, seconds, line in said]

        return vars(self) | {
            "said": plain(self.said),
            "happened": plain(self.happened),
            "seconds": round(self.seconds, 2),
        }

    @classmethod
    def from_plain(cls, told: Mapping[str, Any]) -> Attempt:
        said, happened = (tuple(Said(*one) for one in told[name]) for name in ("said", "happened"))
        return cls(tuple(told["statuses"]), said, told["seconds"], told["recorded"], happened)


def _ending(status: int | None) -> str:
    return "stopped at the time limit" if status is None else f"ended with status {status}"
