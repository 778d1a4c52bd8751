"""The nodes of one `on=`: which ranks run where, at which address of the first node they meet, with which modules."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import time
import weakref
import zipfile
from collections.abc import Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from ddp_lessons.run.launcher.private_folders import module_path
from ddp_lessons.run.nodes.hosts import NodeLost, Nodes, WaitStopped, allow_open_files
from ddp_lessons.run.nodes.node_link import NodeLink
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.run.processes.process_sources import Process
from ddp_lessons.run.wire.messages import MARK, Start
from ddp_lessons.run.wire.relayed import TRAVELLED

_TICK_SECONDS = 0.05
_THIS = __name__.partition(".")[0]
_INSTALLED = re.compile(r"/(site|dist)-packages(/|$)|/lib/python3")
# what the notebook's environment may set for ranks elsewhere; the rest is the node's own
_TRAVEL = ("NCCL_", "GLOO_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "KMP_", "CUBLAS_", "TOKENIZERS_")


@dataclass(frozen=True)
class Place:
    """Where a rank runs."""

    link: NodeLink
    local_rank: int
    local_size: int
    address: str  # of the first node


class NodeGroup:
    """The connections to all nodes. They stay for the next launch."""

    def __init__(self, links: Sequence[NodeLink]) -> None:
        self.links, self._first = tuple(links), links[0]

    @property
    def is_usable(self) -> bool:
        return all(link.is_usable() for link in self.links)

    def places(self, world_size: int) -> list[Place]:
        """A place for each rank: neighbors on one node, and on each node as many as on the others, or one more."""
        used = self.links[:world_size]
        more, rest = divmod(world_size, len(used))
        sizes = [(link, more + (number < rest)) for number, link in enumerate(used)]
        address = self._first.hello.address
        return [Place(link, local_rank, size, address) for link, size in sizes for local_rank in range(size)]

    def take(self, places: Sequence[Place]) -> list[Process]:
        """New processes for these places, in their order."""
        by_node = itertools.groupby(place.link for place in places)
        return [process for link, ranks in by_node for process in link.bear(len(list(ranks)))]

    def gpus(self, world_size: int) -> int:
        """How many of the ranks have a GPU of their own."""
        places = self.places(world_size)
        return sum(place.local_rank < place.link.hello.gpus for place in places)

    def reserve_port(self) -> int:
        port: int = self._first.ask("reserve", self._first.hello.address)
        return port

    def give_back(self, port: int) -> None:
        with contextlib.suppress(OSError, NodeLost):
            self._first.ask("give_back", port)

    def import_ahead(self, modules: Set[str]) -> None:
        """Import these in future processes, without waiting for it."""
        for link in self.links:
            with contextlib.suppress(OSError, NodeLost):
                link.import_ahead(modules)

    def close(self) -> None:
        for link in self.links:
            link.close()


def start_there(start: Start, place: Place, process: Process, port: int) -> Start:
    """What the process needs to know if it becomes this rank on its node."""
    hello = place.link.hello
    threads = start.threads or max(1, hello.cores // place.local_size)
    asked_for = {name: value for name, value in start.environment.items() if name.startswith(_TRAVEL)}
    environment = {
        "OMP_NUM_THREADS": str(threads),
        **dict.fromkeys(("GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), hello.interface),
        **hello.environment,
        **asked_for,
        "RANK": str(start.rank),
        "WORLD_SIZE": str(start.world_size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_size),
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(port),
        MARK: str(process.number),
    }
    return replace(
        start,
        environment=environment,
        module_path=[
            *(f"{hello.folder}{TRAVELLED}{folder}" for folder in _own_folders()),
            *hello.module_path,
            *module_path(),
        ],
        crash_file=place.link.crash_file_of(process, start.crash_file),
        threads=threads,
        memory_bytes=None,
    )


_groups: weakref.WeakKeyDictionary[Nodes, NodeGroup] = weakref.WeakKeyDictionary()


def connected(nodes: Nodes) -> NodeGroup:
    """The connections to these nodes: those of the last launch there, or new ones."""
    group = _groups.get(nodes)
    if group is None or not group.is_usable:
        disconnect(nodes)
        _groups[nodes] = group = _new_group(nodes)
    return group


def disconnect(nodes: Nodes) -> None:
    if (group := _groups.pop(nodes, None)) is not None:
        group.close()


def ready_for_a_call(nodes: Nodes) -> None:
    """Measure each node's clock, and send it the modules of the notebook's own folders, unless it has got them.

    Raises:
        NodeLost: a node is lost, or all were given back.
    """
    if nodes not in _groups:
        raise NodeLost("the nodes were released, which ended their ranks.\n  Next: start new ranks.")
    modules = frozenset((file, os.stat(file).st_mtime_ns) for file in _own_modules())
    for link in _groups[nodes].links:
        link.set_clock()
        if link.modules_sent != modules:
            link.ask("take_modules", _zipped(modules))
            link.modules_sent = modules


def _own_modules() -> list[str]:
    """The files in the notebook's own folders that `import` finds there: Python files and packages."""
    found: list[str] = []
    for folder in _own_folders():
        for entry in os.scandir(folder):
            is_package = os.path.isfile(os.path.join(entry.path, "__init__.py")) and entry.name != _THIS
            places = os.walk(entry.path) if is_package else [(folder, [], [entry.name])]
            found += [os.path.join(place, name) for place, _, names in places for name in names]
    return [file for file in found if file.endswith(".py") and os.path.isfile(file)]  # a lock of Emacs is no file


def _own_folders() -> list[str]:
    folders = dict.fromkeys(map(os.path.abspath, module_path()))
    return [folder for folder in folders if os.path.isdir(folder) and not _INSTALLED.search(folder)]


@functools.lru_cache(maxsize=1)
def _zipped(modules: frozenset[tuple[str, int]]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as written:
        for file, _ in modules:
            written.write(file)
    return archive.getvalue()


def _new_group(nodes: Nodes) -> NodeGroup:
    """Connect to all at once, because each imports torch first. If one can't be reached, none stays."""
    allow_open_files()
    links = [NodeLink(command) for command in nodes.commands()]
    names, begin = ", ".join(link.name for link in links), time.monotonic()
    with ThreadPoolExecutor(len(links)) as several, ProgressLine() as line:
        greeted = [several.submit(link.greet) for link in links]
        try:
            while wait(greeted, _TICK_SECONDS).not_done:
                line.show(f"waiting for {names} … {time.monotonic() - begin:.0f} s")
                for one in filter(Future.done, greeted):
                    one.result()
            for one in greeted:
                one.result()
        except BaseException as error:
            for link in links:
                link.close()
            if isinstance(error, KeyboardInterrupt):
                raise WaitStopped(f"you stopped waiting for {names}, so no rank was started") from None
            raise
    return NodeGroup(links)
