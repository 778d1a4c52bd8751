"""A training beside the notebook: it can be stopped, it keeps what was told, and whatever else happens harms nobody."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from notebook_session import NotebookSession
from processes import Doorbell, Program, alive, happens_within

from ddp_lessons import launch, show, tell
from ddp_lessons.show.trainings.live_trainings import LiveTraining


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Doorbell]:
    doorbell = Doorbell(tmp_path)
    yield doorbell
    doorbell.close()


def train_for_ever(rank: int, world_size: int, bell: str) -> None:
    for step in range(10**9):
        tell(step=step, loss=1 / (step + 1), process=os.getpid())
        if step == 3:
            Path(bell).write_text("!")
        time.sleep(0.01)


def ring_and_stay(rank: int, world_size: int, bell: str, how: str) -> None:
    tell(process=os.getpid())
    Path(bell).write_text("!")
    if how == "holds Python's lock":
        sum(range(10**12))
    if how == "waits in recv":
        dist.recv(torch.ones(1), src=1 - rank if rank else 1)
    while how == "catches all":
        try:
            time.sleep(1000)
        except BaseException:
            continue
    time.sleep(1000)


def processes_in(training: LiveTraining) -> list[int]:
    numbers = [one.numbers for told in training.results.told for one in told]
    return sorted({int(found["process"]) for found in numbers if "process" in found})


def test_it_is_back_at_once_and_stops_with_what_was_told(bell: Doorbell) -> None:
    training = show.live_training(train_for_ever, 2, bell.path)
    training.run()
    assert training.picture.alt.startswith("2 ranks are training; Stop ends it.")
    bell.wait_for(2)
    begin = time.monotonic()
    training.stop()
    results = training.wait()
    assert time.monotonic() - begin < 20  # within a second: test_interrupts.py, which runs alone
    assert not training.is_running
    assert len(processes_in(training)) == 2
    assert alive(processes_in(training)) == []
    for told in results.told:
        assert [(one.numbers["step"], one.numbers["loss"]) for one in told][:4] == [
            (0, 1),
            (1, 1 / 2),
            (2, pytest.approx(1 / 3)),
            (3, 1 / 4),
        ]
    assert training.picture.alt.startswith("Stopped after ")
    assert "what was told until then is kept" in training.picture.alt
    assert "    rank 1   is at test_live_training.py line " in training.picture.text
    assert "rank 1 | told " in training.picture.text
    assert len(training.picture.axes) == 2  # loss, process


@pytest.mark.parametrize("how", ["holds Python's lock", "catches all"])
def test_no_rank_can_refuse(bell: Doorbell, how: str) -> None:
    training = show.live_training(ring_and_stay, 2, bell.path, how)
    training.run()
    bell.wait_for(2)
    begin = time.monotonic()
    training.stop()
    training.wait()
    assert time.monotonic() - begin < 20  # it rings and stays for ever
    assert len(processes_in(training)) == 2
    assert alive(processes_in(training)) == []


def test_pressing_twice_begins_once_and_stops_once(bell: Doorbell) -> None:
    training = show.live_training(train_for_ever, 2, bell.path)
    training.stop()  # nothing runs: nothing happens
    for _ in range(3):
        training.run()
    bell.wait_for(2)
    training.run()
    for _ in range(3):
        training.stop()
    training.wait()
    assert len(processes_in(training)) == 2
    training.stop()
    training.set(world_size=3)
    training.run()
    bell.wait_for(3)
    training.stop()
    training.wait()
    assert len(processes_in(training)) == 3


def test_a_stop_right_after_the_start_is_heard(bell: Doorbell) -> None:
    training = show.live_training(train_for_ever, 2, bell.path)
    training.run()
    training.stop()
    training.wait(20)
    assert not training.is_running
    assert training.picture.alt.startswith("Stopped after ")


def test_after_the_end_there_are_the_results_of_launch() -> None:
    def train(rank: int, world_size: int, factor: int) -> float:
        tell(step=0, loss=rank)
        total = torch.tensor(float(rank + 1)) * factor
        dist.all_reduce(total)
        return total.item()

    training = show.live_training(train, 3, 10)
    training.run()
    results, expected = training.wait(), launch(train, 3, 10)
    assert list(results) == list(expected) == [60.0] * 3
    assert [event.operation for event in results.events] == ["all_reduce"] * 3
    assert [[one.numbers for one in told] for told in results.told] == [
        [{"step": 0, "loss": rank}] for rank in range(3)
    ]
    assert training.picture.alt.startswith("The training is over, after ")


def test_an_exception_in_a_rank_is_shown_and_the_next_press_begins_anew(tmp_path: Path) -> None:
    def fail_once(rank: int, world_size: int, mark: str) -> int:
        tell(loss=0.5)
        if rank == 1 and not Path(mark).exists():
            Path(mark).touch()
            raise ValueError("the loss is not a number")
        return rank

    training = show.live_training(fail_once, 2, str(tmp_path / "mark"))
    training.run()
    training.wait()
    assert "rank 1 of 2 raised ValueError: the loss is not a number" in training.picture.text
    assert training.failure.startswith("WorkerFailed: rank 1 of 2 raised ValueError")
    assert training.results.told[1][0].numbers == {"loss": 0.5}
    training.run()
    assert list(training.wait()) == [0, 1]
    assert training.picture.text.startswith("The training is over")
    assert training.failure == ""


def test_ranks_that_stand_still_are_ended_with_the_reason(bell: Doorbell) -> None:
    training = show.live_training(ring_and_stay, 2, bell.path, "waits in recv")
    training.run()
    training.wait(10)
    assert "WorkersStuck: no rank can move any more" in training.picture.text
    assert alive(processes_in(training)) == []


def test_without_buttons_nothing_goes_on(bell: Doorbell) -> None:
    """They go when it is closed, and when its cell is run again."""
    first = show.live_training(train_for_ever, 2, bell.path)
    first.run()
    bell.wait_for(2)
    second = show.live_training(train_for_ever, 2, bell.path)
    first.wait(10)
    assert not first.is_running
    second.run()
    bell.wait_for(2)
    second.close()
    second.wait(10)
    assert alive(processes_in(first) + processes_in(second)) == []
    assert len(processes_in(first) + processes_in(second)) == 4


def test_launches_beside_it_are_right_and_it_goes_on(bell: Doorbell) -> None:
    def total(rank: int, world_size: int) -> float:
        number = torch.tensor(float(rank))
        dist.all_reduce(number)
        return number.item()

    training = show.live_training(train_for_ever, 2, bell.path)
    training.run()
    bell.wait_for(2)
    for _ in range(3):
        assert list(launch(total, 3)) == [3.0] * 3
    assert training.is_running
    training.stop()
    training.wait()
    assert len(processes_in(training)) == 2


def test_before_the_first_press_it_shows_an_earlier_launch_and_starts_nothing() -> None:
    def train(rank: int, world_size: int) -> None:
        tell(step=1, loss=rank)

    assert show.live_training(train, 2).picture.text == "Nothing was launched yet: press Train.\nTraining curves."
    earlier = launch(train, 2)
    shown = show.live_training(train, 2, results=earlier)
    assert (
        shown.picture.text
        == "These curves are of an earlier launch: press Train for one of your own.\nTraining curves."
    )
    assert len(shown.picture.axes[0].lines) == len(show.training(earlier).axes[0].lines) > 0
    assert not shown.is_running


def test_a_function_that_no_rank_could_call_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="but it is defined as"):
        show.live_training(lambda rank: None, 2)


def test_a_program_that_ends_takes_its_training_along(bell: Doorbell) -> None:
    source = (
        "import time\nfrom ddp_lessons import show\n"
        f"def train(rank, size):\n    open({bell.path!r}, 'w').write('!'); time.sleep(1000)\n"
        "training = show.live_training(train, 2); training.run()\nimport sys; sys.stdin.readline()"
    )
    with Program(source) as program:
        bell.wait_for(2)
        assert "exit status" not in program.finish(10)  # which closes its input
        assert program.said == ""
        assert happens_within(3, lambda: not program.marked())


IN_A_KERNEL = """
import os, threading, time, matplotlib, ipywidgets
from ddp_lessons import launch, show, tell
def train(rank, size, bell):
    step = 0
    while True:
        tell(step=step, loss=1 / (step + 1), process=os.getpid()); step += 1
        if step == 3: open(bell, "w").write("!")
        time.sleep(0.02)
def rank_and_size(rank, size, seconds=0): time.sleep(seconds); return rank, size
def widgets(kind): return [one for one in ipywidgets.widgets.widget._instances.values() if isinstance(one, kind)]
def press(label): next(one for one in widgets(ipywidgets.Button) if one.description == label).click()
def page(): return "\\n".join(one.value for one in widgets(ipywidgets.HTML))
look = dict(matplotlib.rcParams)
"""


def another_page(kernel: NotebookSession, before: str) -> bool:
    return kernel.run("page()").value != before


def test_in_a_notebook(bell: Doorbell) -> None:
    """The curves move while the kernel is free, an interrupt ends only what its cell does, and nothing is left over."""
    with NotebookSession() as kernel:
        assert not kernel.run(IN_A_KERNEL).error
        shown = kernel.run(f"training = show.live_training(train, 2, {bell.path!r})\ntraining")
        assert not shown.error
        assert "application/vnd.jupyter.widget-view+json" in shown.displays[0]
        assert not kernel.run("press('Train')").error
        bell.wait_for(2)
        for _ in range(3):
            before = kernel.run("page()").value
            assert "2 ranks are training" in before
            assert happens_within(20, functools.partial(another_page, kernel, before))

        request = kernel.begin("launch(rank_and_size, 2, 1000)")
        time.sleep(0.5)
        kernel.interrupt()
        assert kernel.finish(request).error_name in ("KeyboardInterrupt", "Interrupted")
        kernel.interrupt()  # nothing runs in the notebook itself
        assert kernel.run("training.is_running, list(launch(rank_and_size, 2))").value == "(True, [(0, 2), (1, 2)])"

        # as in JupyterLab, which can hand on a button while a cell runs
        press = "threading.Timer(0.1, lambda: [press('Stop'), press('Stop')]).start()"
        stopped = kernel.run(f"{press}; results = training.wait(); len(results.told[1]) > 3")
        assert (stopped.value, stopped.error, stopped.stream, stopped.displays) == ("True", "", "", [])
        assert stopped.seconds < 20
        assert happens_within(5, lambda: "Stopped after" in kernel.run("page()").value)
        ranks = kernel.run("sorted({int(one.numbers['process']) for told in results.told for one in told})").value
        assert alive([int(number) for number in ranks.strip("[]").split(",")]) == []
        assert kernel.run("dict(matplotlib.rcParams) == look").value == "True"

        kernel.run("press('Train')")
        bell.wait_for(2)
        told = "sorted({int(one.numbers['process']) for told in training.results.told for one in told})"
        assert happens_within(10, lambda: "," in kernel.run(told).value)
        ranks = kernel.run(told).value
        kernel.restart()
        assert happens_within(3, lambda: not alive([int(number) for number in ranks.strip("[]").split(",")]))
