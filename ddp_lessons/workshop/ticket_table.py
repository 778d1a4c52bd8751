"""Collect the tickets that participants mailed, and make one table: who is ready, who is not and why, what to bring."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons import __version__
from ddp_lessons.check.judging.report import table
from ddp_lessons.workshop.mails import Letter, letters, quotes, sender, shown
from ddp_lessons.workshop.ticket import FIRST, NONE, Ticket, tickets_in

_NAMED_AT_MOST = 30
_PACKED_FOR = {
    "Linux-x86_64": "linux",
    "Linux-aarch64": "linux-arm",
    "macOS-arm64": "macos",
    "Windows-AMD64": "windows",
}
_PACKED_PYTHONS = ("3.10", "3.11", "3.12", "3.13")


@dataclass(frozen=True)
class Participant:
    name: str
    ticket: Ticket

    def __getitem__(self, fact: str) -> str:
        return self.ticket.facts[fact]

    @property
    def minor(self) -> str:
        return ".".join(self["python"].split(".")[:2])

    @property
    def is_packed_for(self) -> bool:
        return self.system in _PACKED_FOR and self.minor in _PACKED_PYTHONS

    @property
    def system(self) -> str:
        return "-".join(self["system"].split("-")[:2])


def collect(place: str) -> int:
    """Print the table of all tickets in a file, or in a folder and below; return 1 if one of them could not be read."""
    path = Path(place).expanduser()
    if not path.exists():
        print(f"There is no file or folder {place}.", file=sys.stderr)
        return 1
    read = list(letters(path))
    found, without = _sort([letter for letter in read if isinstance(letter, Letter)])
    people, mistyped = [one for one in found if one.ticket.sum_fits], [one for one in found if not one.ticket.sum_fits]
    faults = [str(error) for error in read if isinstance(error, OSError)]
    faults += [
        f"{one.name}: a letter of this ticket was changed, or its end is missing. Ask for it again." for one in mistyped
    ]
    if people:
        print("\n".join(_who_is_ready(people, len(read))))
        print("\n".join(["", *_what_to_bring(people)]))
    elif not faults:
        faults.append(f"No ticket was found in {place}. A ticket is a line that begins with {FIRST}.")
    if without:
        more = f" and {len(without) - _NAMED_AT_MOST} more" * (len(without) > _NAMED_AT_MOST)
        names = ", ".join(without[:_NAMED_AT_MOST])
        faults.append(f"No ticket in: {names}{more}. Read these: probably failed installations.")
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


def _sort(read: Sequence[Letter]) -> tuple[list[Participant], list[str]]:
    """The participants, and who wrote without a ticket.

    Who wrote twice counts with the later ticket; one that fits, before one that does not.
    """
    last: dict[str, Participant] = {}
    silent = []
    for letter in read:
        people = _participants(letter)
        if not people:
            silent.append(letter.who)
        for one in people:
            earlier = last.get(one.name.casefold())
            if earlier is None or one.ticket.sum_fits or not earlier.ticket.sum_fits:
                last[one.name.casefold()] = one
    without = [who for who in dict.fromkeys(silent) if who.casefold() not in last]
    return sorted(last.values(), key=lambda one: one.name.casefold()), without


def _participants(letter: Letter) -> list[Participant]:
    """A list has a name before each ticket; a mail has one ticket, and maybe the instructor's example, quoted."""
    found = list(tickets_in(letter.text))
    right = [place for place, _, ticket in found if ticket.sum_fits]
    file, people, start = letter.place.rpartition(".")[0] or letter.place, [], 0
    for number, (place, end, ticket) in enumerate(found, start=1):
        wrote, before = sender(letter.text[start:], place - start), _before(letter.text, place)
        is_the_only_one = len(found) == 1 or (ticket.sum_fits and len(right) == 1)
        name = wrote if wrote and is_the_only_one else before or wrote
        depth = min((quotes(letter.text, good) for good in right), default=0)
        if ticket.sum_fits:
            start = end
        elif right and (not name or quotes(letter.text, place) > depth):
            continue
        otherwise = file if is_the_only_one else f"{file}, ticket {number}"
        people.append(Participant(name or otherwise, ticket))
    return people


def _before(text: str, place: int) -> str:
    """The name that stands before a ticket in its line."""
    line = text[text.rfind("\n", 0, place) + 1 : place].lstrip(' \t\r>|*`"-').rstrip(' \t\r:,;=*`"-')
    return shown(line) if re.search(r"\w", line) else ""


def _who_is_ready(people: Sequence[Participant], read: int) -> list[str]:
    ready = sum(one.ticket.is_ready for one in people)
    rows = [["participant", "ready", "system", "Python", "torch", "cores", "memory", "ranks", "digits"]]
    for one in people:
        shown = [one[fact] for fact in ("system", "python", "torch", "cores", "memory", "ranks", "digits")]
        rows.append([one.name, "yes" if one.ticket.is_ready else "NO", *shown])
    tickets, place = f"{len(people)} ticket{'s' * (len(people) != 1)}", "one mail or file"
    place = place if read == 1 else f"{read} mails or files"
    lines = [f"{tickets}: {ready} ready, {len(people) - ready} not; in {place}", *table(rows)]
    if ready < len(people):
        lines += ["", "Not ready:", *(f"    {one.name}: {_why(one)}" for one in people if not one.ticket.is_ready)]
    return lines


def _why(one: Participant) -> str:
    reasons = []
    for problem in one.ticket.problems:
        check = problem.partition("(")[0].replace("-", " ")
        if check == "torch and torchvision":
            both = f"torch {one['torch']} and torchvision {one['torchvision']} do not fit each other"
            reasons.append("torch is not installed" if one["torch"] == NONE else both)
        elif check == "Python":
            reasons.append(f"Python {one['python']} is too old")
        elif check == "memory":
            reasons.append(f"too little memory is free ({one['memory']})")
        elif not (one["torch"] == NONE and "(missing)" in problem):  # all of these follow from the first
            reasons.append(f"{check} fails{problem[len(check) :] and f' {problem[len(check) :]}'}")
    return "; ".join(reasons)


def _what_to_bring(people: Sequence[Participant]) -> list[str]:
    counts = {
        "without torch": sum(one["torch"] == NONE for one in people),
        "without MNIST": sum(one["digits"] == NONE for one in people),
        "with one core": sum(one["cores"] == "1" for one in people),
        "on Windows": sum(one.system.startswith("Windows") for one in people),
        "on Windows' Linux (WSL)": sum(one["system"].endswith("-WSL") for one in people),
        "with a GPU": sum(one["gpu"] == "yes" for one in people),
    }
    lines = [f"    {count} {words}" for words, count in counts.items() if count]
    lines += [*_other_courses(people), *_stick([one for one in people if one.is_packed_for], people)]
    return ["What to bring:", *lines] if lines else []


def _other_courses(people: Sequence[Participant]) -> list[str]:
    lines = []
    for one in people:
        if one["course"] != __version__:
            older = _numbers(one["course"]) < _numbers(__version__)
            what = "git pull, or the stick" if older else f"yours is {__version__}, and older"
            lines.append(f"    {one.name} has course {one['course']}: {what}")
    return lines


def _stick(packed: Sequence[Participant], people: Sequence[Participant]) -> list[str]:
    lines = []
    kinds = sorted({_PACKED_FOR[one.system] for one in packed})
    pythons = [python for python in _PACKED_PYTHONS if python in {one.minor for one in packed}]
    linux = [one for one in packed if one.system.startswith("Linux")]  # elsewhere there is one torch only
    gpus = [one.name for one in linux if one["gpu"] == "yes"]
    if kinds:
        torch = " TORCH=cpu" if linux and not gpus else ""
        helped = "all of them" if len(packed) == len(people) else f"{len(packed)} of {len(people)}"
        command = f'make offline FOR="{" ".join(kinds)}" PYTHONS="{" ".join(pythons)}"{torch}'
        lines += [f"For a stick that helps {helped}:", f"    {command}"]
    if gpus:
        lines.append(f"    (far smaller with TORCH=cpu, which leaves the GPU unused of: {', '.join(gpus)})")
    others = [one.name for one in people if one.system not in _PACKED_FOR]
    if others:
        lines.append(
            f"No wheels are packed for the systems of: {', '.join(others)}. Let them use a server or a browser."
        )
    odd = [f"{one.name} ({one['python']})" for one in people if one.system in _PACKED_FOR and one not in packed]
    if odd:
        tried = f"{_PACKED_PYTHONS[0]} to {_PACKED_PYTHONS[-1]}"
        lines.append(f"No wheels are packed for the Python of: {', '.join(odd)}. Let them install one of {tried}.")
    return lines


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]
