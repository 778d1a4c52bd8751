"""Watch the machine's memory, and end the watched processes before it runs out."""

import threading
from dataclasses import dataclass, field

from .family import GIGABYTE, Family, available_memory

LEAST_AVAILABLE = GIGABYTE


@dataclass
class MemoryWatch:
    """Inside the `with`, it records the peak; below 1 GiB of free memory it kills the watched families."""

    before: int = field(default_factory=available_memory)
    least: int = field(default_factory=available_memory)
    families: list[Family] = field(default_factory=list)
    ran_out: bool = False
    stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> "MemoryWatch":
        threading.Thread(target=self.look, daemon=True).start()
        return self

    def __exit__(self, *reason: object) -> None:
        self.stop.set()

    def look(self) -> None:
        while not self.stop.wait(0.05):
            available = available_memory()
            self.least = min(self.least, available)
            if available < LEAST_AVAILABLE:
                self.ran_out = True
                for family in self.families:
                    family.kill()

    @property
    def peak(self) -> int:
        """Additional bytes in use at the peak."""
        return self.before - self.least
