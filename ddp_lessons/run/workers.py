"""The engine under `launch`: start ranks, run functions on them, end them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import Recorded
from ddp_lessons.record.results import NO_VALUE, Results, told_by_rank
from ddp_lessons.run.debugging.keyboard import why_no_prompt
from ddp_lessons.run.diagnosis.call_fit import first_fault, may_disagree
from ddp_lessons.run.diagnosis.failure_messages import not_to_be_trusted, where_each_is, worker_failed, workers_stuck
from ddp_lessons.run.diagnosis.wording import ranks_named
from ddp_lessons.run.launcher import launch_arguments, shortages
from ddp_lessons.run.launcher.call_progress import Ending
from ddp_lessons.run.launcher.follow import Watch
from ddp_lessons.run.launcher.interrupts import HeldInterrupts
from ddp_lessons.run.launcher.limits import limits
from ddp_lessons.run.launcher.private_folders import session_folder
from ddp_lessons.run.launcher.rank_states import Account
from ddp_lessons.run.launcher.world_processes import Crew
from ddp_lessons.run.nodes.hosts import NodeLost, Nodes
from ddp_lessons.run.nodes.node_group import connected, send_modules
from ddp_lessons.run.output.screen import Live, screen_for_here
from ddp_lessons.run.output.transcript import Transcript
from ddp_lessons.run.processes.process_sources import start_method as checked_start_method
from ddp_lessons.run.wire.messages import Buffer, Task
from ddp_lessons.run.wire.travel import pack_call

T = TypeVar("T")


class Interrupted(KeyboardInterrupt):
    """The learner stopped the ranks; the message says where each one was, `results` has what came before."""

    def __init__(self, message: str, results: Results[Any]) -> None:
        super().__init__(message)
        self.results = results

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


@dataclass(frozen=True)
class _Run:
    """The options of one run."""

    not_asked: frozenset[int]
    timeout_seconds: float | None
    quiet: bool
    begin: float


class Workers:
    """Ranks that stay alive: call `run` as often as you like, on the same processes, in one process group::

        with Workers(4) as workers:
            first = workers.run(function, argument)

    After a failure all ranks are stopped; create new Workers then. With `outlive_failures` they stay alive and keep
    their variables: only a rank that died, or cannot be interrupted, is restarted. All ranks then join a new process
    group.
    """

    def __init__(
        self,
        world_size: int = 2,
        *,
        timeout_seconds: float | None = 60.0,
        backend: str | None = None,
        join: bool = True,
        start_method: str | None = None,
        quiet: bool = False,
        record: bool | str = True,
        live: Callable[[Results[Any]], object] | None = None,
        outlive_failures: bool = False,
        on: Nodes | None = None,
        debug: bool = False,
    ) -> None:
        with launch_arguments.refused_plainly():
            launch_arguments.check_not_inside_a_rank()
            launch_arguments.check_torch_is_pytorch()
            self.world_size = launch_arguments.checked_world_size(world_size, on)
            self._limits = limits()
            self._timeout_seconds = self._limits.allowed_seconds(launch_arguments.checked_timeout(timeout_seconds))
            launch_arguments.check_backend_is_known(backend)
            start_method = checked_start_method(start_method)
            self._record = launch_arguments.checked_record(record)
            join = launch_arguments.checked_switch("join", join)
            self._quiet = launch_arguments.checked_switch("quiet", quiet)
            self._outlive_failures = launch_arguments.checked_switch("outlive_failures", outlive_failures)
            self._debug = launch_arguments.checked_debug(debug, why_no_prompt())
            self._live = launch_arguments.checked_live(live)
            self._on = on  # an allocation lasts as long as its object
            # last, because a wrong argument must not wait until there are nodes
            nodes = connected(launch_arguments.checked_nodes(on)) if on is not None else None
            gpus = nodes.gpus(self.world_size) if nodes is not None else None
            backend = launch_arguments.checked_backend(backend, self.world_size, gpus)
        self._one_run = threading.Lock()
        self._runs = 0
        self._heavy_imports: set[str] = set()
        self._crew: Crew | None = None
        with HeldInterrupts(), launch_arguments.refused_plainly(), shortages.named():
            self._crew = Crew(
                self.world_size,
                start_method=start_method,
                backend=backend if join else None,
                record=self._record,
                timeout_seconds=self._timeout_seconds,
                memory_bytes=self._limits.memory_bytes,
                outlives_failures=self._outlive_failures,
                nodes=nodes,
            )

    def run(
        self,
        function: Callable[..., T],
        *args: object,
        only: Collection[int] | int | None = None,
        timeout_seconds: float | None = None,
        quiet: bool | None = None,
    ) -> Results[T]:
        """Run `function(rank, world_size, *args)` on every rank, or `only` on some, and return their results by rank.

        `only`: one rank or several, as in only=0 or only=[0, 2].
        `timeout_seconds` and `quiet`: for this run, instead of those of these Workers.

        Raises:
            WorkerFailed: a rank raised or died; the message names it and shows its line.
            WorkersStuck: the ranks hang, or did not return in time; the message shows where each one is.
        """
        __tracebackhide__ = True
        begin = time.monotonic()
        with launch_arguments.refused_plainly():
            launch_arguments.check_function(function, self.world_size, args)
            run = _Run(
                not_asked=launch_arguments.not_asked(only, self.world_size),
                timeout_seconds=self._limits.allowed_seconds(launch_arguments.checked_timeout(timeout_seconds))
                if timeout_seconds is not None
                else self._timeout_seconds,
                quiet=self._quiet if quiet is None else launch_arguments.checked_switch("quiet", quiet),
                begin=begin,
            )
            crew = self._crew_at_work()
            buffers, sources = pack_call(function, args)
            if not self._one_run.acquire(blocking=False):
                raise RuntimeError(
                    "these Workers are running a function in another thread; wait for it, or create other Workers"
                )
        try:
            for number, rank in enumerate(crew.ranks):
                name = f"output-of-rank-{number}-{time.time_ns()}.txt"
                rank.transcript = Transcript(os.path.join(session_folder(), name))
            with HeldInterrupts() as interrupts:
                return self._follow(crew, (self._task(sources, run), buffers), run, interrupts)
        finally:
            self._one_run.release()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The node of each rank; "" is this machine."""
        return tuple(rank.process.node for rank in self._crew.ranks) if self._crew is not None else ()

    @property
    def why_closed(self) -> str:
        """Why there are no ranks any more; "" while there are."""
        return self._crew.why_gone if self._crew is not None else ""

    def close(self) -> None:
        """Stop the ranks, and everything that they left running."""
        if self._crew is not None and not self._crew.why_gone:
            with HeldInterrupts():
                self._crew.let_go(self._heavy_imports)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        crew = getattr(self, "_crew", None)
        if crew is not None and not crew.why_gone:
            crew.stop("they were no longer in use")
            crew.release(self._heavy_imports)

    def _task(self, sources: dict[str, str], run: _Run) -> Task:
        self._runs += 1
        if self._on is not None:
            send_modules(self._on)
        return Task(sources, self._runs, self.world_size - len(run.not_asked), why_no_prompt(), self._debug)

    def _crew_at_work(self) -> Crew:
        assert self._crew is not None
        if self._crew.why_gone:
            raise RuntimeError(
                f"these Workers are closed: {self._crew.why_gone}. Create new ones (outlive_failures=True keeps them)"
            )
        return self._crew

    def _follow(
        self, crew: Crew, task: tuple[Task, list[Buffer]], run: _Run, interrupts: HeldInterrupts
    ) -> Results[Any]:
        __tracebackhide__ = True
        screen, live = screen_for_here(run.quiet), Live(self._live, self.world_size)
        watch = Watch(crew.ranks, run.timeout_seconds, task, run.not_asked, self._limits)
        stay: list[str] = []
        try:
            ending = watch.until_the_end(screen, live, lambda: interrupts.noted)
            account = watch.account()
            if ending is not Ending.RETURNED:
                stay = self._after_a_failure(crew, watch, ending.value)
            watch.drain()
        except NodeLost as loss:  # the ranks can't start
            crew.stop(loss.headline)
            raise
        finally:
            watch.close()
            self._heavy_imports.update(*(recorded.heavy_imports for recorded in watch.progress.recorded.values()))
            for transcript in watch.transcripts:
                transcript.finish()
            screen.finish(watch.transcripts)
            if crew.why_gone:
                crew.release(self._heavy_imports)
        ranks = range(self.world_size)
        values = tuple(watch.values.get(number, NO_VALUE) for number in ranks)
        lines = tuple(list(transcript.lines()) for transcript in watch.transcripts)
        recorded = [watch.progress.recorded.get(rank) for rank in ranks]
        events = Events(recorded)
        told = told_by_rank([watch.told.get(number, ()) for number in ranks], events.origin)
        results: Results[Any] = Results(values, lines, time.monotonic() - run.begin, events, told)
        live.finish(results)
        if ending is Ending.RETURNED:
            recorded = [Recorded(0.0) if rank in run.not_asked else one for rank, one in enumerate(recorded)]
            return self._trusted(crew, results, account, recorded)
        if ending is Ending.FAILED:
            raise worker_failed(account, results).with_more(stay)
        if ending in (Ending.STUCK, Ending.OUT_OF_TIME):
            raise workers_stuck(account, results, ending is Ending.STUCK).with_more(stay)
        interrupts.noted = False
        kept = ["  What they logged with tell() is in sys.last_value.results."] if any(results.told) else []
        where = [ending.value, *where_each_is(account), *kept, *stay]
        raise Interrupted("\n".join(where), results)

    def _trusted(
        self, crew: Crew, results: Results[Any], account: Account, recorded: Sequence[Recorded | None]
    ) -> Results[Any]:
        __tracebackhide__ = True
        if self._record and may_disagree(recorded) and (reason := first_fault(results.events)) is not None:
            error = not_to_be_trusted(account, results, reason)
            if not self._outlive_failures:
                self.close()
                raise error
            watch = Watch(crew.ranks, None)
            stay = self._after_a_failure(crew, watch, "their calls did not match")
            watch.close()
            raise error.with_more(stay)
        return results

    def _after_a_failure(self, crew: Crew, watch: Watch, why: str) -> list[str]:
        """Stop all ranks; or keep those that can be kept, and return what to say about that."""
        if not self._outlive_failures:
            crew.stop(why)
            return []
        try:
            return self._who_stays(crew.begin_anew(watch))
        except NodeLost as loss:
            crew.stop(loss.headline)
            return ["  All other ranks were stopped, and their variables are lost: a group needs all its nodes."]

    def _who_stays(self, lost: Sequence[int]) -> list[str]:
        stay = [rank for rank in range(self.world_size) if rank not in lost]
        were, their = ("was", "its") if len(lost) == 1 else ("were", "their")
        lines = [f"  {ranks_named(lost).capitalize()} {were} restarted and lost {their} variables."] if lost else []
        if stay:
            verb, its = ("keeps", "its") if len(stay) == 1 else ("keep", "their")
            lines += [f"  {ranks_named(stay).capitalize()} {verb} {its} variables, in a new process group."]
        return lines
