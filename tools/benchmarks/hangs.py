"""Make every mistake of the catalog. How soon is it reported, is the message correct, and what is left running?"""

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from textwrap import shorten

from catalog.findings import Finding, make, next_is_right
from catalog.mistakes import MISTAKES, Mistake
from catalog.verdicts import is_shown, ranks_named_in, squeezed
from processes import kept_port

from tools.benchmarks.kernels import ROOT, Family
from tools.benchmarks.recording import busy_cores
from tools.benchmarks.tables import Target, print_table

EIGHT = (
    "one_returned",
    "different_collectives",
    "different_shapes",
    "both_send_first",
    "never_waited_for",
    "group_made_by_some",
    "one_never_joins",
    "ddp_uneven_inputs",
)
WORLD_SIZE = 4
PATIENCE_SECONDS = 20.0
START_SECONDS = 120.0
# each of torch's own tools: environment variables, and the timeout of a monitored_barrier before each call
TOOLS: dict[str, tuple[dict[str, str], str]] = {
    "plain torch": ({}, ""),
    "DEBUG=DETAIL": ({"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, ""),
    "monitored_barrier": ({}, "5"),
}
_NOISE = re.compile(r"\[rank\d+\]: |\[Rank \d+\]: |\w+Error: |\[/\S+?\] | \[[\d.]+\]:\d+|\. This is typically.*")
_OWN_RANK = re.compile(r"\[rank \d+\]: ", re.IGNORECASE)
_RAISED = re.compile(r"(\[rank\d+\]: )?[\w.]*Error: ")
_FINGERPRINT = re.compile(r"CollectiveFingerPrint\(SequenceNumber=\d+, OpType=(\w+), TensorShape=(\[[\d, ]*\]).*?\){3}")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help="only these mistakes (all)")
    parser.add_argument("--ranks", type=int, nargs="+", help="only these world sizes (all that make sense)")
    parser.add_argument("--load", action="store_true", help="keep one core busy at the same time")
    parser.add_argument("--compare", action="store_true", help="instead, compare eight of them with torch's own tools")
    parser.add_argument("--show", action="store_true", help="also print each message")


def measure(asked: argparse.Namespace) -> list[Target]:
    next_is_right()  # torch is imported, and the first processes exist
    if asked.compare:
        compare(asked.names or EIGHT)
        return []
    with busy_cores(int(asked.load)):
        findings = list(made(asked))
    if not findings:
        raise SystemExit("there is no mistake with this name and this world size")
    rows = []
    for mistake in dict.fromkeys(finding.mistake for finding in findings):
        some = [finding for finding in findings if finding.mistake is mistake]
        rows.append(
            (
                f"{mistake.kind} {mistake.name}",
                mistake.alone,
                ", ".join(str(finding.world_size) for finding in some),
                f"{median(finding.seconds for finding in some):.2f}",
                f"{max(finding.seconds for finding in some):.2f}",
                f"{sum(not finding.missing for finding in some)} of {len(some)}",
                "yes" if all(finding.is_alive for finding in some) else "NO",
                str(sum(finding.left for finding in some)),
            )
        )
    header = ("mistake", "torch alone", "ranks", "median s", "worst s", "correct", "next works", "left over")
    print_table(header, rows)
    seconds = [finding.seconds for finding in findings]
    return [
        Target("from hang to exception, median", median(seconds), 1.0),
        Target("from hang to exception, worst", max(seconds), 2.0),
        Target("wrong messages", sum(bool(finding.missing) for finding in findings), 0, ""),
        Target("next launches that failed", sum(not finding.is_alive for finding in findings), 0, ""),
        Target("processes left over", sum(finding.left for finding in findings), 0, ""),
    ]


def made(asked: argparse.Namespace) -> Iterator[Finding]:
    for mistake in (one for one in MISTAKES if not asked.names or one.name in asked.names):
        for world_size in (size for size in mistake.world_sizes if not asked.ranks or size in asked.ranks):
            finding = make(mistake, world_size)
            lacks = f", lacks {'; '.join(finding.missing)}" if finding.missing else ""
            print(f"{mistake.name}, {world_size} ranks: {finding.seconds:.2f} s{lacks}", file=sys.stderr, flush=True)
            if asked.show:
                print(finding.ended, end="\n\n")
            yield finding


@dataclass(frozen=True)
class Account:
    """The report of one tool on one mistake, and the seconds after the hang, or None if it reported nothing."""

    seconds: float | None
    quote: str
    names: Sequence[str] = ()  # which of rank, line and call it named correctly

    @property
    def cell(self) -> str:
        return self.quote if self.seconds is None else f"{self.seconds:.1f} s: {', '.join(self.names) or self.quote}"


def compare(names: Sequence[str]) -> None:
    rows, quotes = [], list[str]()
    for mistake in (mistake for mistake in MISTAKES if mistake.name in names):
        accounts = {}
        for title, (variables, barrier) in TOOLS.items():
            with TemporaryDirectory() as folder:
                accounts[title] = Attempt(mistake, Path(folder)).run(variables, barrier)
        finding = make(mistake, WORLD_SIZE)
        message = str(finding.ended)
        accounts["launch"] = Account(finding.seconds, message, named(mistake, message, message))
        rows.append([mistake.name, *(account.cell for account in accounts.values())])
        said = {title: account.quote for title, account in accounts.items() if account.seconds is not None}
        quotes += [mistake.name, *(f"  {title}: {in_short(quote)}" for title, quote in said.items())]
    print_table(["mistake", *TOOLS, "launch"], rows)
    print(*quotes, sep="\n")


class Attempt:
    """A process for each rank, as under torchrun, until one fails, all have ended, or time is up."""

    def __init__(self, mistake: Mistake, folder: Path) -> None:
        self.mistake, self.folder = mistake, folder
        self.family = Family()
        self.died: dict[int, float] = {}  # rank and moment

    def run(self, variables: dict[str, str], barrier: str) -> Account:
        environment = {
            **self.family.environment,
            "WORLD_SIZE": str(WORLD_SIZE),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(kept_port()),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        command = [sys.executable, "-m", "tools.benchmarks.alone", self.mistake.name, str(self.folder), barrier]
        processes = []
        for rank in range(WORLD_SIZE):
            own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            with (self.folder / f"{rank}.output").open("wb") as output:
                processes.append(subprocess.Popen(command, env=own, cwd=ROOT, stdout=output, stderr=output))
        try:
            self.follow(processes)
            return self.judge([process.poll() for process in processes])
        finally:
            self.family.kill()
            for process in processes:
                process.wait()

    def follow(self, processes: "Sequence[subprocess.Popen[bytes]]") -> None:
        deadline = time.perf_counter() + START_SECONDS
        while time.perf_counter() < min(deadline, self.standstill() + PATIENCE_SECONDS):
            for rank, process in enumerate(processes):
                if process.poll() is not None:
                    self.died.setdefault(rank, time.perf_counter())
            # on a busy machine, a process may take many seconds to exit after an error
            if self.died or self.moments("raised") or len(self.moments("ended")) == WORLD_SIZE:
                time.sleep(1)  # the others print their last lines
                return
            time.sleep(0.05)

    def moments(self, *names: str) -> list[float]:
        """The times that `benchmarks.alone` logged."""
        notes = [path.read_text().split("\n") for path in self.folder.glob("*.notes")]
        lines = [line.split() for note in notes for line in note if line]
        return [float(moment) for name, moment in lines if name in names]

    def standstill(self) -> float:
        """When the last rank was active, or now if not all of them have started."""
        begun = len(self.moments("began")) == WORLD_SIZE
        return max(self.moments("began", "called", "ended")) if begun else time.perf_counter()

    def judge(self, codes: Sequence[int | None]) -> Account:
        raised_at = self.moments("raised")
        if not any(codes) and not raised_at:
            all_ended = len(self.moments("ended")) == WORLD_SIZE
            return Account(None, "silently wrong" if all_ended else f"nothing in {PATIENCE_SECONDS:.0f} s")
        first = min([*raised_at, *(moment for rank, moment in self.died.items() if codes[rank])])
        text = "\n".join((self.folder / f"{rank}.output").read_text(errors="replace") for rank in range(WORLD_SIZE))
        raised = [line for line in text.splitlines() if _RAISED.match(line)]
        most = max(
            raised,
            key=lambda line: (len(named(self.mistake, line, text)), "closed by" not in line),
            default=f"only {next((signal.Signals(-code).name for code in codes if code and code < 0), 'an exit')}",
        )
        return Account(first - self.standstill(), most, named(self.mistake, most, text))


def named(mistake: Mistake, quote: str, text: str) -> list[str]:
    """Which of rank, line and call the message names correctly."""
    ranks = ranks_named_in(_OWN_RANK.sub("", quote), WORLD_SIZE)
    calls = [line.partition("(")[0].rpartition(".")[2] for line in mistake.lines]
    told = {
        "rank": set(mistake.ranks(WORLD_SIZE)) <= ranks,
        "line": all(is_shown(place, text) for place in mistake.places().values()),
        "call": any(squeezed(call) in squeezed(quote) for call in calls),
    }
    return [what for what, is_told in told.items() if is_told]


def in_short(quote: str) -> str:
    sentences = [line for line in quote.splitlines() if not line.startswith("    ")]
    text = " ".join(sentences[1:2] or sentences)
    return shorten(_NOISE.sub("", _FINGERPRINT.sub(r"\1 \2", text)), 100)
