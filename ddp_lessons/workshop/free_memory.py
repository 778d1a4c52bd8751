"""How much memory is free, as far as this machine, and the container or slice that we are in, let us have it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_SYSTEM = Path("/")


def free_memory(root: Path = _SYSTEM) -> int:
    """In bytes. `root`: where /proc and /sys are looked for."""
    import psutil

    return int(min([psutil.virtual_memory().available, *_left_in_groups(root)]))


def _left_in_groups(root: Path) -> Iterator[int]:
    """What each group of processes that holds us has left: of cgroups of version 2, and of version 1."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers == "":
                mount, limit, used = root / "sys/fs/cgroup", "memory.max", "memory.current"
            elif "memory" in controllers.split(","):
                mount, limit, used = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            else:
                continue
            inner = mount / path.lstrip("/")
            # in a container the path may be the host's; what holds us is then at the mount itself
            for group in [inner, *inner.parents] if inner.is_dir() else [mount]:
                yield from _left(group / limit, group / used, group)
                if group == mount:
                    break


def _left(limit: Path, used: Path, group: Path) -> Iterator[int]:
    with contextlib.suppress(OSError, ValueError):  # "max": no limit
        most, now = int(limit.read_text()), 0
        with contextlib.suppress(OSError, ValueError):
            now = int(used.read_text()) - _can_be_dropped(group)
        yield max(0, most - now)


def _can_be_dropped(group: Path) -> int:
    """Of what the group uses: files that were read, which the system keeps only as long as nobody needs the room."""
    with contextlib.suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, amount = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(amount)
    return 0
