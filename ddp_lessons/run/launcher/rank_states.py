"""The state of each rank when a launch failed: plain data, from which the messages are made."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field

from ddp_lessons.run.launcher.limits import Limits
from ddp_lessons.run.wire.messages import Frame, Raised


@dataclass(frozen=True)
class Position:
    """Where the main thread of a rank was, outermost frame first."""

    frames: tuple[Frame, ...]
    is_silent: bool = False  # it did not answer a request or a signal: its process is stopped


@dataclass(frozen=True)
class Died:
    """A rank's process exited without a message."""

    exit_code: int | None  # minus the signal that killed it
    frames: tuple[Frame, ...]
    last_words: tuple[str, ...]
    moment: float
    is_seen: bool = True  # False: the exit code is unknown
    lost_node: str = ""  # the connection to this node was lost

    @property
    def signal_name(self) -> str:
        """The signal that killed it, "" if none did."""
        if self.exit_code is None or self.exit_code >= 0:
            return ""
        try:
            return signal.Signals(-self.exit_code).name
        except ValueError:
            return f"signal {-self.exit_code}"


@dataclass(frozen=True)
class Account:
    """The state of each rank."""

    world_size: int
    ended: Mapping[int, Raised | Died]
    positions: Mapping[int, Position]
    returned: frozenset[int]
    patience_seconds: float | None = None
    seconds: float = 0.0
    seconds_at_line: Mapping[int, float] = field(default_factory=dict)
    not_asked: frozenset[int] = frozenset()  # ranks that were not selected
    limits: Limits = field(default_factory=Limits)
    nodes: tuple[str, ...] = ()  # of each rank; "" for this machine
    has_begun: bool = True  # False: the time was up while the ranks were starting
