"""One figure of each kind, by name, from data that is the same in every run; few of them need a launch.

`.venv/bin/python tests/figure_catalog.py > tests/show/figures.txt` writes the words of all of them.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from recorded import BEGAN, call, record, record_work, ring_steps, token_round

from ddp_lessons import Results, show
from ddp_lessons.backends.backend_trials import JOIN, OUTCOMES, PLACES, Trial, Trials
from ddp_lessons.backends.calls import CALLS
from ddp_lessons.backends.under_mpirun import Ended
from ddp_lessons.machines import Attempt, Said
from ddp_lessons.machines.live_or_recorded import RECORDINGS, from_recording
from ddp_lessons.record.event import Event
from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded, Standing, Told
from ddp_lessons.train.digits import Digits
from ddp_lessons.train.ring import ring_all_reduce

COLLECTIVES = (
    "broadcast reduce all_reduce scatter gather all_gather reduce_scatter all_to_all barrier "
    "all_gather_into_tensor reduce_scatter_tensor all_to_all_single "
    "all_gather_object gather_object broadcast_object_list scatter_object_list"
).split()


def telling(events: Events, *told: Sequence[tuple[float, str, Mapping[str, float]]]) -> Results[None]:
    """Results in which each rank logged these: milliseconds, label, numbers."""
    by_rank = tuple(tuple(Told(moment / 1e3, label, dict(numbers)) for moment, label, numbers in own) for own in told)
    return Results((None,) * len(told), ([],) * len(told), 1.0, events, by_rank)


def phases(events: Events, *told: Sequence[tuple[float, str]]) -> Results[None]:
    return telling(events, *([(moment, label, {}) for moment, label in own] for own in told))


def stuck(*lanes: Sequence[Event]) -> Events:
    """Where no rank can make progress: each waits in its last call, and one without a call has returned."""
    held = [(len(lane) - 1,) if lane else () for lane in lanes]
    return Events(
        [Recorded(BEGAN, tuple(lane), standing=Standing(False, at)) for lane, at in zip(lanes, held, strict=True)]
    )


def circle(world_size: int) -> Events:
    """Each rank waits for a message of the next one."""
    return stuck(*([call("recv", 1 + rank, None, peer=(rank + 1) % world_size)] for rank in range(world_size)))


def one_missing() -> Events:
    """Rank 1 never calls the all_reduce in which the others wait."""
    own = [call("all_reduce", begin, None, group_ranks=range(3)) for begin in (1, 2)]
    return stuck([own[0]], [], [own[1]])


def barriers(last: float, nodes: Sequence[tuple[str, float]] = ()) -> Events:
    """Three ranks come one after the other, and leave together."""
    lanes = [[call("barrier", 10 * rank, last, group_ranks=range(3))] for rank in range(3)]
    return record(lanes, nodes=nodes)


def failures() -> Events:
    refused = call("all_gather", 3, None, group_ranks=(0, 1), issued=3.1, error="RuntimeError: invalid tensor size")
    failed = call("recv", 7, 9, peer=1, error="RuntimeError: closed")
    meetings = [call("barrier", 1, 2, group_ranks=(0, 1)), refused, call("all_reduce", 5, 6, group_ranks=(0, 1))]
    return record([[*meetings, failed], meetings])


def ddp() -> Events:
    """Two buckets in the background of a backward pass, in which both ranks compute."""
    both: dict[str, Any] = {"name": "DistributedDataParallel", "group_ranks": (0, 1), "waited": 80}
    calls = [call("all_reduce", begin, begin + 45, issued=begin + 1, bytes=4000, **both) for begin in (10, 30)]
    computing = [(0.0, 10.0, 10.0), (11.0, 30.0, 18.0), (31.0, 80.0, 25.0)]
    return record_work([computing, computing], record([calls, calls]))


def joins(world_size: int, missing: int | None = None) -> Events:
    """Rank 0 comes last; where none is missing, all of them then add up a tensor."""
    everyone, is_complete = range(world_size), missing is None
    together = [call("all_reduce", 610, 620, group_ranks=everyone)] * is_complete
    recorded = []
    for rank in everyone:
        variables = {"RANK": rank, "WORLD_SIZE": world_size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500}
        begin, end = 100 + rank if rank else 500, 600 if is_complete else None
        own = [call("init_process_group", begin, end, group="port 29500", group_ranks=everyone), *together]
        told = tuple((name, str(value)) for name, value in variables.items())
        recorded.append(Recorded(BEGAN, () if rank == missing else tuple(own), variables=told))
    return Events(recorded)


def pipelined(stages: int, batches: int) -> Events:
    """Every micro-batch goes through all stages, and its gradient comes back after the last one went forward."""
    last, both = stages - 1, 100 * (batches + stages)
    lanes: list[list[Event]] = [[] for _ in range(stages)]

    def hand_over(sender: int, receiver: int, at: float) -> None:
        lanes[sender].append(call("send", at, at + 2, peer=receiver))
        lanes[receiver].append(call("recv", at + 1, at + 3, peer=sender))

    for batch in range(batches):
        for rank in range(last):
            hand_over(rank, rank + 1, 100 * (batch + rank) + 50)
            hand_over(last - rank, last - rank - 1, both + 100 * (batch + rank) + 50)
    return record([sorted(lane, key=lambda event: event.begin) for lane in lanes])


def trained(calls: Mapping[int, str], optimizer: int) -> Results[None]:
    """A training step of two ranks: the calls of its phases by number, and the bytes of the optimizer state."""
    gradients = {"forward": 0, "backward": 0, "optimizer step": 256, "": 256}
    own = [
        (10.0 * place, label, {"parameters": 256, "gradients": of, "optimizer": optimizer})
        for place, (label, of) in enumerate(gradients.items())
    ]
    made = [call(name, 10 * place + 4, 10 * place + 6, group_ranks=(0, 1)) for place, name in calls.items()]
    return telling(record([made, made]), own, own)


def curves(world_size: int, steps: int, *names: str) -> Results[None]:
    """Numbers that fall and shake."""

    def numbers(rank: int, step: int) -> dict[str, float]:
        shaking = 0.1 * math.sin(97.3 * step + rank)
        return {"step": step} | {name: 2 * math.exp(-step * turn / 300) + shaking for turn, name in enumerate(names, 1)}

    own = [[(step, "", numbers(rank, step)) for step in range(steps)] for rank in range(world_size)]
    return telling(token_round(world_size), *own)


def recalled(name: str) -> Any:
    return from_recording(json.loads((RECORDINGS / f"{name}.json").read_text(encoding="utf-8")))


def trials() -> Trials:
    """All outcomes, in some order; at the third place no rank could join."""
    why_not = "a library is missing"
    tried = [
        Trial(place.name, asked, OUTCOMES[(row + column) % 6], why_not if (row, column) == (0, 2) else "")
        for column, place in enumerate(PLACES)
        for row, asked in enumerate((JOIN, *CALLS))
    ]
    return Trials(tuple(tried))


def speed(ranks: int, batch_size: int, cores: int, latency: float, bandwidth: float) -> float:
    return batch_size / (batch_size / min(ranks, cores) / 5000 + 2 * (ranks - 1) * (latency + 4e5 / ranks / bandwidth))


def of_three(collective: str) -> show.Figure:
    return show.collective(collective, 3)


def prints(*steps: str) -> list[str]:
    return [8 * step for step in steps]


MESSAGES = [(8 * 4**k, 60e-6 + 8 * 4**k / 3e9 * (1 + 0.2 * math.sin(k))) for k in range(12)]
HELD = {
    "DDP": [{"parameters": 800, "gradients": 800, "optimizer": 1600}] * 2,
    "shards": [{"parameters": 800, "gradients": 800, "optimizer": 800 - 100 * rank} for rank in range(2)],
}
CUT = Attempt(
    (0, 1),
    (
        Said(0, 1.0, "hello"),
        Said(1, 1.5, "Traceback (most recent call last):"),
        Said(1, 1.5, "  File x"),
        Said(1, 2.0, "RuntimeError: [/a/long/way/pair.cc:152] Connection refused"),
    ),
    4.0,
    happened=(Said(1, 1.2, "the network link is down"),),
)
FIGURES: dict[str, Callable[[], Any]] = {
    "timeline by steps": lambda: show.timeline(token_round(4), title="A token goes round"),
    "timeline by time": lambda: show.timeline(barriers(90)),
    "timeline of a hang": lambda: show.timeline(circle(2)),
    "timeline of a rank that is missing": lambda: show.timeline(one_missing(), title="Rank 1 < 2 & missing"),
    "timeline of failures": lambda: show.timeline(failures()),
    "timeline of DDP": lambda: show.timeline(ddp()),
    "timeline of phases": lambda: show.timeline(
        phases(token_round(2), [(0, "forward"), (4, "<b>"), (8, "")], [(1, "forward"), (5, "backward")])
    ),
    "timeline of phases alone": lambda: show.timeline(phases(Events(), [(1, "forward"), (3, "")], [(2, "forward")])),
    "timeline of many calls": lambda: show.timeline(ring_steps(2, 100)),
    "timeline of 16 ranks": lambda: show.timeline(token_round(16), title="Sixteen & more"),
    "timeline of two nodes": lambda: show.timeline(barriers(90, [("alpha", 1e-4), ("alpha", 1e-4), ("beta", 2e-4)])),
    "timeline that was recorded": lambda: show.timeline(recalled("pull_the_cable")),
    "timeline without its oldest calls": lambda: show.timeline(record([[call("barrier", 1, 2)]] * 2, dropped={1: 999})),
    "timeline of nothing": lambda: show.timeline(Events()),
    **{name: functools.partial(of_three, name) for name in COLLECTIVES},
    "collectives": lambda: show.collectives(3),
    "ring": lambda: show.ring(ring_all_reduce, 4),
    "ring that sends nothing": lambda: show.ring(lambda tensor: None, 2),
    "waits in a circle": lambda: show.waits(circle(3)),
    "waits for one that returned": lambda: show.waits(one_missing()),
    "waits of many": lambda: show.waits(circle(16)),
    "waits of nobody": lambda: show.waits(token_round(2)),
    "joining": lambda: show.joining(joins(3)),
    "joining without rank 1": lambda: show.joining(joins(3, missing=1)),
    "samples": lambda: show.samples([[0, 4, 5], [2, 1, 4]], total=8),
    "samples once each": lambda: show.samples([[3, 10, 1, 4, 7, 5], [0, 2, 11, 6, 9, 8]], total=12),
    "samples of many": lambda: show.samples([range(3000), range(2000, 4000)], total=5000),
    "samples of nobody": lambda: show.samples([[], []], total=4),
    "fingerprints": lambda: show.fingerprints([prints("a", "b", "b"), prints("a", "c", "d")]),
    "fingerprints of many steps": lambda: show.fingerprints([prints(*"0123456789abcdef" * 8)] * 4),
    "memory": lambda: show.memory(HELD),
    "sharding": lambda: show.sharding(
        {
            "DDP": trained({1: "all_reduce"}, optimizer=512),
            "shards": trained({1: "all_reduce", 2: "all_gather"}, optimizer=256),
        }
    ),
    "pipeline": lambda: show.pipeline(pipelined(3, 4), title="All forward, then all backward"),
    "pipeline of nothing": lambda: show.pipeline(record([[], []])),
    "machines": lambda: show.machines(CUT, "A link is cut"),
    "machines that were recorded": lambda: show.machines(recalled("lose_and_regain")),
    "terminal": lambda: show.terminal("a line\n" + "a long line " * 30, "What two ranks said."),
    "mpi_run": lambda: show.mpi_run(Ended("mpirun -n 2 python hello.py", ("rank 0", "rank $1$ < 2"), False)),
    "what_works": lambda: show.what_works(trials()),
    "latency": lambda: show.latency(MESSAGES, show.fit_line(MESSAGES)),
    "cost": lambda: show.cost({"ring": MESSAGES, "tree": MESSAGES[:3]}, {"ring": lambda size: 1e-4 + size / 1e9}),
    "cost by ranks": lambda: show.cost({"ring": [(2, 0.05), (3, 0.1), (4, 0.16)]}, x="ranks", from_zero=True),
    "distance": lambda: show.distance({"by hand": [0.0, *[1e-9] * 99], "forgotten": [0.0, 1e-3, math.nan]}),
    "scaling": lambda: show.scaling({1: 5e3, 2: 9e3, 4: 9.5e3}, {1: 5e3, 4: 1e4}, cores=2, title="<title>"),
    "explore_scaling": lambda: show.explore_scaling(speed, {256: {1: 5e3}}, cores=4, latency=1e-4, bandwidth=3e9),
    "training": lambda: show.training(curves(2, 20, "loss", "accuracy"), title="MNIST"),
    "digits": lambda: show.digits(Digits(torch.linspace(0, 1, 3 * 784).view(3, 1, 28, 28), torch.tensor([7, 2, 1]))),
}


@functools.cache
def figure(name: str) -> Any:
    return FIGURES[name]()


def svg_in(page: str) -> str:
    """What the script of a page brings to life: the one image that stands there until then."""
    (packed,) = re.findall('src="data:image/svg\\+xml;base64,([^"]*)"', page)
    return base64.b64decode(packed).decode()


def words_of_all() -> str:
    """The text and the alt text of every figure."""
    entries = [f"== {name}\n{figure(name).text}\n-- {figure(name).alt}\n" for name in FIGURES]
    return "\n".join(entries)


if __name__ == "__main__":
    print(words_of_all(), end="")
