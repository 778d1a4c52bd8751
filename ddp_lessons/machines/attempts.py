"""What was said on each machine, when, and how it ended: plain data, which can be kept in a file and drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

_COMPLAINT = re.compile(r"(\[rank\d+\]: )?[\w.]*(Error|Timeout|Exception): \S")  # as Python ends a traceback


class Said(NamedTuple):
    """One line, the machine that said it, and how many seconds after the beginning."""

    machine: int
    seconds: float
    line: str


@dataclass(frozen=True, repr=False)
class Attempt:
    """One command on all machines, or one job, from its beginning to its end. It shows itself as a log.

    `statuses` has an exit status for each machine, None where it was stopped because the time was over.
    """

    statuses: tuple[int | None, ...]
    said: tuple[Said, ...]
    seconds: float
    recorded: str = ""  # with what it was recorded; "" if it has just been done here
    happened: tuple[Said, ...] = ()  # to a machine, as that its cable was pulled out; nobody there said it

    @property
    def ended_well(self) -> bool:
        return all(status == 0 for status in self.statuses)

    def lines(self, machine: int | None = None) -> list[str]:
        """What this machine said, or all of them, in the order of time."""
        return [said.line for said in self.said if machine in (None, said.machine)]

    def has(self, words: str, machine: int | None = None) -> bool:
        return any(words in line for line in self.lines(machine))

    def first(self, words: str) -> Said | None:
        """The first line with these words."""
        return next((said for said in self.said if words in said.line), None)

    def complaint(self, machine: int) -> Said | None:
        """The first line of this machine that names an error: what is raised, without the way there."""
        mine = (said for said in self.said if said.machine == machine)
        return next((said for said in mine if _COMPLAINT.match(said.line)), None)

    def __repr__(self) -> str:
        told = sorted([*((said, "|") for said in self.said), *((one, "*") for one in self.happened)], key=_moment)
        rows = [f"{said.seconds:6.1f} s  machine {said.machine} {mark} {said.line}" for said, mark in told]
        ends = [f"machine {number}: {_ending(status)}" for number, status in enumerate(self.statuses)]
        return "\n".join([*rows, *ends, *([f"recorded: {self.recorded}"] if self.recorded else [])])

    def to_json(self, clean: Callable[[str], str] = str) -> str:
        """`clean` takes out of every line what belongs to the machine it was recorded on."""
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
