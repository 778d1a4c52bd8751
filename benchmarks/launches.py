"""Cell to answer: the tools take turns, so that changes of the machine affect all of them equally."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .kernel import CellFailed
from .measurement import NOT_INSTALLED, Sample, Series
from .tools import Runner, Tool

TIMEOUT_SECONDS = 30.0
PATIENCE = 2  # hangs or failures before a tool is dropped


@dataclass
class Launches:
    """The calls of one tool with one world size: the first in a new kernel, and the later ones."""

    first: Series = field(default_factory=lambda: Series([Sample(trouble=NOT_INSTALLED)]))
    later: Series = field(default_factory=lambda: Series([Sample(trouble=NOT_INSTALLED)]))


@dataclass
class Contest:
    """All tools with one world size, each in its own kernel."""

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
        """Start a kernel for the tool, give it time to get ready, and make its first call."""
        try:
            self.runners[tool] = tool.open()
        except CellFailed as trouble:
            return Launches(Series([trouble.as_sample()]), Series([trouble.as_sample()]))
        self.runners[tool].family.settle()
        return Launches(Series([self.time_once(tool)]), Series())

    def order(self) -> Iterator[Tool]:
        """Each round has another, reproducible order; slow tools take part only in some rounds."""
        dice = random.Random(0)
        for number in range(self.rounds):
            is_slow_round = (number + 1) * self.slow_rounds // self.rounds > number * self.slow_rounds // self.rounds
            tools = [tool for tool in self.runners if is_slow_round or not tool.is_slow]
            dice.shuffle(tools)
            yield from tools

    def time_once(self, tool: Tool) -> Sample:
        """One call, and a wait until its after-effects are over. After a failure, the tool gets a new kernel."""
        sample = self.runners[tool].time_once(self.world_size, TIMEOUT_SECONDS)
        self.runners[tool].family.settle()
        if sample.trouble:
            self.runners[tool].close()
            self.runners[tool] = tool.open()
        return sample
