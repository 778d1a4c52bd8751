"""One line about this machine, for a mail to the instructor: what the doctor saw, and nothing that tells who or where.

No name of a person, machine or folder is in it. A short sum at its end notices a letter that was mistyped; where a mail
program has broken or quoted the line, it is still read.
"""

from __future__ import annotations

import platform
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ddp_lessons import __version__
from ddp_lessons.workshop import doctor
from ddp_lessons.workshop.doctor import Finding
from ddp_lessons.workshop.free_memory import free_memory
from ddp_lessons.workshop.remedies import version

FIRST = "ddp-lessons-ticket"
FACTS = (
    *("course", "system", "python", "torch", "torchvision", "jupyterlab"),
    *("cores", "memory", "ranks", "digits", "gpu", "problems"),
)
NONE = "none"

_LETTERS = "234567abcdefghijkmnpqrstuvwxyz"  # none that looks like another one
_SUM_LETTERS = 5
_LONGEST = 700
_LONGEST_GAP = 60  # behind the first word, where a mail program has broken and quoted the line
_BEGINS = re.compile(r";|.?course", re.IGNORECASE)
_LONGEST_FACT = 200
_FAILURE = re.compile(r"\w+(Error|Exception|Stuck|Failed|Expired)\b")


@dataclass(frozen=True)
class Ticket:
    """What a line says; `sum_fits` is false where a letter of it was changed on the way."""

    facts: Mapping[str, str]
    sum_fits: bool = True

    @property
    def is_ready(self) -> bool:
        return self.problems == ()

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(name for name in self.facts["problems"].split(",") if name != NONE)

    def __str__(self) -> str:
        body = "; ".join(f"{name}:{self.facts[name]}" for name in FACTS)
        return f"{FIRST}; {body}; check:{_sum_of(body)}"


def ticket(findings: Mapping[str, Finding]) -> Ticket:
    """What the doctor's findings come to."""
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


def tickets_in(text: str) -> Iterator[tuple[int, int, Ticket]]:
    """Every ticket of a text, with its beginning and its end there; a sentence about tickets is none."""
    for found in re.finditer(re.escape(FIRST), text, re.IGNORECASE):
        rest = text[found.end() : found.end() + _LONGEST]
        if not _BEGINS.match(re.sub(r"[\s>|]", "", rest[:_LONGEST_GAP])):
            continue
        end = re.search(rf"check\s*:[\s>|]*([0-9a-z](?:[\s>|]*[0-9a-z]){{{_SUM_LETTERS - 1}}})", rest, re.IGNORECASE)
        whole = rest[: end.end()] if end else rest.partition("\n\n")[0]
        if FIRST not in whole.lower():
            yield found.start(), found.end() + len(whole), _read(whole)


def _read(line: str) -> Ticket:
    plain = re.sub(r"[\s>|]", "", line)
    body, _, total = plain.lower().rpartition(";check:")
    body = body.strip(";")
    given = dict(part.partition(":")[::2] for part in re.sub(r";check:.*", "", plain, flags=re.IGNORECASE).split(";"))
    known = {name.lower(): fact for name, fact in given.items()}
    facts = {name: _harmless(known.get(name) or "?")[:_LONGEST_FACT] for name in FACTS}
    return Ticket(facts, sum_fits=total != "" and total == _sum_of(body))


def _sum_of(body: str) -> str:
    """Neither spaces nor capitals count: they do not survive a mail."""
    number, letters = zlib.crc32(re.sub(r"\s", "", body).lower().encode()), ""
    for _ in range(_SUM_LETTERS):
        number, letter = divmod(number, len(_LETTERS))
        letters += _LETTERS[letter]
    return letters


def _harmless(fact: str) -> str:
    """Whoever wrote it: no control character for a terminal, and no mark-up."""
    return re.sub(r"[^\w.+,()?-]", "-", fact, flags=re.ASCII)


def _system() -> str:
    system, machine, age = platform.system(), platform.machine(), ""
    if system == "Linux":
        age = "".join(platform.libc_ver()) + ("-WSL" if "microsoft" in platform.release().lower() else "")
    elif system == "Darwin":
        system, age = "macOS", platform.mac_ver()[0]
    elif system == "Windows":
        age = platform.release()
    return "-".join(filter(None, (system, machine, age)))


def _memory() -> str:
    try:
        import psutil

        return f"{free_memory() / 1e9:.1f}of{psutil.virtual_memory().total / 1e9:.1f}GB"
    except Exception:  # not installed, or broken: then the doctor's check says so
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
    """The check's name, and what kind of failure it was; not its words, which may name a folder."""
    failure = _FAILURE.match(finding.found)
    kind = "(missing)" if finding.found.endswith("is not installed") else f"({failure[0]})" if failure else ""
    return check.replace(" ", "-") + kind
