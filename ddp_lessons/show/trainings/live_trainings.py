"""A training that goes on beside the notebook: live curves, and a button that stops the ranks.

A thread launches. What it learns it puts down as one `_State`; pictures are drawn by the notebook's own thread, when
that is free: a picture that another thread drew would change the look of what a cell is drawing at that moment.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ddp_lessons.record.results import NO_VALUE, Results
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launcher.launch_arguments import (
    check_function,
    check_not_inside_a_rank,
    checked_timeout,
    checked_world_size,
)
from ddp_lessons.run.workers import Interrupted, Workers
from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice
from ddp_lessons.show.page.chart import Chart
from ddp_lessons.show.page.picture import count
from ddp_lessons.show.trainings.training_curves import training

NOTHING_YET = "Nothing was launched yet: press Train."
EARLIER = "These curves are of an earlier launch: press Train for one of your own."
MOST_RANKS = 4  # to choose from, unless more were asked for
REST = 4  # times as long as a picture took: until the next one the notebook's time belongs to the ranks


@dataclass(frozen=True)
class _State:
    """How far the training is. The picture that belongs to it is drawn once, by whoever looks first."""

    results: Results[Any]
    sentence: str
    words: str = ""  # of the ranks that were stopped: where each was
    failure: str = ""


class LiveTraining(Explorer[Chart]):
    """`run()` begins a training and is back at once, `stop()` ends it, `wait()` waits for its end."""

    def __init__(
        self,
        function: Callable[..., Any],
        world_size: int,
        args: tuple[object, ...],
        *,
        timeout_seconds: float | None,
        results: Results[Any] | None,
    ) -> None:
        check_not_inside_a_rank()
        world_size = checked_world_size(world_size)
        check_function(function, world_size, args)
        self._function, self._args, self._timeout_seconds = function, args, checked_timeout(timeout_seconds)
        self._one_at_a_time = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._is_asked_to_draw, self._next = False, 0.0
        self._state = _State(_nothing(world_size), NOTHING_YET) if results is None else _State(results, EARLIER)
        self._drawn: tuple[_State, Chart] | None = None
        ranks = Choice("ranks", range(1, max(MOST_RANKS, world_size) + 1), world_size)
        super().__init__(
            self._begin,
            title=f"Training live: {_name(function)}",
            controls={"world_size": ranks},
            run="Train",
            buttons={"Stop": self.stop},
        )
        _only_one_of(self)

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def results(self) -> Results[Any]:
        """What was told so far; after the end, all that `launch` would have returned. `show.training` draws it."""
        return self._state.results

    @property
    def picture(self) -> Chart:
        """As it is now."""
        state = self._state
        if self._drawn is None or self._drawn[0] is not state:
            self._drawn = state, _draw(state)
        return self._drawn[1]

    @property
    def failure(self) -> str:
        return self._state.failure or self._failure

    def stop(self) -> None:
        """Stop the ranks. What they told so far is kept."""
        self._stop.set()
        if self.is_running and self._panel:
            self._panel.tell("Stopping …")

    def wait(self, seconds: float | None = None) -> Results[Any]:
        """Wait until the ranks are done or stopped (at most so long), and return what there is then."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self.results

    def close(self) -> None:
        """Take the controls away, and with the Stop button what it could have stopped."""
        self.stop()
        super().close()

    def _begin(self, world_size: int) -> Chart:
        with self._one_at_a_time:
            if not self.is_running:
                self._stop = threading.Event()
                who = "1 rank is" if world_size == 1 else f"{world_size} ranks are"
                self._state = _State(_nothing(world_size), f"{who} training; Stop ends it.")
                # a daemon: nobody who closes the notebook has to wait for it
                self._thread = threading.Thread(target=self._train, args=(world_size, self._stop), daemon=True)
                self._thread.start()
        return self.picture

    def _train(self, world_size: int, stop: threading.Event) -> None:
        begun = self._state
        try:
            with Workers(
                world_size, timeout_seconds=self._timeout_seconds, quiet=True, live=self._note_what_was_told
            ) as workers:
                results = workers.run(self._function, *self._args, stop=stop)
            self._note(_State(results, f"The training is over, after {results.seconds:.1f} seconds."))
        except Interrupted as stopped:
            sentence = f"Stopped after {stopped.results.seconds:.1f} seconds; what was told until then is kept."
            self._note(_State(stopped.results, sentence, words=str(stopped)))
        except (WorkerFailed, WorkersStuck) as failure:
            self._note(_failed(failure, failure.results))
        except BaseException as error:
            self._note(_failed(error, begun.results))

    def _note_what_was_told(self, results: Results[Any]) -> None:
        self._note(replace(self._state, results=results))

    def _note(self, state: _State) -> None:
        self._state = state
        loop = _loop_of_the_notebook()
        if loop is not None and not self._is_asked_to_draw:
            self._is_asked_to_draw = True
            with contextlib.suppress(RuntimeError):  # the notebook is closing
                loop.add_callback(lambda: loop.call_later(self._next - time.monotonic(), lambda: self._show_newest()))

    def _show_newest(self) -> None:
        self._is_asked_to_draw = False
        if self._panel:
            begin = time.monotonic()
            self.show(self.picture)
            self._next = begin + (1 + REST) * (time.monotonic() - begin)


def live_training(
    function: Callable[..., Any],
    world_size: int = 2,
    *args: object,
    timeout_seconds: float | None = None,
    results: Results[Any] | None = None,
) -> LiveTraining:
    """Curves with a button that begins `launch(function, world_size, *args)`, and one that stops the ranks.

    The notebook stays free meanwhile; while a cell runs in it, curves and buttons wait for its end. A rank tells its
    numbers as for `show.training`: `tell(step=3, loss=0.25)`.
    Called again with a function of that name, as when its cell is run again, it stops the ranks of the one before.

    Args:
        function: what `launch` takes.
        world_size: of how many ranks at first; the control offers others.
        *args: further arguments, the same for every rank.
        timeout_seconds: how long the function may take; None for as long as it likes.
        results: of an earlier launch: its curves are shown until somebody presses the button.

    Raises:
        TypeError: no rank could call that function.
    """
    return LiveTraining(function, world_size, args, timeout_seconds=timeout_seconds, results=results)


_newest: weakref.WeakValueDictionary[str, LiveTraining] = weakref.WeakValueDictionary()


def _only_one_of(training: LiveTraining) -> None:
    """When its cell is run again, the buttons of the one before are gone: nobody could stop that any more."""
    before = _newest.get(_name(training._function))
    if before is not None:
        before.stop()
    _newest[_name(training._function)] = training


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _nothing(world_size: int) -> Results[Any]:
    return Results((NO_VALUE,) * world_size, ([],) * world_size, 0.0, told=((),) * world_size)


def _failed(error: BaseException, results: Results[Any]) -> _State:
    told = sum(map(len, results.told))
    kept = f"\n  They had told {count(told, 'time')} until then; that is kept in `.results`." if told else ""
    return _State(results, "The training failed.", failure=f"{type(error).__name__}: {error}{kept}")


def _draw(state: _State) -> Chart:
    curves = training(state.results)
    is_ours = state.sentence != EARLIER  # whose text is stored, and has to be the same in each run
    text = [state.failure or state.words or state.sentence, *(_newest_numbers(state.results) if is_ours else ())]
    return replace(curves, text="\n".join([*text, curves.text]), alt=f"{state.sentence} {curves.alt}")


def _newest_numbers(results: Results[Any]) -> list[str]:
    """The curves in words: what each rank told last."""
    lines = []
    for rank, told in enumerate(results.told):
        newest: dict[str, float] = {}
        for one in told:
            newest |= one.numbers
        if newest:
            numbers = ", ".join(f"{name} {number:.4g}" for name, number in newest.items())
            lines.append(f"rank {rank} | told {count(len(told), 'time')}; last: {numbers}")
    return lines


def _loop_of_the_notebook() -> Any:
    """What runs a function in the notebook's own thread when no cell is running."""
    ipython: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(getattr(ipython, "kernel", None), "io_loop", None)
