"""The exercise of saving a checkpoint from several ranks."""

from __future__ import annotations

import functools
import importlib.util
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace

from ddp_lessons.check.judging.examination import examine
from ddp_lessons.check.judging.exercise import Case, Difference, Exercise
from ddp_lessons.check.judging.exercise_trials import with_lateness
from ddp_lessons.check.judging.report import Report
from ddp_lessons.check.judging.wrapped_functions import compiler_at_hand, refusal
from ddp_lessons.check.trials.checkpoint_trials import SaveTrial, Saving, save

_TWO_MACHINES = "two machines, each with a rank whose LOCAL_RANK is 0"
_BESIDE_IT = "Write to another file in the same folder, then call os.replace(other, path)."
_FROM_ELSEWHERE = (
    "The new file is in another folder, so it cannot be renamed if that folder is on another disk. Write it "
    'next to the checkpoint, as path + ".new".'
)
_SECOND_WRITER = (
    "Ranks other than 0 write the checkpoint. All ranks hold the same model, so write only if dist.get_rank() == 0."
)
_FIRST_OF_ITS_MACHINE = (
    "With two nodes, two ranks have LOCAL_RANK 0, and both write. Check the global rank instead, dist.get_rank()."
)

_RETURNED = re.compile(r"ReturnedEarly: rank (\d+) has returned")


def save_checkpoint(function: Callable[..., object]) -> Report:
    """Check `function(path, model, optimizer, epoch)`, called on every rank: afterwards the checkpoint is there.

    The model is wrapped in DistributedDataParallel. Model and path (a str) are the same on all ranks. Only rank 0
    writes, also when the ranks are on two nodes. The file holds a dictionary with "model" and "optimizer", both as
    their state_dict() (the model's without the wrapper), and "epoch" as given; it may contain more. torch.load(path,
    weights_only=True) loads it.

    An older file at the path stays until the new one is complete. The new one is written in the same folder, because no
    file can be renamed from one disk to another. Every rank returns only after the checkpoint is there, and no other
    file is left.
    """
    exercise = _SaveCheckpoint()
    if report := refusal(exercise.name, function, ("path", "model", "optimizer", "epoch")):
        return report
    compiler_at_hand()  # the import takes longer than a check may
    with tempfile.TemporaryDirectory() as folder:
        exercise.trials = [replace(trial, folder=folder) for trial in exercise.trials]
        report = examine(exercise, functools.partial(save, function))
    lines = [line.replace(f"{folder}/", "") for line in (report.mistake, *report.details)]
    return Report(report.exercise, report.passed, report.verdict, lines[0], tuple(lines[1:]))


class _SaveCheckpoint(Exercise):
    name = "save_checkpoint"
    parameters = ("session",)
    thing = "checkpoint"
    world_sizes = (2, 4, 1)
    messages_only = False
    returns_answer = False
    measured = "ranks that write"
    yardstick = "needed"

    def __init__(self) -> None:
        trials = [
            SaveTrial(()),
            SaveTrial((), trait="the next one", epoch=23, largest_world=2),
            SaveTrial((), trait="one that replaces another", epoch=29, has_old=True),
            SaveTrial((), trait=_TWO_MACHINES, epoch=41, on_two_machines=True),
        ]
        if importlib.util.find_spec("resource") is not None:
            trials.append(
                SaveTrial((), trait="a write that is cut off", epoch=43, has_old=True, is_cut_off=True, largest_world=1)
            )
        self.trials: Sequence[SaveTrial] = with_lateness(trials)  # type: ignore[assignment]

    def difference(self, case: Case, rank: int) -> Difference | None:
        if _trial(case).is_cut_off:
            return None
        if rank > 0 and _saving(case, rank).wrote:
            mistake = _FIRST_OF_ITS_MACHINE if _trial(case).on_two_machines else _SECOND_WRITER
            return Difference("writes", f"rank {rank}", "rank 0", mistake)
        if rank > 0:
            return _too_early(case, rank)
        saving = _saving(case, rank)
        if not any(_saving(case, other).wrote for other in range(case.world_size)):
            mistake = "No rank writes a file at the given path or next to it. Let rank 0 save to `path`."
            return Difference("file", "none", "a checkpoint", mistake)
        if saving.fault:
            fault = saving.fault
            return Difference(fault.place, fault.yours, fault.expected, fault.mistake)
        return _torn(case) or _from_elsewhere(case) or _left_behind(case)

    def why_failed(self, message: str) -> str:
        if "'str' object has no attribute" in message or "for /: 'str'" in message:
            return '`path` is a str, not a pathlib.Path. Write path + ".new", or make a Path(path) first.'
        if found := _RETURNED.search(message):
            return _returns_early(int(found[1]))
        if "SecondWriter" in message:
            return _FIRST_OF_ITS_MACHINE if "LOCAL_RANK" in message else _SECOND_WRITER
        if "cross-device link" in message.lower():
            return _FROM_ELSEWHERE
        if "pickle" in message.lower():
            return "It saves an object that cannot be pickled. Save the state_dict() of the model and of the optimizer."
        return ""

    def too_little(self, case: Case) -> str:
        saving = _saving(case, 0)
        if not _trial(case).is_cut_off or saving.at_return == saving.before or saving.fault is None:
            return ""
        return f"An interrupted write destroys the last good checkpoint. {_BESIDE_IT}"

    def carried(self, case: Case) -> int:
        return sum(_saving(case, rank).wrote for rank in range(case.world_size))

    def textbook(self, case: Case) -> int:
        return 1


def _trial(case: Case) -> SaveTrial:
    assert isinstance(case.trial, SaveTrial)
    return case.trial


def _saving(case: Case, rank: int) -> Saving:
    saving = case.outcomes[rank].given
    assert isinstance(saving, Saving)
    return saving


def _too_early(case: Case, rank: int) -> Difference | None:
    at_return, in_the_end = _saving(case, rank).at_return, _saving(case, 0).at_return
    if at_return == in_the_end:
        return None
    yours = "the old one" if at_return else "none"
    return Difference("file when it returns", yours, "the new one", _returns_early(rank))


def _returns_early(rank: int) -> str:
    return (
        f"Rank {rank} returns before the checkpoint is written. After the write, call dist.barrier() on every rank, "
        "not only on the one that writes."
    )


def _torn(case: Case) -> Difference | None:
    """Was there a moment without a complete checkpoint at the path, although there had been one before?"""
    saving = _saving(case, 0)
    if not _trial(case).has_old:
        return None
    torn = [one for one in saving.versions if one not in (saving.before, saving.at_return)]
    if not torn:
        return None
    yours = "a part of the new one" if torn[0] else "none"
    mistake = f"During the write there is no complete checkpoint to restart from. {_BESIDE_IT}"
    if not any(torn):
        mistake = (
            "The old checkpoint is deleted before the new one is in place. Keep it until os.replace(other, path) "
            "replaces it."
        )
    return Difference("file during the write", yours, "the old or the new one", mistake)


def _from_elsewhere(case: Case) -> Difference | None:
    if not _saving(case, 0).from_elsewhere:
        return None
    return Difference("new file", "in another folder", "next to the checkpoint", _FROM_ELSEWHERE)


def _left_behind(case: Case) -> Difference | None:
    if not _saving(case, 0).left_behind:
        return None
    mistake = "It leaves another file next to the checkpoint. Remove that file before you return."
    return Difference("files", "more than one", "one", mistake)
