"""The exercise of a restartable training job: it is really killed, and restarted."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ddp_lessons.check.judging.check_launches import launch
from ddp_lessons.check.judging.report import Report, not_right
from ddp_lessons.check.judging.report_lines import table
from ddp_lessons.check.judging.wrapped_functions import compiler_at_hand, refusal
from ddp_lessons.check.trials.training_starts import EPOCHS, Start, Weights, agree, begin, every_weights_in_one_go
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.output.progress_line import LaunchCount

NAME = "restartable"
RANKS = 2
PATIENCE_SECONDS = 6.0  # for work that takes milliseconds
_ITS_END = ("SIGKILL", "SIGXFSZ")  # how a message names the end of a rank that the check has killed
_HALF_A_FILE = (
    "The interrupted write replaced the last good checkpoint with half a file. Write to another file next to "
    "it, and rename that once it is complete."
)
_ONLY_SOME = (
    "A rank hangs in a collective that other ranks do not call. Call save_checkpoint and load_checkpoint on "
    "every rank, not only under `if rank == 0`."
)


@dataclass(frozen=True)
class Scenario:
    """What happens to the training run, in words, and the epoch at which it must resume."""

    words: str
    goes_on_with: int
    killed_in: int | None = None
    cut_off_after: int | None = None
    ranks_then: int = RANKS

    @property
    def begins(self) -> str:
        return f"After {self.words}"


SCENARIOS = (
    Scenario("a kill in epoch 2 and a restart", 2, killed_in=2),
    Scenario("a kill in epoch 0 and a restart", 0, killed_in=0),
    Scenario("a kill during the write after epoch 1 and a restart", 1, cut_off_after=1),
    Scenario("a kill in epoch 2 and a restart with only 1 rank", 2, killed_in=2, ranks_then=1),
    Scenario("a complete run and a restart", EPOCHS),
)


class _Wrong(Exception):
    def __init__(self, mistake: str, details: Sequence[str] = ()) -> None:
        super().__init__(mistake)
        self.mistake, self.details = mistake, details


def restartable(function: Callable[..., object]) -> Report:
    """Check `function(model, optimizer, train_epoch, epochs, path)`, called on every rank.

    It calls `train_epoch(epoch)` for each epoch, starting at 0. If it is killed at any moment and called again on new
    ranks, it resumes: it trains only the epochs that were not finished when the file at `path`, a str, was written. The
    final weights are those of an uninterrupted run. The model is wrapped in DistributedDataParallel.
    """
    if report := refusal(NAME, function, ("model", "optimizer", "train_epoch", "epochs", "path")):
        return report
    compiler_at_hand()  # the import takes longer than a check may
    _right_weights()
    rows = [("after", "it resumes with")]
    try:
        with tempfile.TemporaryDirectory() as folder, LaunchCount(_launches()):
            starts = _FirstStarts(function, folder)
            _judge_in_one_go(starts)
            for scenario in SCENARIOS:
                _play(function, scenario, starts)
                goes_on = f"epoch {scenario.goes_on_with}" if scenario.goes_on_with < EPOCHS else "nothing"
                rows.append((scenario.words, goes_on))
    except _Wrong as wrong:
        return not_right(NAME, wrong.mistake, wrong.details)
    return Report(NAME, True, "passed", "", tuple(table(rows)))


def _launches() -> int:
    """Each first start is made once, and each scenario restarts once."""
    ends = {(None, None), *((scenario.killed_in, scenario.cut_off_after) for scenario in SCENARIOS)}
    return len(ends) + len(SCENARIOS)


class _FirstStarts:
    """The results of the first starts: several scenarios begin with the same one, which is made once."""

    def __init__(self, function: Callable[..., object], folder: str) -> None:
        self._function, self._folder = function, folder
        self._made: dict[tuple[int | None, int | None], tuple[Start, Sequence[Weights]]] = {}

    def with_end(self, killed_in: int | None, cut_off_after: int | None) -> tuple[Start, Sequence[Weights]]:
        """The start with its folder as it was afterwards, and the final weights if it was not killed."""
        end = killed_in, cut_off_after
        if end not in self._made:
            start = Start(f"{self._folder}/{len(self._made)}", "first", *end)
            start.path.parent.mkdir(parents=True)
            self._made[end] = start, _run(self._function, start, RANKS, "In the first run")
            shutil.copytree(start.folder, f"{start.folder}.kept")
        start = self._made[end][0]
        shutil.rmtree(start.folder)
        shutil.copytree(f"{start.folder}.kept", start.folder)
        return self._made[end]


def _play(function: Callable[..., object], scenario: Scenario, starts: _FirstStarts) -> None:
    """Start it, kill it, restart it, and judge what it did."""
    first, at_first = starts.with_end(scenario.killed_in, scenario.cut_off_after)
    if at_first and scenario.goes_on_with < EPOCHS:
        raise _Wrong(
            f"After epoch {first.cut_off_after} it writes no checkpoint, so a crash would lose that epoch. Save a "
            "checkpoint after each epoch."
        )
    again = replace(first, name="again", killed_in=None, cut_off_after=None)
    had_file = again.path.is_file()
    ended = _run(function, again, scenario.ranks_then, scenario.begins, scenario)
    _judge_epochs(again, scenario, had_file, first)
    right = _right_weights()
    _judge_weights(ended, right[None], right[scenario.goes_on_with], scenario.begins)


def _judge_in_one_go(starts: _FirstStarts) -> None:
    start, ended = starts.with_end(None, None)
    trained = [start.epochs(rank) for rank in range(RANKS)]
    if wrong := next((epochs for epochs in trained if epochs != list(range(EPOCHS))), None):
        mistake = (
            f"Without a crash, train_epoch must run once per epoch, from 0 to `epochs` - 1: {_first_odd(wrong, 0)}. "
            "Without a checkpoint, loop over range(epochs)."
        )
        raise _Wrong(mistake, _epochs_table(trained, 0))
    right = _right_weights()[None]
    _judge_weights(ended, right, right, "Without a crash")


@functools.cache
def _right_weights() -> dict[int | None, Weights]:
    return launch(every_weights_in_one_go, 1, timeout_seconds=None)[0]


def _first_odd(epochs: Sequence[int], first: int) -> str:
    """In words: which of these epochs, which should continue from `first`, is missing, extra or out of order."""
    for epoch in range(first, EPOCHS):
        if epoch not in epochs:
            return f"epoch {epoch} is missing"
    more = next((epoch for epoch in epochs if epoch not in range(first, EPOCHS)), None)
    if more is not None:
        return f"epoch {more} is not expected"
    twice = next((epoch for epoch in epochs if epochs.count(epoch) > 1), None)
    return f"epoch {twice} runs twice" if twice is not None else "the epochs are in the wrong order"


def _run(
    function: Callable[..., object], start: Start, ranks: int, begins: str, after: Scenario | None = None
) -> Sequence[Weights]:
    """The final weights by rank; nothing if the check killed the ranks on purpose."""
    try:
        return list(launch(begin, ranks, function, start, timeout_seconds=PATIENCE_SECONDS))
    except WorkersStuck as stuck:
        _judge_agreement(start, ranks, begins)
        raise _Wrong(f"{begins}: {_small(_ONLY_SOME)}", _lines(str(stuck), start)) from None
    except WorkerFailed as failed:
        is_meant = start.killed_in is not None or start.cut_off_after is not None
        if is_meant and any(sign in str(failed) for sign in _ITS_END):
            return []
        _judge_agreement(start, ranks, begins)
        raise _Wrong(f"{begins}: {_small(_why(str(failed), after))}", _lines(str(failed), start)) from None


def _why(message: str, after: Scenario | None) -> str:
    if "FileNotFoundError" in message and (after is None or after.goes_on_with == 0):
        return "There is no checkpoint yet. Check os.path.isfile(path) before loading."
    if after is not None and after.cut_off_after is not None:
        return _HALF_A_FILE
    if "Missing key" in message or "Unexpected key" in message:
        return "The names in the file do not match the model. Save and load model.module, without the DDP wrapper."
    if "mismatched collectives" in message or "lost the connection" in message:
        return _ONLY_SOME
    return f"{message.partition(chr(10))[0].rstrip('.')}."


def _judge_agreement(start: Start, ranks: int, begins: str) -> None:
    """Did all ranks start at the same epoch?"""
    trained = [start.epochs(rank) for rank in range(ranks)]
    if len({tuple(epochs[:1]) for epochs in trained}) > 1:
        mistake = "the ranks resume at different epochs. Load the checkpoint on every rank."
        without = [rank for rank, epochs in enumerate(trained) if epochs[:1] == [0] and not start.saw_file(rank)[0]]
        if without:
            mistake = (
                f"the ranks resume at different epochs, because rank {without[0]} finds no checkpoint at the given "
                "path. All ranks must use that one file, which rank 0 writes."
            )
        raise _Wrong(f"{begins}: {mistake}", _epochs_table(trained))


def _judge_epochs(start: Start, scenario: Scenario, had_file: bool, before: Start) -> None:
    """Which epochs did each rank train after the restart?"""
    ranks = scenario.ranks_then
    _judge_agreement(start, ranks, scenario.begins)
    trained = [start.epochs(rank) for rank in range(ranks)]
    if any(epochs != list(range(scenario.goes_on_with, EPOCHS)) for epochs in trained):
        mistake = _small(_which_epochs(trained[0], scenario, had_file, before))
        raise _Wrong(f"{scenario.begins}: {mistake}", _epochs_table(trained, scenario.goes_on_with))


def _which_epochs(epochs: Sequence[int], scenario: Scenario, had_file: bool, before: Start) -> str:
    first, expected = (epochs or [EPOCHS])[0], scenario.goes_on_with
    if first == 0 < expected and not had_file and any(before.saw_file(0)):
        return (
            "It starts again at epoch 0, because the checkpoint has been deleted. Keep that file, the only record of "
            "the finished epochs."
        )
    if first == 0 < expected and not had_file:
        return "It starts again at epoch 0, because there is no file at the path. Save a checkpoint after each epoch."
    if first == 0 < expected and scenario.cut_off_after is not None:
        return f"It starts again at epoch 0. {_HALF_A_FILE}"
    if first == 0 < expected:
        return (
            "It starts again at epoch 0 although a checkpoint exists. Load the checkpoint before the loop, and start "
            "at the loaded epoch."
        )
    if first < expected:
        return (
            f"Epoch {first} was finished, but is trained again. Save a checkpoint after each epoch, with the number "
            "of finished epochs, epoch + 1."
        )
    if first > expected and before.saved_before_it_trained:
        return f"Epoch {expected} was not finished, but is skipped. Save after train_epoch(epoch), not before it."
    if first > expected:
        return (
            f"Epoch {expected} was not finished, but is skipped. Add 1 only once, either when you save the epoch or "
            "when you load it."
        )
    return (
        f"Each remaining epoch must run once, in order: {_first_odd(epochs, expected)}. Loop from the loaded epoch to "
        "`epochs` - 1."
    )


def _epochs_table(trained: Sequence[Sequence[int]], expected: int | None = None) -> list[str]:
    head = ("epochs trained by", "yours") + (("expected",) if expected is not None else ())
    right = (_listed(range(expected, EPOCHS)),) if expected is not None else ()
    return table([head, *((f"rank {rank}", _listed(epochs), *right) for rank, epochs in enumerate(trained))])


def _judge_weights(ended: Sequence[Weights], right: Weights, without_momentum: Weights, begins: str) -> None:
    if all(agree(weights, right) for weights in ended):
        return
    mistake = "The final weights differ from those of an uninterrupted run. Restore the model and the optimizer."
    if not all(agree(weights, ended[0]) for weights in ended):
        mistake = "The ranks end with different weights. Load the checkpoint on every rank."
    elif agree(ended[0], without_momentum):
        mistake = "The optimizer has lost its state (momentum). Save and load optimizer.state_dict() too."
    raise _Wrong(f"{begins}: {_small(mistake)}")


def _listed(epochs: Sequence[int]) -> str:
    return ", ".join(map(str, epochs)) or "none"


def _lines(message: str, start: Start) -> list[str]:
    return [f"    {line.strip()}"[:200] for line in message.replace(f"{start.folder}/", "").split("\n")][:8]


def _small(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
