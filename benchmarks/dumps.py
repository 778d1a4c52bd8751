"""What dumps tell of each mistake of the catalog: `explain` and torch's analyzer, on torch's dumps and on our own.

A cell names what is right in the report: the rank, the call, the line and the cause. Last, 512 ranks are simulated.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .comparison import is_shown, squeezed
from .kernel import ROOT
from .large_dumps import large_table, measure_large
from .measurement import Target, at_most
from .mistakes import MISTAKES, Mistake
from .programs.dumped import WORLD_SIZE
from .tables import table, target_table
from .torch_analyzer import ask_torch, with_groups
from .verdicts import ranks_named_in

_LINE_OF_A_RANK = re.compile(r" +ranks? \d.*   ")
# how a report may say what the catalog's words say
_SAME: dict[str, tuple[str, ...]] = {
    "returned": ("returned", "not called", "ended without", "Not all ranks joining"),
    "mismatched collectives": ("mismatched collectives", "TYPE_MISMATCH"),
    "shape mismatch": ("shape mismatch", "SIZE_OR_SYNTAX_MISMATCH"),
    "dtype mismatch": ("dtype mismatch", "DTYPE_MISMATCH"),
    "float32": ("float32", "Float"),
    "int64": ("int64", "Long"),
}
_RANKS_OF_TORCH = re.compile(r"missing ranks: \{([\d, ]*)\}|Culprit rank (\d+)")
_PLACES_OF_TORCH = re.compile(r"([\w.]+\.py):(\d+)")


@dataclass(frozen=True)
class Report:
    """What one tool said of one mistake."""

    text: str
    ranks: set[int]

    def named(self, mistake: Mistake) -> str:
        """As in: rank, call, line, cause."""
        calls = [line.partition("(")[0].rpartition(".")[2] for line in mistake.lines]
        told = {
            "rank": bool(self.text) and set(mistake.ranks(WORLD_SIZE)) <= self.ranks,
            "call": any(squeezed(call) in squeezed(self.text) for call in calls),
            "line": all(is_shown(place, self.text) for place in mistake.places().values()),
            "cause": bool(mistake.words) and all(self._says(word) for word in mistake.words),
        }
        return ", ".join(what for what, is_told in told.items() if is_told) or "-"

    def _says(self, word: str) -> bool:
        return any(one.lower() in self.text.lower() for one in _SAME.get(word, (word,)))


def ours(folder: Path) -> Report:
    command = [sys.executable, "-m", "ddp_lessons", "explain", str(folder / "rank_")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    text = done.stdout if done.returncode == 1 else ""  # 0: nothing hangs; 2: cannot tell
    sentences = "\n".join(line for line in text.splitlines() if not _LINE_OF_A_RANK.match(line))
    return Report(text, ranks_named_in(sentences, WORLD_SIZE))


def torchs(folder: Path) -> Report:
    """Its verdicts are lines between others, which it prints of every set of dumps."""
    text = ask_torch(folder)
    ranks = {int(number) for found in _RANKS_OF_TORCH.findall(text) for number in re.findall(r"\d+", " ".join(found))}
    return Report(_PLACES_OF_TORCH.sub(r"\1 line \2", text) if ranks else "", ranks)


def make_dumps(folder: Path, kind: str, names: Sequence[str]) -> None:
    command = [sys.executable, "-m", "benchmarks.programs.dumped", str(folder), kind, *names]
    environment = {**os.environ, "TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def mistake_rows(folder: Path, wanted: Sequence[Mistake], show: Callable[[str], None]) -> list[tuple[str, ...]]:
    names = [mistake.name for mistake in wanted]
    for kind in ("torch", "own"):
        make_dumps(folder / kind, kind, names)
    rows = []
    for mistake in wanted:
        of_torch, of_ours = (folder / kind / mistake.name for kind in ("torch", "own"))
        repaired = with_groups(of_torch, folder / f"{mistake.name} with groups")
        reports = [ours(of_torch), torchs(repaired), ours(of_ours), torchs(of_ours)]
        show("\n\n".join([f"--- {mistake.name}", *(report.text or "nothing" for report in reports)]))
        rows.append((f"{mistake.kind} {mistake.name}", mistake.alone, *(report.named(mistake) for report in reports)))
    return rows


def promises(rows: Sequence[Sequence[str]]) -> list[Target]:
    """Of our own dumps, whose calls are complete."""
    hangs = [row for row in rows if row[1] == "hang"]
    whole = "rank, call, line, cause"
    return [at_most("hangs not explained in full, from our dumps", sum(row[4] != whole for row in hangs), 0, "")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dumps", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mistakes (all)")
    parser.add_argument("--ranks", type=int, default=512, help="simulated ranks; 0 leaves this out (512)")
    parser.add_argument("--entries", type=int, default=2000, help="entries of each simulated rank (2000)")
    parser.add_argument("--show", action="store_true", help="also print what each tool said")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    wanted = [mistake for mistake in MISTAKES if not asked.names or mistake.name in asked.names]
    begin = time.perf_counter()
    with TemporaryDirectory() as folder:
        rows = mistake_rows(Path(folder), wanted, print if asked.show else lambda _: None)
    header = (
        "mistake",
        "torch alone",
        "torch's dumps: explain",
        "torch's analyzer",
        "our dumps: explain",
        "torch's analyzer",
    )
    print(table(header, rows, asked.markdown), f"{time.perf_counter() - begin:.0f} seconds", sep="\n\n")
    targets = promises(rows)
    if asked.ranks:
        large = measure_large(asked.ranks, asked.entries)
        print(large_table(large, asked.markdown))
        targets += large.promises
    print(target_table(targets, asked.markdown))
    return int(asked.strict and not all(target.met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
