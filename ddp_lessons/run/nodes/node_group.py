"""The nodes of one `on=`: who runs which ranks, and at which address of the first node they meet."""

from __future__ import annotations

import contextlib
import itertools
import time
import weakref
from collections.abc import Sequence, Set
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from ddp_lessons.run.launcher.private_folders import module_path
from ddp_lessons.run.launcher.shortages import FILES_OF_A_RANK, allow_open_files
from ddp_lessons.run.nodes.node_commands import NodeCommand, NodeLost, Nodes, WaitStopped
from ddp_lessons.run.nodes.node_link import NodeLink
from ddp_lessons.run.output.progress_line import ProgressLine
from ddp_lessons.run.processes.process_sources import Process
from ddp_lessons.run.wire.messages import MARK, Start

_TICK_SECONDS = 0.05
_SECONDS_TO_REACH_AGAIN = 1.5  # it has been reached before; a lost packet is repeated after one second
_LOOPBACK = ("127.0.0.1", "lo")
# what the notebook's environment may set for ranks elsewhere; the rest is the node's own
_TRAVEL = ("NCCL_", "GLOO_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "KMP_", "CUBLAS_", "TOKENIZERS_")


@dataclass(frozen=True)
class Place:
    """Where a rank runs."""

    link: NodeLink
    local_rank: int
    local_size: int
    address: str  # of the first node
    interface: str  # by which this node reaches the others
    addresses: frozenset[str]  # of all nodes


class NodeGroup:
    """The connections to all nodes. They stay for the next launch."""

    def __init__(self, links: Sequence[NodeLink]) -> None:
        self.links = tuple(links)
        self.address, self._interfaces = _meeting_address(self.links)

    @property
    def is_usable(self) -> bool:
        return all(link.is_usable() for link in self.links)

    def places(self, world_size: int) -> list[Place]:
        """A place for each rank: neighbors on one node, and on each node as many as on the others, or one more."""
        used = self.links[:world_size]
        more, rest = divmod(world_size, len(used))
        sizes = [more + (number < rest) for number in range(len(used))]
        addresses = frozenset(address for link in used for address in link.hello.addresses)
        return [
            Place(link, local_rank, size, self.address, interface, addresses)
            for link, size, interface in zip(used, sizes, self._interfaces, strict=False)
            for local_rank in range(size)
        ]

    def take(self, places: Sequence[Place]) -> list[Process]:
        """New processes for these places, in their order."""
        allow_open_files(FILES_OF_A_RANK * len(places))
        by_node = itertools.groupby(place.link for place in places)
        return [process for link, ranks in by_node for process in link.bear(len(list(ranks)))]

    def gpus(self, world_size: int) -> int:
        """How many of the ranks have a GPU of their own."""
        places = self.places(world_size)
        return sum(place.local_rank < place.link.hello.gpus for place in places)

    def reserve_port(self) -> int:
        port: int = self.links[0].ask("reserve", self.address)
        return port

    def give_back(self, port: int) -> None:
        with contextlib.suppress(OSError, NodeLost):
            self.links[0].ask("give_back", port)

    def why_apart(self, world_size: int) -> str:
        """Asks each node of these ranks whether it still reaches the first one; "" if all do."""
        first, *others = dict.fromkeys(place.link for place in self.places(world_size))
        port = first.ask("listen") if others else 0
        try:
            for link in others:
                if not link.ask("reach", [self.address], port, _SECONDS_TO_REACH_AGAIN):
                    both = f"{first.name} and {link.name}"
                    return (
                        f"{link.name} does not reach {first.name} any more ({self.address}), so their ranks can't "
                        "meet. No function was called.\n"
                        f"  Next: check that {both} are up, and that each can connect to the other on any port; then "
                        "launch again."
                    )
        finally:
            if others:
                first.ask("give_back", port)
        return ""

    def import_ahead(self, modules: Set[str]) -> None:
        """Import these in future processes, without waiting for it."""
        for link in self.links:
            with contextlib.suppress(OSError, NodeLost):
                for module in sorted(modules - link.imported):
                    link.import_ahead(module)

    def close(self) -> None:
        for link in self.links:
            link.close()


def start_there(start: Start, place: Place, process: Process, port: int) -> Start:
    """What the process needs to know if it becomes this rank on its node."""
    link = place.link
    threads = start.threads or max(1, link.hello.cores // place.local_size)
    asked_for = {name: value for name, value in start.environment.items() if name.startswith(_TRAVEL)}
    environment = {
        "OMP_NUM_THREADS": str(threads),
        **link.hello.environment,
        **asked_for,
        "GLOO_SOCKET_IFNAME": place.interface,
        "TP_SOCKET_IFNAME": place.interface,
        "NCCL_SOCKET_IFNAME": asked_for.get("NCCL_SOCKET_IFNAME", place.interface),
        "RANK": str(start.rank),
        "WORLD_SIZE": str(start.world_size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.local_size),
        "MASTER_ADDR": place.address,
        "MASTER_PORT": str(port),
        MARK: str(process.number),
    }
    if "SLURM_PROCID" in environment:  # of the agent, the only task of its step
        environment |= {
            "SLURM_PROCID": str(start.rank),
            "SLURM_NTASKS": str(start.world_size),
            "SLURM_NPROCS": str(start.world_size),
            "SLURM_LOCALID": str(place.local_rank),
        }
    return replace(
        start,
        environment=environment,
        module_path=[*link.hello.module_path, *module_path()],
        meeting_file="",
        crash_file=link.crash_file_of(process, start.crash_file),
        threads=threads,
        memory_bytes=None,
        addresses=place.addresses,
    )


_groups: weakref.WeakKeyDictionary[Nodes, NodeGroup] = weakref.WeakKeyDictionary()


def connected(nodes: Nodes) -> NodeGroup:
    """The connections to these nodes: those of the last launch there, or new ones."""
    group = _groups.get(nodes)
    if group is None or not group.is_usable:
        if group is not None:
            group.close()
        _groups[nodes] = group = NodeGroup(_all_links(nodes.commands()))
    return group


def disconnect(nodes: Nodes) -> None:
    if (group := _groups.pop(nodes, None)) is not None:
        group.close()


def _all_links(commands: Sequence[NodeCommand]) -> list[NodeLink]:
    """All at once, because each starts a Python first. If one cannot be had, none stays."""
    links = [NodeLink(command) for command in commands]
    names, begin = ", ".join(link.name for link in links), time.monotonic()
    with ThreadPoolExecutor(len(links)) as several, ProgressLine() as line:
        greeted = [several.submit(link.greet) for link in links]
        try:
            while wait(greeted, _TICK_SECONDS).not_done:
                line.show(f"waiting for {names} … {time.monotonic() - begin:.0f} s")
            for one in greeted:
                one.result()
        except BaseException as error:
            for link in links:
                link.give_up()
            if isinstance(error, KeyboardInterrupt):
                raise WaitStopped(f"you stopped waiting for {names}, so no rank was started") from None
            raise
    return links


def _meeting_address(links: Sequence[NodeLink]) -> tuple[str, list[str]]:
    """An address of the first node that all others reach, and by which interface each node does."""
    first, others = links[0], links[1:]
    if not others:
        return _LOOPBACK[0], [_LOOPBACK[1]]
    port = first.ask("listen")
    offered = dict.fromkeys(first.hello.addresses)
    interfaces: dict[str, list[str]] = {address: [first.hello.addresses[address]] for address in offered}
    for link in others:
        reached = dict(link.ask("reach", list(offered), port))
        offered = {address: None for address in offered if address in reached}
        if not offered:
            first.ask("give_back", port)
            there = ", ".join(first.hello.addresses) or "it has only a loopback interface"
            raise NodeLost(
                f"{link.name} reaches {first.name} at none of its addresses ({there}), so their ranks can't meet. "
                "Next: let the nodes connect to each other on any port, or use nodes of one network"
            )
        for address in offered:
            interfaces[address].append(link.hello.addresses.get(reached[address], ""))
    first.ask("give_back", port)
    chosen = next(iter(offered))
    return chosen, interfaces[chosen]
