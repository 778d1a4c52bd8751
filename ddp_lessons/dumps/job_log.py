"""What a log of torchrun tells: exceptions by rank, how processes ended, and the timeouts of NCCL's watchdog."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ddp_lessons.dumps.operation_names import is_installed, read_operation
from ddp_lessons.run.launcher.rank_states import Died
from ddp_lessons.run.wire.messages import Frame, Raised

# of torch's hook, or of torchrun --tee, or of both: then the hook's, as torchrun's has the rank on its node
_PREFIX = re.compile(r"^(?:\S* )?(?:(?:\[default\d+\]:)?\[rank(\d{1,6})\]: ?|\[default(\d{1,6})\]:)")
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'^  File "(.+)", line (\d{1,9})(?:, in (.+))?$')
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$")
_OF_TORCHRUN = "ChildFailedError"
_ROOT_CAUSE = "Root Cause (first observed failure):"
_RESTART = "will restart worker group"
_RANK = re.compile(r"^\s*rank\s+: (\d{1,6}) \(local_rank: \d+\)")
_EXIT_CODE = re.compile(r"^\s*exitcode\s+: (-?\d{1,9})\b")
_TIMEOUT = re.compile(
    r"\[Rank (\d{1,6})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w+)"
    r"(?:, NumelIn=(\d{1,18}), NumelOut=(\d{1,18}))?, Timeout\(ms\)=(\d{1,18})\)"
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
    log, tracebacks = JobLog(), _Tracebacks()
    table = _Table(log)
    for number, line in enumerate(lines):
        line = line.rstrip("\r\n")
        if _RESTART in line:  # what comes from now on is another attempt
            log, tracebacks = JobLog(), _Tracebacks()
            table = _Table(log)
        _read_nccl(log, line)
        if not table.read(line):
            tracebacks.read(line, number)
    tracebacks.tell(log)
    return log


@dataclass
class _Table:
    """The one that torchrun prints at the end: how each process ended."""

    log: JobLog
    is_begun: bool = False
    is_root_cause: bool = False
    rank: int | None = None

    def read(self, line: str) -> bool:
        """False if the line is no part of it."""
        is_first = line.strip() == "Failures:"
        if is_first or _ROOT_CAUSE in line:
            self.is_begun, self.is_root_cause = True, not is_first
        elif self.is_root_cause and self.rank is not None and line.startswith("===="):
            self.is_begun = self.is_root_cause = False  # other lines may follow, such as another node's log
        elif self.is_begun and (found := _RANK.match(line)):
            self.rank = int(found[1])
            if self.is_root_cause and self.log.root_cause is None:
                self.log.root_cause = self.rank
        elif self.is_begun and self.rank is not None and (found := _EXIT_CODE.match(line)):
            self.log.exit_codes.setdefault(self.rank, int(found[1]))
        return self.is_begun


class _Tracebacks:
    """The last one of each rank, and those that no rank has marked."""

    def __init__(self) -> None:
        self._of_ranks: dict[int, tuple[int, list[str]]] = {}
        self._of_others: list[tuple[int, list[str]]] = []

    def read(self, line: str, number: int) -> None:
        rank, text = _marked(line)
        if text.startswith(_TRACEBACK):
            begun = (number, [text])
            if rank is not None:
                self._of_ranks[rank] = begun
            else:
                self._of_others.append(begun)
        elif rank in self._of_ranks:
            self._of_ranks[rank][1].append(text)
        elif rank is None and self._of_others:
            self._of_others[-1][1].append(text)

    def tell(self, log: JobLog) -> None:
        found = {rank: _raised(lines, number) for rank, (number, lines) in self._of_ranks.items()}
        log.raised = {rank: raised for rank, raised in found.items() if raised is not None}
        others = [_raised(lines, number) for number, lines in self._of_others]
        log.without_rank = [raised for raised in others if raised is not None and raised.kind != _OF_TORCHRUN]


def _marked(line: str) -> tuple[int | None, str]:
    """The rank that marks a line (None: no rank does), and the rest of it."""
    prefix = _PREFIX.match(line)
    return (None, line) if prefix is None else (int(prefix[1] or prefix[2]), line[prefix.end() :])


def _read_nccl(log: JobLog, line: str) -> None:
    rank, _ = _marked(line)
    if found := _TIMEOUT.search(line):
        rank = int(found[1]) if rank is None else rank
        elements = int(found[4]) if found[4] else None
        timeout = Timeout(int(found[2]), read_operation(found[3]), elements, int(found[6]) / 1000)
        if rank not in log.timeouts or timeout.number < log.timeouts[rank].number:
            log.timeouts[rank] = timeout
    elif found := _STATUS.search(line):
        rank = int(found[2]) if rank is None else rank
        log.enqueued.setdefault(rank, int(found[3]))
        if rank in log.timeouts and found[1]:
            log.groups.add(found[1])


def _raised(traceback: list[str], number: int) -> Raised | None:
    """None if the exception itself is missing."""
    rest = [(n, line) for n, line in enumerate(traceback) if n and line and not line.startswith(" ")]
    if not rest or (found := _EXCEPTION.match(rest[0][1])) is None:
        return None
    at = rest[0][0]
    continued = itertools.takewhile(lambda line: line[:1].isspace(), traceback[at + 1 :])
    message = "\n".join([found[2] or "", *continued]).rstrip()
    frames = tuple(_frames(traceback[:at]))
    own = tuple(frame for frame in frames if not is_installed(frame.file) and not frame.file.startswith("<frozen"))
    text = "\n".join(traceback[: at + 1])
    return Raised(found[1].rpartition(".")[2], message, own or frames, text, float(number))


def _frames(lines: list[str]) -> Iterator[Frame]:
    for line, text in zip(lines, [*lines[1:], ""], strict=True):
        if found := _FRAME.match(line):
            yield Frame(found[1], int(found[2]), found[3] or "", "" if _FRAME.match(text) else text.strip())
