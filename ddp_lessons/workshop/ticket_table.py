"""Make one table of participants' tickets: which machines are ready, which are not and why, and what to bring."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons import __version__
from ddp_lessons.check.report import table
from ddp_lessons.workshop.ticket import BEGIN, FILE, NONE, NotWhole, Ticket, read_ticket

_NAMED_AT_MOST, _SHOWN_OF_A_NAME = 30, 28
_MOST_BYTES = 5_000_000  # a ticket has about half a kilobyte
_ROUND_A_NAME = " \t>|:,;=*`\"'-"
_PACKED_FOR = {
    "Linux-x86_64": "linux",
    "Linux-aarch64": "linux-arm",
    "macOS-arm64": "macos",
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
    people, without, faults = _read_all(path)
    if people:
        print("\n".join(_who_is_ready(people)))
        print("\n".join(["", *_what_to_bring(people)]))
    elif not faults:
        faults.append(f"No ticket was found in {place}. A ticket is the file {FILE}, or the line in it.")
    if without:
        more = f" and {len(without) - _NAMED_AT_MOST} more" * (len(without) > _NAMED_AT_MOST)
        names = ", ".join(without[:_NAMED_AT_MOST])
        faults.append(f"No ticket in: {names}{more}. Read these: probably failed installations.")
    for fault in faults:
        print(fault, file=sys.stderr)
    return int(bool(faults))


def _read_all(path: Path) -> tuple[list[Participant], list[str], list[str]]:
    """The participants, the files without a ticket, and the faults. A later ticket replaces an earlier one."""
    last: dict[str, Participant] = {}
    without, faults = list[str](), list[str]()
    folder = path.resolve() if path.is_dir() else None
    for file in sorted(path.rglob("*")) if folder else [path]:
        place = file.relative_to(path) if folder else Path(file.name)
        name = without_controls(place.as_posix())
        try:
            if any(part.startswith(".") for part in place.parts) or not file.is_file():
                continue  # an editor's file, or a folder
            found, broken = _read_one(file, folder)
        except (OSError, ValueError) as error:
            faults.append(f"{name} could not be read: {getattr(error, 'strerror', None) or error}")
            continue
        last |= {one.name.casefold(): one for one in found}
        faults += [f"{who}: this ticket is incomplete. Ask for the file {FILE}." for who in broken[:_NAMED_AT_MOST]]
        without += [name] * (not found and not broken)
    return sorted(last.values(), key=lambda one: one.name.casefold()), without, faults


def _read_one(file: Path, folder: Path | None) -> tuple[list[Participant], list[str]]:
    """The participants, and the senders of incomplete tickets. The content is untrusted text."""
    if folder and not file.resolve().is_relative_to(folder):
        raise ValueError("it is a link that leads out of this folder")
    if file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"it is larger than {_MOST_BYTES // 1_000_000} MB")
    people, broken = list[Participant](), list[str]()
    for line in file.read_text(encoding="utf-8-sig", errors="replace").splitlines():
        name = _shown(BEGIN.split(line, 1)[0].strip(_ROUND_A_NAME)) or _sender(file, folder)
        try:
            if read := read_ticket(line):
                people.append(Participant(name, read))
        except NotWhole:
            broken.append(name)
    return people, list(dict.fromkeys(broken))


def _sender(file: Path, folder: Path | None) -> str:
    """The file's name, or that of its folder if the file still has the doctor's file name."""
    is_as_given = re.fullmatch(rf"{re.escape(Path(FILE).stem)}( ?\(\d+\))?", file.stem)
    return _shown(file.parent.name if is_as_given and folder and file.parent.resolve() != folder else file.stem)


def without_controls(text: str) -> str:
    """The text without characters that control a terminal."""
    return "".join(letter for letter in text if letter.isprintable())


def _shown(name: str) -> str:
    name = without_controls(name)
    return name if len(name) <= _SHOWN_OF_A_NAME else f"{name[: _SHOWN_OF_A_NAME - 3]}..."


def _who_is_ready(people: Sequence[Participant]) -> list[str]:
    ready = sum(one.ticket.is_ready for one in people)
    rows = [["participant", "ready", "system", "Python", "torch", "cores", "memory", "ranks", "digits"]]
    for one in people:
        shown = [one[fact] for fact in ("system", "python", "torch", "cores", "memory", "ranks", "digits")]
        rows.append([one.name, "yes" if one.ticket.is_ready else "NO", *shown])
    tickets = f"{len(people)} ticket{'s' * (len(people) != 1)}"
    lines = [f"{tickets}: {ready} ready, {len(people) - ready} not", *table(rows)]
    if ready < len(people):
        lines += ["", "Not ready:", *(f"    {one.name}: {_why(one)}" for one in people if not one.ticket.is_ready)]
    return lines


def _why(one: Participant) -> str:
    reasons = []
    for problem in one.ticket.problems:
        check = problem.partition("(")[0].replace("-", " ")
        if check == "torch and torchvision":
            both = f"torch {one['torch']} and torchvision {one['torchvision']} do not match"
            reasons.append("torch is not installed" if one["torch"] == NONE else both)
        elif check == "Python":
            reasons.append(f"Python {one['python']} is too old")
        elif check == "memory":
            reasons.append(f"too little memory is free ({one['memory']})")
        elif not (one["torch"] == NONE and "(missing)" in problem):  # these follow from the missing torch
            reasons.append(f"{check} fails{problem[len(check) :] and f' {problem[len(check) :]}'}")
    return "; ".join(reasons)


def _what_to_bring(people: Sequence[Participant]) -> list[str]:
    counts = {
        "without torch": sum(one["torch"] == NONE for one in people),
        "without MNIST": sum(one["digits"] == NONE for one in people),
        "with one core": sum(one["cores"] == "1" for one in people),
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
            what = "git pull, or the stick" if older else f"yours is older: {__version__}"
            lines.append(f"    {one.name} has course {one['course']}: {what}")
    return lines


def _stick(packed: Sequence[Participant], people: Sequence[Participant]) -> list[str]:
    lines = []
    kinds = sorted({_PACKED_FOR[one.system] for one in packed})
    pythons = [python for python in _PACKED_PYTHONS if python in {one.minor for one in packed}]
    linux = [one for one in packed if one.system.startswith("Linux")]  # other systems have only one build of torch
    gpus = [one.name for one in linux if one["gpu"] == "yes"]
    if kinds:
        torch = " TORCH=cpu" if linux and not gpus else ""
        helped = "all of them" if len(packed) == len(people) else f"{len(packed)} of {len(people)}"
        command = f'make offline FOR="{" ".join(kinds)}" PYTHONS="{" ".join(pythons)}"{torch}'
        lines += [f"For a stick that helps {helped}:", f"    {command}"]
    if gpus:
        lines.append(f"    (far smaller with TORCH=cpu, but then torch does not use the GPU of: {', '.join(gpus)})")
    others = [one.name for one in people if one.system not in _PACKED_FOR]
    if others:
        lines.append(
            f"No wheels are packed for the systems of: {', '.join(others)}. They can use a shared machine or a browser."
        )
    odd = [f"{one.name} ({one['python']})" for one in people if one.system in _PACKED_FOR and one not in packed]
    if odd:
        tried = f"{_PACKED_PYTHONS[0]} to {_PACKED_PYTHONS[-1]}"
        lines.append(f"No wheels are packed for the Python of: {', '.join(odd)}. They can install Python {tried}.")
    return lines


def _numbers(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)]
