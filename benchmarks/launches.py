"""Cell to answer: every tool in turn, again and again, so that the machine's moods fall on all alike."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .kernel import CellFailed
from .measurement import NOT_INSTALLED, Sample, Series
from .tools import Runner, Tool

TIMEOUT_SECONDS = 30.0
PATIENCE = 2  # calls that may hang or fail before a tool is given up


@dataclass
class Launches:
    """What one tool did with one world size: its first call in a fresh kernel, and the later ones."""

    first: Series = field(default_factory=lambda: Series([Sample(trouble=NOT_INSTALLED)]))
    later: Series = field(default_factory=lambda: Series([Sample(trouble=NOT_INSTALLED)]))


@dataclass
class Contest:
    """All tools side by side with one world size, each in a kernel of its own."""

    tools: Sequence[Tool]
    world_size: int
    rounds: int
    slow_rounds: int
    runners: dict[Tool, Runner] = field(default_factory=dict)
    launches: dict[Tool, Launches] = field(default_factory=dict)

    def run(self) -> dict[Tool, Launches]:
        try:
            for tool in self.tools:
                self.launches[tool] = self.begin(tool) if tool.is_installed else Launches()
            for tool in self.order():
                if len(self.launches[tool].later.troubles) < PATIENCE:
                    self.launches[tool].later.samples.append(self.time_once(tool))
        finally:
            for runner in self.runners.values():
                runner.close()
        return self.launches

    def begin(self, tool: Tool) -> Launches:
        """Start a kernel for the tool, leave it the time to get ready, and make its first call."""
        try:
            self.runners[tool] = tool.open()
        except CellFailed as trouble:
            return Launches(Series([trouble.as_sample()]), Series([trouble.as_sample()]))
        self.runners[tool].family.settle()
        return Launches(Series([self.time_once(tool)]), Series())

    def order(self) -> Iterator[Tool]:
        """Each round in another, repeatable order; slow tools only in some of the rounds."""
        dice = random.Random(0)
        for number in range(self.rounds):
            is_slow_round = (number + 1) * self.slow_rounds // self.rounds > number * self.slow_rounds // self.rounds
            tools = [tool for tool in self.runners if is_slow_round or not tool.is_slow]
            dice.shuffle(tools)
            yield from tools

    def time_once(self, tool: Tool) -> Sample:
        """One call, and its after-effects waited for; a tool that failed is tidied away and begins anew."""
        sample = self.runners[tool].time_once(self.world_size, TIMEOUT_SECONDS)
        self.runners[tool].family.settle()
        if sample.trouble:
            self.runners[tool].close()
            self.runners[tool] = tool.open()
        return sample
