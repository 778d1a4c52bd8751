"""Tests that need more than Python: where that is missing they are skipped with a sentence, and in CI they fail.

Only what cannot be installed is left out in CI, too: a system that lets nobody make a network of his own.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import Protocol, TypeVar

import pytest

from ddp_lessons.machines import Attempt, Machines


def places_of(attempt: Attempt) -> list[tuple[str, str, str]]:
    """Rank, world size and machine, as the training script says them."""
    found = (re.match(r"rank (\d+) of (\d+) is .*on (machine\d+)$", line) for line in attempt.lines())
    return sorted({(match[1], match[2], match[3]) for match in found if match})


def reconnect(machines: Machines, machine: int) -> None:
    """Plug in a cable that was cut."""
    machines._wire(f"link set port{machine} up")


def leave_out(reason: str, can_be_installed: bool = True) -> None:
    """Skip this test with the sentence that says what is missing; in CI that is a failure, if it could be there."""
    if os.environ.get("CI") and can_be_installed:
        pytest.fail(f"CI has to have what this test needs: {reason}")
    pytest.skip(reason)


class MayBeMissing(Protocol):
    def why_not(self) -> str: ...


P = TypeVar("P", bound=MayBeMissing)


def here(place: P) -> P:
    """`place`, if it can be made on this machine."""
    if reason := place.why_not():
        leave_out(reason, can_be_installed=_the_system_lets_us_make_networks())
    return place


def _the_system_lets_us_make_networks() -> bool:
    """Asked without our own code, or its faults would pass for the system's."""
    wires = "ip link add switch type bridge && ip link add left type veth peer name right"
    spaces = ["--net", "--mount", "--uts", "--pid", "--fork", "--mount-proc"]
    try:
        subprocess.run(["ip", "-Version"], check=True, capture_output=True)
        return subprocess.run(["unshare", *spaces, "sh", "-c", wires]).returncode == 0
    except FileNotFoundError:
        return True  # both commands can be installed
