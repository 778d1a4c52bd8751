"""The messages between a notebook and its agent on a node. Bytes that the agent only relays follow as a buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

GREETING = "ddp-lessons agent: "  # before it, a login shell may print anything
SECONDS_OF_SILENCE = 30.0  # after which the other side is taken to be gone


@dataclass(frozen=True)
class Hello:
    """From an agent, once, as a line of JSON: nothing is unpickled before both sides know what they talk to."""

    version: str  # of this package
    python: str
    torch: str
    cores: int
    gpus: int
    folder: str  # its private folder, for files of its ranks
    module_path: list[str]
    environment: dict[str, str]
    addresses: dict[str, str]  # address -> interface, without loopback


@dataclass(frozen=True)
class OfRank:
    """To or from a rank: bytes of its channel."""

    number: int


@dataclass(frozen=True)
class Printed:
    """From a rank: what it printed; no bytes if its output is closed."""

    number: int


@dataclass(frozen=True)
class Crashing:
    """From a rank: what it wrote into its crash file."""

    number: int


@dataclass(frozen=True)
class Gone:
    """From an agent: this rank's channel is closed."""

    number: int


@dataclass(frozen=True)
class Ping:
    """To an agent, regularly: the notebook is there. The answer tells the time of both clocks."""

    sent: float


@dataclass(frozen=True)
class Pong:
    sent: float
    here: float  # time.monotonic() of the node


@dataclass(frozen=True)
class HasTorch:
    """From an agent: its template has imported torch."""


@dataclass(frozen=True)
class Ask:
    """To an agent: do this, and answer. `what` is one of the agent's methods."""

    what: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """From an agent: the result, or why there is none."""

    value: Any
    refusal: str = ""


Relayed = OfRank | Printed | Crashing | Gone | Ping | Pong | HasTorch | Ask | Answer
