"""The doctor's findings, as one line of JSON for the instructor, without personal data.

It contains no name of a person, machine or folder. The line is printed, and written to a file for sending.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons import __version__
from ddp_lessons.workshop import doctor
from ddp_lessons.workshop.doctor import Finding
from ddp_lessons.workshop.free_memory import free_memory
from ddp_lessons.workshop.remedies import version

FILE = "ddp-lessons-ticket.json"
FACTS = (
    *("course", "system", "python", "torch", "torchvision", "jupyterlab"),
    *("cores", "memory", "ranks", "digits", "gpu", "problems"),
)
NONE = "none"
MARK = "ddp-lessons-ticket"
BEGIN = re.compile(r"\{\s*\W?" + MARK)  # even if a mail program has changed the quotes
_FORMAT = 1
_LONGEST, _LONGEST_FACT = 4_000, 200
_FAILURE = re.compile(r"\w+(Error|Exception|Stuck|Failed|Expired)\b")


class NotWhole(ValueError):
    """A line starts like a ticket but is not one, for example because a mail program has broken it."""


@dataclass(frozen=True)
class Ticket:
    facts: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        return self.problems == ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(name for name in self.facts["problems"].split(",") if name not in ("", NONE))

    def __str__(self) -> str:
        return json.dumps({MARK: _FORMAT, **{name: self.facts[name] for name in FACTS}})


def ticket(findings: Mapping[str, Finding]) -> Ticket:
    """The ticket for the doctor's findings."""
    facts = {
        "course": __version__,
        "system": _system(),
        "python": platform.python_version(),
        **{name: version(name) or NONE for name in ("torch", "torchvision", "jupyterlab")},
        "cores": _number(findings, "cores", r"(\d+) core"),
        "memory": _memory(),
        "ranks": _ranks(findings),
        "digits": _digits(findings.get("MNIST")),
        "gpu": "yes" if "GPU" in findings and re.search(r"with(out)? NCCL$", findings["GPU"].found) else "no",
        "problems": ",".join(_problem(name, found) for name, found in findings.items() if found.verdict == "PROBLEM"),
    }
    return Ticket({name: _harmless(fact or NONE) for name, fact in facts.items()})


def hand_out(made: Ticket) -> str:
    """Write the ticket into a file of the current folder, if it is writable, and return the message."""
    try:
        Path(FILE).write_text(f"{made}\n", encoding="utf-8")
        how = f"it is in {FILE}. Send this file to your instructor, or copy this whole line:"
    except OSError:
        how = "copy this whole line, and send it to your instructor:"
    return f"Your ticket: {how}\n{made}"


def read_ticket(line: str) -> Ticket | None:
    """The ticket in a line, or None."""
    if not (begin := BEGIN.search(line)):
        return None
    try:
        given, _ = json.JSONDecoder().raw_decode(line[begin.start() : begin.start() + _LONGEST])
        if set(given) != {MARK, *FACTS} or given[MARK] != _FORMAT:
            raise NotWhole
    except (ValueError, RecursionError):
        raise NotWhole from None
    return Ticket({name: _harmless(str(given[name]))[:_LONGEST_FACT] for name in FACTS})


def _harmless(fact: str) -> str:
    """Tickets may come from anyone: remove control characters and mark-up."""
    return re.sub(r"[^\w.+,()?-]", "-", fact, flags=re.ASCII)


def _system() -> str:
    system, machine, age = platform.system(), platform.machine(), ""
    if system == "Linux":
        age = "".join(platform.libc_ver()) + ("-WSL" if "microsoft" in platform.release().lower() else "")
    elif system == "Darwin":
        system, age = "macOS", platform.mac_ver()[0]
    return "-".join(filter(None, (system, machine, age)))


def _memory() -> str:
    try:
        import psutil

        return f"{free_memory() / 1e9:.1f}of{psutil.virtual_memory().total / 1e9:.1f}GB"
    except Exception:  # not installed, or broken; the doctor's check reports this
        return "?"


def _number(findings: Mapping[str, Finding], check: str, pattern: str) -> str:
    found = re.search(pattern, findings[check].found) if check in findings else None
    return found[1] if found else "?"


def _ranks(findings: Mapping[str, Finding]) -> str:
    if findings["gloo"].verdict == "PROBLEM":
        return "no"
    return f"{doctor.RANKS}in{_number(findings, 'launch', r'([0-9.]+) s for')}s"


def _digits(finding: Finding | None) -> str:
    return "MNIST" if finding is not None and finding.verdict == "ok" else NONE


def _problem(check: str, finding: Finding) -> str:
    """The check's name and the kind of failure, but not its message, which may name a folder."""
    failure = _FAILURE.match(finding.found)
    kind = "(missing)" if finding.found.endswith("is not installed") else f"({failure[0]})" if failure else ""
    return check.replace(" ", "-") + kind
