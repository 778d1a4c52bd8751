"""What dumps tell of each mistake of the catalog: `explain` and torch's analyzer, on torch's dumps and on our own."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from processes import PROJECT

from .mistakes import Mistake
from .programs.dumped import WORLD_SIZE
from .torch_analyzer import ask_torch
from .verdicts import is_shown, ranks_named_in, squeezed

_LINE_OF_A_RANK = re.compile(r" +ranks? \d.*   ")
_SAID_OF_ONE_THAT_RETURNED = ("returned", "not called", "ended without")
_RANKS_OF_TORCH = re.compile(r"missing ranks: \{([\d, ]*)\}|Culprit rank (\d+)")


@dataclass(frozen=True)
class Report:
    """What one tool said of one mistake."""

    text: str
    ranks: set[int]

    def named(self, mistake: Mistake) -> str:
        """As in: rank, call, line, cause."""
        calls = [line.partition("(")[0] for line in mistake.lines]
        told = {
            "rank": bool(self.text) and set(mistake.ranks(WORLD_SIZE)) <= self.ranks,
            "call": any(squeezed(call) in squeezed(self.text) for call in calls),
            "line": all(is_shown(place, self.text) for place in mistake.places().values()),
            "cause": bool(mistake.words) and all(self._says(word) for word in mistake.words),
        }
        return ", ".join(what for what, is_told in told.items() if is_told) or "-"

    def _says(self, word: str) -> bool:
        ways = _SAID_OF_ONE_THAT_RETURNED if word == "returned" else (word,)
        return any(way.lower() in self.text.lower() for way in ways)


def ours(folder: Path) -> Report:
    command = [sys.executable, "-m", "ddp_lessons", "explain", str(folder / "rank_")]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    text = done.stdout if done.returncode == 1 else ""  # 0: nothing hangs; 2: cannot tell
    sentences = "\n".join(line for line in text.splitlines() if not _LINE_OF_A_RANK.match(line))
    return Report(text, ranks_named_in(sentences, WORLD_SIZE))


def torchs(folder: Path) -> Report:
    """Its verdicts are lines between others, which it prints of every set of dumps."""
    text = ask_torch(folder)
    return Report(
        text, {int(n) for found in _RANKS_OF_TORCH.findall(text) for n in re.findall(r"\d+", " ".join(found))}
    )


def make_dumps(folder: Path, kind: str, names: Sequence[str]) -> None:
    command = [sys.executable, "-m", "catalog.programs.dumped", str(folder), kind, *names]
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1", "PYTHONPATH": "tests"}
    subprocess.run(
        command, cwd=PROJECT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
