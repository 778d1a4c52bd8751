"""Eight mistakes with torch's own tools and with launch: how soon each is reported, and what the report names."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten

from catalog.mistakes import MISTAKES, Mistake
from catalog.verdicts import is_shown, ranks_named_in, squeezed
from processes import kept_port

from .family import Family
from .kernel import ROOT
from .tables import table

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
BARRIER_SECONDS = 5.0
START_SECONDS = 120.0
_NOISE = re.compile(r"\[rank\d+\]: |\[Rank \d+\]: |\w+Error: |\[/\S+?\] | \[[\d.]+\]:\d+|\. This is typically.*")
_OWN_RANK = re.compile(r"\[rank \d+\]: ", re.IGNORECASE)
_RAISED = re.compile(r"(\[rank\d+\]: )?[\w.]*Error: ")
_FINGERPRINT = re.compile(r"CollectiveFingerPrint\(SequenceNumber=\d+, OpType=(\w+), TensorShape=(\[[\d, ]*\]).*?\){3}")


@dataclass(frozen=True)
class Account:
    """The report of one tool on one mistake, and the seconds after the hang, or None if it reported nothing."""

    seconds: float | None
    quote: str
    names: Sequence[str] = ()  # which of rank, line and call it named correctly

    @property
    def cell(self) -> str:
        if self.seconds is None:
            return self.quote
        return f"{self.seconds:.1f} s: {', '.join(self.names) or self.quote}"


@dataclass(frozen=True)
class Means:
    title: str
    variables: dict[str, str]
    barrier_seconds: float | None = None

    def account(self, mistake: Mistake) -> Account:
        with TemporaryDirectory() as folder:
            return Attempt(mistake, self, folder).run()


PLAIN = Means("plain torch", {})
DETAIL = Means("DEBUG=DETAIL", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"})
BARRIER = Means("monitored_barrier", {}, BARRIER_SECONDS)


class Attempt:
    """A process for each rank, as under torchrun, until one fails, all have ended, or the time is over."""

    def __init__(self, mistake: Mistake, means: Means, folder: str) -> None:
        self.mistake, self.means, self.folder = mistake, means, folder
        self.family = Family()
        self.ended: dict[int, float] = {}

    def run(self) -> Account:
        port = kept_port()
        processes = [self.start(rank, port) for rank in range(WORLD_SIZE)]
        try:
            self.follow(processes)
            codes = [process.poll() for process in processes]
        finally:
            self.family.kill()
            for process in processes:
                process.wait()
        return self.judge(codes)

    def start(self, rank: int, port: int) -> "subprocess.Popen[bytes]":
        options = [] if self.means.barrier_seconds is None else [str(self.means.barrier_seconds)]
        variables = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(WORLD_SIZE),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        with open(self.output(rank), "wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "benchmarks.alone", self.mistake.name, self.folder, *options],
                env={**self.family.environment, **variables, **self.means.variables},
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def output(self, rank: int) -> Path:
        return Path(self.folder, f"{rank}.output")

    def follow(self, processes: "Sequence[subprocess.Popen[bytes]]") -> None:
        deadline = time.perf_counter() + START_SECONDS
        while time.perf_counter() < min(deadline, self.standstill() + PATIENCE_SECONDS):
            for rank, process in enumerate(processes):
                if process.poll() is not None:
                    self.ended.setdefault(rank, time.perf_counter())
            if self.ended or len(self.moments("ended")) == WORLD_SIZE:
                time.sleep(1)  # the others print their last lines
                return
            time.sleep(0.05)

    def moments(self, *names: str) -> list[float]:
        lines = [line.split() for rank in range(WORLD_SIZE) for line in self.noted(rank)]
        return [float(moment) for name, moment in lines if name in names]

    def noted(self, rank: int) -> list[str]:
        file = Path(self.folder, str(rank))
        return file.read_text().splitlines() if file.exists() else []

    def standstill(self) -> float:
        """The last activity of a rank, or infinity while not all of them have started."""
        begun = len(self.moments("began")) == WORLD_SIZE
        return max(self.moments("began", "called", "ended")) if begun else time.perf_counter()

    def judge(self, codes: Sequence[int | None]) -> Account:
        if not any(codes):
            all_ended = len(self.moments("ended")) == WORLD_SIZE
            return Account(None, "wrong, in silence" if all_ended else f"nothing in {PATIENCE_SECONDS:.0f} s")
        first = self.first_word(codes)
        text = "\n".join(self.output(rank).read_text(errors="replace") for rank in range(WORLD_SIZE))
        signals = [signal.Signals(-code).name for code in codes if code is not None and code < 0]
        quote = telling_line(self.mistake, text) or f"only {signals[0]}"
        return Account(first - self.standstill(), quote, named(self.mistake, quote, text))

    def first_word(self, codes: Sequence[int | None]) -> float:
        died = [self.ended[rank] for rank, code in enumerate(codes) if code and rank in self.ended]
        return min([*self.moments("raised"), *died])


def telling_line(mistake: Mistake, text: str) -> str:
    """The most informative message of all exceptions."""
    raised = [line for line in text.splitlines() if _RAISED.match(line)]
    return max(raised, key=lambda line: (len(named(mistake, line, text)), "closed by" not in line), default="")


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


def compare(ours: Callable[[Mistake], tuple[float, str]], names: Sequence[str], markdown: bool) -> str:
    """`ours` makes a mistake with launch, and returns seconds and message."""
    header = ["mistake", PLAIN.title, DETAIL.title, BARRIER.title, "launch"]
    rows, quotes = [], []
    for mistake in (mistake for mistake in MISTAKES if mistake.name in names):
        print(mistake.name, "...", file=sys.stderr, flush=True)
        accounts = [means.account(mistake) for means in (PLAIN, DETAIL, BARRIER)]
        seconds, message = ours(mistake)
        accounts.append(Account(seconds, message, named(mistake, message, message)))
        rows.append([mistake.name, *(account.cell for account in accounts)])
        quotes += quoted(mistake, header[1:], accounts)
    return "\n\n".join([table(header, rows, markdown), "\n".join(quotes)])


def quoted(mistake: Mistake, titles: Sequence[str], accounts: Sequence[Account]) -> list[str]:
    said = [(title, one.quote) for title, one in zip(titles, accounts, strict=True) if one.seconds is not None]
    return [mistake.name, *(f"  {title}: {in_short(quote)}" for title, quote in said)]


def in_short(quote: str) -> str:
    sentences = [line for line in quote.splitlines() if not line.startswith("    ")]
    text = " ".join(sentences[1:2] or sentences)
    return shorten(_NOISE.sub("", _FINGERPRINT.sub(r"\1 \2", text)), 100)
