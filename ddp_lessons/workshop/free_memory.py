"""How much memory is free, within the limits of this machine and of our container or slice."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_SYSTEM = Path("/")


def free_memory(root: Path = _SYSTEM) -> int:
    """Free memory in bytes. `root`: where to look for /proc and /sys."""
    import psutil

    return int(min([psutil.virtual_memory().available, *_left_in_groups(root)]))


def _left_in_groups(root: Path) -> Iterator[int]:
    """What each of our cgroups has left, in version 2 and in version 1."""
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
            # in a container the path may be the host's; our group is then at the mount itself
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
    """The part of the group's memory that caches files, which the system frees when memory is needed."""
    with contextlib.suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, amount = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(amount)
    return 0
