"""The exercise of making a training restartable: it is killed, for real, and started again."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ddp_lessons.check.judging.report import Report, not_right
from ddp_lessons.check.judging.report_lines import table
from ddp_lessons.check.judging.wrapped_functions import compiler_at_hand, refusal
from ddp_lessons.check.trials.training_starts import EPOCHS, Start, Weights, agree, begin, every_weights_in_one_go
from ddp_lessons.run.diagnosis.failures import WorkerFailed, WorkersStuck
from ddp_lessons.run.launch import launch
from ddp_lessons.run.output.progress_line import LaunchCount

NAME = "restartable"
RANKS = 2
PATIENCE_SECONDS = 6.0  # for work that takes milliseconds
_ITS_END = ("SIGKILL", "SIGXFSZ")  # what a message names where the check has ended a rank
_HALF_A_FILE = (
    "The write that was cut off has left half a file in the place of the last good one: write another beside it, and "
    "rename that when it is whole."
)
_ONLY_SOME = (
    "A rank waits for others that do not come: save_checkpoint and load_checkpoint are for every rank to call, as all "
    "that communicates, and not only under a condition such as `if rank == 0`."
)


@dataclass(frozen=True)
class Scenario:
    """What happens to the training, in words, and with which epoch it shall go on when it is started again."""

    words: str
    goes_on_with: int
    killed_in: int | None = None
    cut_off_after: int | None = None
    ranks_then: int = RANKS

    @property
    def begins(self) -> str:
        return f"When {self.words}, and it is started again"


SCENARIOS = (
    Scenario("it was killed in epoch 2", 2, killed_in=2),
    Scenario("it was killed in epoch 0", 0, killed_in=0),
    Scenario("it was killed while it wrote after epoch 1", 1, cut_off_after=1),
    Scenario("it was killed in epoch 2, and only 1 rank is left", 2, killed_in=2, ranks_then=1),
    Scenario("all was done", EPOCHS),
)


class _Wrong(Exception):
    def __init__(self, mistake: str, details: Sequence[str] = ()) -> None:
        super().__init__(mistake)
        self.mistake, self.details = mistake, details


def restartable(function: Callable[..., object]) -> Report:
    """Check `function(model, optimizer, train_epoch, epochs, path)`, which every rank calls.

    It calls `train_epoch(epoch)` for each epoch, from 0 on. Killed at any moment, and called again by new ranks, it
    goes on: it trains those epochs that were not done when the file at `path`, a str, was written, and no others. In
    the end the weights are those of a training in one go. The model is wrapped in DistributedDataParallel.
    """
    if report := refusal(NAME, function, ("model", "optimizer", "train_epoch", "epochs", "path")):
        return report
    compiler_at_hand()  # DistributedDataParallel imports it, which takes longer than a check may
    _right_weights()
    rows = [("when", "it goes on with")]
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
    """Each first start is made once, and each scenario starts again."""
    ends = {(None, None), *((scenario.killed_in, scenario.cut_off_after) for scenario in SCENARIOS)}
    return len(ends) + len(SCENARIOS)


class _FirstStarts:
    """What the first starts have left behind: several scenarios begin with the same one, and it is made once."""

    def __init__(self, function: Callable[..., object], folder: str) -> None:
        self._function, self._folder = function, folder
        self._made: dict[tuple[int | None, int | None], tuple[Start, Sequence[Weights]]] = {}

    def with_end(self, killed_in: int | None, cut_off_after: int | None) -> tuple[Start, Sequence[Weights]]:
        """The start, its folder as it left that, and the weights that it came to, if it was not ended."""
        end = killed_in, cut_off_after
        if end not in self._made:
            start = Start(f"{self._folder}/{len(self._made)}", "first", *end)
            start.path.parent.mkdir(parents=True)
            self._made[end] = start, _run(self._function, start, RANKS, "When it is started for the first time")
            shutil.copytree(start.folder, f"{start.folder}.kept")
        start = self._made[end][0]
        shutil.rmtree(start.folder)
        shutil.copytree(f"{start.folder}.kept", start.folder)
        return self._made[end]


def _play(function: Callable[..., object], scenario: Scenario, starts: _FirstStarts) -> None:
    """Start it, let it meet its end, start it again, and look at what it did."""
    first, at_first = starts.with_end(scenario.killed_in, scenario.cut_off_after)
    if at_first and scenario.goes_on_with < EPOCHS:
        raise _Wrong(f"After epoch {first.cut_off_after} it writes nothing: what was done since would be lost.")
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
            "With nobody who ends it, it does not call train_epoch for the epochs 0, 1, 2, ... up to `epochs`: "
            f"{_first_odd(wrong, 0)}."
        )
        raise _Wrong(mistake, _epochs_table(trained, 0))
    right = _right_weights()[None]
    _judge_weights(ended, right, right, "In one go")


@functools.cache
def _right_weights() -> dict[int | None, Weights]:
    return launch(every_weights_in_one_go, 1, timeout_seconds=None, quiet=True)[0]


def _first_odd(epochs: Sequence[int], first: int) -> str:
    """In words: what is missing, too much, or not in its order among these epochs, which should go on from `first`."""
    for epoch in range(first, EPOCHS):
        if epoch not in epochs:
            return f"epoch {epoch} is left out"
    more = next((epoch for epoch in epochs if epoch not in range(first, EPOCHS)), None)
    if more is not None:
        return f"epoch {more} is one too many"
    twice = next((epoch for epoch in epochs if epochs.count(epoch) > 1), None)
    return f"epoch {twice} comes twice" if twice is not None else "they come in another order"


def _run(
    function: Callable[..., object], start: Start, ranks: int, begins: str, after: Scenario | None = None
) -> Sequence[Weights]:
    """What the ranks have in the end; nothing if the check has ended them, as it meant to."""
    try:
        return list(launch(begin, ranks, function, start, timeout_seconds=PATIENCE_SECONDS, quiet=True))
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
        return "No checkpoint is there yet: ask whether there is one, with os.path.isfile(path), before you load it."
    if after is not None and after.cut_off_after is not None:
        return _HALF_A_FILE
    if "Missing key" in message or "Unexpected key" in message:
        return "The names in the file are not those of the model: save and load model.module, without the wrapper."
    if "mismatched collectives" in message or "lost the connection" in message:
        return _ONLY_SOME
    return f"{message.partition(chr(10))[0].rstrip('.')}."


def _judge_agreement(start: Start, ranks: int, begins: str) -> None:
    """Did all ranks begin with the same epoch?"""
    trained = [start.epochs(rank) for rank in range(ranks)]
    if len({tuple(epochs[:1]) for epochs in trained}) > 1:
        mistake = "the ranks go on with different epochs: each of them has to load the checkpoint."
        without = [rank for rank, epochs in enumerate(trained) if epochs[:1] == [0] and not start.saw_file(rank)[0]]
        if without:
            mistake = (
                f"the ranks go on with different epochs: rank {without[0]} finds no checkpoint, since no file is at "
                "the given path. All ranks use that one file, which rank 0 writes."
            )
        raise _Wrong(f"{begins}: {mistake}", _epochs_table(trained))


def _judge_epochs(start: Start, scenario: Scenario, had_file: bool, before: Start) -> None:
    """Which epochs did each rank train after it was started again?"""
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
            "It begins anew, since the file that was there has been removed: leave it at the path, because nothing "
            "else says which epochs are done."
        )
    if first == 0 < expected and not had_file:
        return "It begins anew, since there is no file at the path: save a checkpoint after each epoch."
    if first == 0 < expected and scenario.cut_off_after is not None:
        return f"It begins anew. {_HALF_A_FILE}"
    if first == 0 < expected:
        return "It begins anew, although a checkpoint is there: load it before the loop, and begin with its epoch."
    if first < expected:
        return (
            f"Epoch {first} was done, and is trained once more: save a checkpoint after each epoch, with the number of "
            "those that are done, epoch + 1."
        )
    if first > expected and before.saved_before_it_trained:
        return f"Epoch {expected} was not done, and is left out: save after train_epoch(epoch), and not before it."
    if first > expected:
        return (
            f"Epoch {expected} was not done, and is left out: the file says which epoch is next, or which was the "
            "last, and 1 is added once, when it is saved or when it is loaded."
        )
    return f"It does not train each of the epochs that are left once, in their order: {_first_odd(epochs, expected)}."


def _epochs_table(trained: Sequence[Sequence[int]], expected: int | None = None) -> list[str]:
    head = ("epochs trained by", "yours") + (("expected",) if expected is not None else ())
    right = (_listed(range(expected, EPOCHS)),) if expected is not None else ()
    return table([head, *((f"rank {rank}", _listed(epochs), *right) for rank, epochs in enumerate(trained))])


def _judge_weights(ended: Sequence[Weights], right: Weights, without_momentum: Weights, begins: str) -> None:
    if all(agree(weights, right) for weights in ended):
        return
    mistake = "In the end the weights are not those of a training in one go: put back the model and the optimizer."
    if not all(agree(weights, ended[0]) for weights in ended):
        mistake = "In the end the ranks have different weights: each of them has to load the checkpoint."
    elif agree(ended[0], without_momentum):
        mistake = "The optimizer has forgotten its momentum: save and load optimizer.state_dict(), too."
    raise _Wrong(f"{begins}: {_small(mistake)}")


def _listed(epochs: Sequence[int]) -> str:
    return ", ".join(map(str, epochs)) or "none"


def _lines(message: str, start: Start) -> list[str]:
    return [f"    {line.strip()}"[:200] for line in message.replace(f"{start.folder}/", "").split("\n")][:8]


def _small(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]
