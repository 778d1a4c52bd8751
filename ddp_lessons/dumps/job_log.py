"""What a log of torchrun tells, by three patterns: tracebacks, torchrun's table of failures, NCCL's watchdog."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ddp_lessons.dumps.dumped_calls import read_operation
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Frame, Raised

# of torch's hook, or of torchrun --tee, or of both: then the hook's, as torchrun's has the rank on its node
_PREFIX = re.compile(r"^(?:\S* )?(?:(?:\[default\d+\]:)?\[rank(\d{1,6})\]: ?|\[default(\d{1,6})\]:)")
# the header, lines with a margin, the exception, and further lines of its message
_TRACEBACK = re.compile(
    r"^Traceback \(most recent call last\):.*\n((?:(?: .*)?\n)*)([A-Za-z_][\w.]*)(?:: (.*))?$((?:\n[^\S\n].*)*)", re.M
)
_FRAME = re.compile(r'^  File "(.+)", line (\d{1,9})(?:, in (.+))?$(?:\n {4}(.*))?', re.M)
_FAILURE = re.compile(r"^ *rank +: (\d{1,6}) \(local_rank: \d+\).*\n?(?: *exitcode +: (-?\d{1,9})\b)?", re.M)
_ROOT_CAUSE = "Root Cause (first observed failure):"
_BEGINNINGS = ("Traceback (most recent call last):", "Failures:", _ROOT_CAUSE)
_OF_TORCHRUN = "ChildFailedError"
_RESTART = "will restart worker group"
_TIMEOUT = re.compile(
    r"\[Rank (\d{1,6})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w+)"
    r"(?:, NumelIn=(\d{1,18}), NumelOut=(?:\d{1,18}))?, Timeout\(ms\)=(\d{1,18})\)"
)
_STATUS = re.compile(
    r"\[PG (?:ID )?\d+(?: PG GUID (\S+))? Rank (\d{1,6})\].*?last enqueued (?:NCCL )?work: (-?\d{1,18}), "
    r"last completed (?:NCCL )?work: (-?\d{1,18})",
    re.I,
)
_SIGTERM = -15


@dataclass(frozen=True)
class Timeout:
    """A collective that NCCL's watchdog gave up."""

    number: int
    operation: str
    elements: int | None
    seconds: float


@dataclass
class JobLog:
    """What was found, by rank."""

    raised: dict[int, Raised] = field(default_factory=dict)
    exit_codes: dict[int, int] = field(default_factory=dict)
    root_cause: int | None = None  # the rank that torchrun names
    timeouts: dict[int, Timeout] = field(default_factory=dict)  # the first collective of each rank
    enqueued: dict[int, int] = field(default_factory=dict)  # the number of the last one that a rank started
    groups: set[str] = field(default_factory=set)  # in which something timed out
    without_rank: list[Raised] = field(default_factory=list)  # raised before the rank joined a group

    @property
    def world_size(self) -> int:
        """At least: a rank that returned may have logged nothing."""
        ranks = [*self.raised, *self.exit_codes, *self.timeouts, *self.enqueued]
        return max(ranks, default=-1) + 1

    @property
    def stopped(self) -> list[int]:
        """The ranks that torchrun ended because of the others."""
        ranks = (rank for rank, code in self.exit_codes.items() if code == _SIGTERM)
        return sorted(rank for rank in ranks if rank not in self.raised and rank not in self.timeouts)

    @property
    def silent(self) -> list[int]:
        """The ranks that logged no failure of their own."""
        return sorted(set(range(self.world_size)) - self.ended().keys())

    def ended(self) -> dict[int, Raised | Died]:
        """How each rank ended by itself. A rank that is only known to have ended comes after all others."""
        ended: dict[int, Raised | Died] = dict(self.raised)
        for rank, code in self.exit_codes.items():
            if rank not in ended and code != _SIGTERM:
                is_named = rank == self.root_cause
                ended[rank] = Died(code, (), (), 0.0 if is_named and code != 1 else 1e9 - is_named)
        return ended


def read_log(lines: Iterable[str]) -> JobLog:
    log = JobLog()
    streams: dict[int | None, list[tuple[int, str]]] = {}  # the numbered lines of each rank; None: no rank marks them
    for number, line in enumerate(lines):
        line = line.rstrip("\r\n")
        if _RESTART in line:  # what comes from now on is another attempt
            log, streams = JobLog(), {}
        prefix = _PREFIX.match(line)
        rank = None if prefix is None else int(prefix[1] or prefix[2])
        _read_nccl(log, rank, line)
        text = line if prefix is None else line[prefix.end() :]
        if rank in streams or text.startswith(_BEGINNINGS):
            streams.setdefault(rank, []).append((number, text))
    for rank, numbered in streams.items():
        found = list(_tracebacks(numbered))
        if rank is None:
            log.without_rank = [raised for raised in found if raised.kind != _OF_TORCHRUN]
        elif found:
            log.raised[rank] = found[-1]
    _read_table(log, "\n".join(line for _, line in streams.get(None, ())))
    return log


def _read_table(log: JobLog, text: str) -> None:
    for found in _FAILURE.finditer(text):
        if found[2]:
            log.exit_codes.setdefault(int(found[1]), int(found[2]))
    if _ROOT_CAUSE in text and (first := _FAILURE.search(text, text.index(_ROOT_CAUSE))):
        log.root_cause = int(first[1])


def _read_nccl(log: JobLog, marked: int | None, line: str) -> None:
    if found := _TIMEOUT.search(line):
        rank = int(found[1]) if marked is None else marked
        elements = int(found[4]) if found[4] else None
        timeout = Timeout(int(found[2]), read_operation(found[3]), elements, int(found[5]) / 1000)
        if rank not in log.timeouts or timeout.number < log.timeouts[rank].number:
            log.timeouts[rank] = timeout
    elif found := _STATUS.search(line):
        rank = int(found[2]) if marked is None else marked
        log.enqueued.setdefault(rank, int(found[3]))
        if rank in log.timeouts and found[1]:
            log.groups.add(found[1])


def _tracebacks(numbered: list[tuple[int, str]]) -> Iterator[Raised]:
    text = "\n".join(line for _, line in numbered)
    for found in _TRACEBACK.finditer(text):
        place = text.count("\n", 0, found.start())
        frames = tuple(Frame(one[1], int(one[2]), one[3] or "", one[4] or "") for one in _FRAME.finditer(found[1]))
        message = ((found[3] or "") + found[4]).rstrip()
        whole = text[found.start() : found.start(4)]
        yield Raised(found[2].rpartition(".")[2], message, frames, whole, float(numbered[place][0]))
