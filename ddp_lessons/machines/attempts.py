"""The output of each node, with times and exit statuses: plain data that can be stored and drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

_COMPLAINT = re.compile(r"(\[rank\d+\]: )?[\w.]*(Error|Timeout|Exception): \S")  # the last line of a Python traceback


class Said(NamedTuple):
    """One line of output, its node, and the seconds since the start."""

    machine: int
    seconds: float
    line: str


@dataclass(frozen=True, repr=False)
class Attempt:
    """One command on all nodes, or one job, from start to end. It is displayed as a log.

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

    def first(self, words: str) -> Said | None:
        """The first line that contains these words."""
        return next((said for said in self.said if words in said.line), None)

    def complaint(self, machine: int) -> Said | None:
        """The first line of this node that names an error: the exception without its traceback."""
        mine = (said for said in self.said if said.machine == machine)
        return next((said for said in mine if _COMPLAINT.match(said.line)), None)

    def __repr__(self) -> str:
        told = sorted([*((said, "|") for said in self.said), *((one, "*") for one in self.happened)], key=_moment)
        rows = [f"{said.seconds:6.1f} s  machine {said.machine} {mark} {said.line}" for said, mark in told]
        ends = [f"machine {number}: {_ending(status)}" for number, status in enumerate(self.statuses)]
        return "\n".join([*rows, *ends, *([f"recorded: {self.recorded}"] if self.recorded else [])])

    def to_json(self, clean: Callable[[str], str] = str) -> str:
        """`clean` removes from every line what is specific to the machine of the recording."""
        said = [[machine, round(seconds, 2), clean(line)] for machine, seconds, line in self.said]
        happened = [[machine, round(seconds, 2), words] for machine, seconds, words in self.happened]
        own = {"said": said, "happened": happened, "seconds": round(self.seconds, 2)}
        return json.dumps(asdict(self) | own, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Attempt:
        content = json.loads(text)
        said = tuple(Said(*line) for line in content["said"])
        happened = tuple(Said(*one) for one in content.get("happened", ()))
        return cls(tuple(content["statuses"]), said, content["seconds"], content["recorded"], happened)

    def as_recorded(self, how: str) -> Attempt:
        return replace(self, recorded=how)


def _moment(told: tuple[Said, str]) -> float:
    return told[0].seconds


def _ending(status: int | None) -> str:
    return "stopped, the time was over" if status is None else f"ended with status {status}"
