"""What a notebook and its agent on a node say to each other. All else on their connection is the ranks' own bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GREETING = "ddp-lessons agent: "  # before it, a login shell may print anything
TRAVELLED = "/of-the-notebook"  # on a node: before the notebook's path of a module, in its path there


@dataclass(frozen=True)
class Hello:
    """From an agent, once, as a line of JSON: nothing is unpickled before both sides know what they talk to."""

    versions: dict[str, str]  # of Python, torch and this package
    cores: int
    gpus: int
    folder: str  # its private folder, for files of its ranks
    module_path: list[str]
    environment: dict[str, str]
    address: str  # at which the other nodes reach it
    interface: str  # that has this address


@dataclass(frozen=True)
class Relayed:
    """To an agent: call this method of yours. Back: the same number, with the value, or why there is none."""

    number: int
    method: str = ""
    arguments: tuple[Any, ...] = ()
    value: Any = None
    refusal: str = ""
