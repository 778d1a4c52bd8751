"""One function per exercise: it runs what you wrote on several ranks and returns a `Report` that displays itself.

Passed exercises are recorded, and `check.progress()` shows them. The names load on first use, so that they cost a rank
nothing.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.capstone.capstone_check import capstone as capstone
    from ddp_lessons.capstone.script_sections import training_script as training_script
    from ddp_lessons.check.clusters.backend_exercise import choose_backend as choose_backend
    from ddp_lessons.check.clusters.job_script_exercise import job_script as job_script
    from ddp_lessons.check.clusters.numbering_exercise import ranks_of as ranks_of
    from ddp_lessons.check.dashboard import progress as progress
    from ddp_lessons.check.judging.report import Report as Report
    from ddp_lessons.check.messages.collective_exercises import (
        all_gather_by_hand as all_gather_by_hand,
        broadcast_by_hand as broadcast_by_hand,
    )
    from ddp_lessons.check.messages.group_exercises import share_best as share_best, sum_of_half as sum_of_half
    from ddp_lessons.check.messages.mean_exercises import global_mean as global_mean, mean_loss as mean_loss
    from ddp_lessons.check.messages.message_exercises import (
        exchange as exchange,
        pass_the_token as pass_the_token,
        swap as swap,
    )
    from ddp_lessons.check.messages.ring_exercise import ring_all_reduce as ring_all_reduce
    from ddp_lessons.check.readings import reading as reading
    from ddp_lessons.check.trainings.checkpoint_exercise import save_checkpoint as save_checkpoint
    from ddp_lessons.check.trainings.evaluation_exercise import evaluate as evaluate
    from ddp_lessons.check.trainings.gradient_exercise import average_gradients as average_gradients
    from ddp_lessons.check.trainings.loop_exercise import train_loop as train_loop
    from ddp_lessons.check.trainings.partition_exercise import data_partitioner as data_partitioner
    from ddp_lessons.check.trainings.restart_exercise import restartable as restartable
    from ddp_lessons.check.trainings.sampler_exercise import rank_sampler as rank_sampler
    from ddp_lessons.check.trainings.shard_exercise import shard as shard
    from ddp_lessons.check.trainings.sharded_mean_exercise import sharded_mean as sharded_mean
    from ddp_lessons.check.trainings.stage_exercise import stage_of as stage_of
    from ddp_lessons.check.trainings.stream_exercise import shard_stream as shard_stream
    from ddp_lessons.check.trainings.token_loss_exercise import token_mean_loss as token_mean_loss
    from ddp_lessons.check.trainings.weighted_exercise import weighted_average as weighted_average
    from ddp_lessons.check.trainings.wrapper_exercise import my_ddp as my_ddp
    from ddp_lessons.clinic.diagnosis import diagnosis as diagnosis

_HOME = {
    "Report": "judging.report",
    "all_gather_by_hand": "messages.collective_exercises",
    "average_gradients": "trainings.gradient_exercise",
    "broadcast_by_hand": "messages.collective_exercises",
    "capstone": ".capstone.capstone_check",  # beside this folder
    "choose_backend": "clusters.backend_exercise",
    "data_partitioner": "trainings.partition_exercise",
    "diagnosis": ".clinic.diagnosis",
    "evaluate": "trainings.evaluation_exercise",
    "exchange": "messages.message_exercises",
    "global_mean": "messages.mean_exercises",
    "job_script": "clusters.job_script_exercise",
    "mean_loss": "messages.mean_exercises",
    "my_ddp": "trainings.wrapper_exercise",
    "pass_the_token": "messages.message_exercises",
    "progress": "dashboard",
    "rank_sampler": "trainings.sampler_exercise",
    "ranks_of": "clusters.numbering_exercise",
    "reading": "readings",
    "restartable": "trainings.restart_exercise",
    "ring_all_reduce": "messages.ring_exercise",
    "save_checkpoint": "trainings.checkpoint_exercise",
    "shard": "trainings.shard_exercise",
    "shard_stream": "trainings.stream_exercise",
    "sharded_mean": "trainings.sharded_mean_exercise",
    "share_best": "messages.group_exercises",
    "stage_of": "trainings.stage_exercise",
    "sum_of_half": "messages.group_exercises",
    "swap": "messages.message_exercises",
    "token_mean_loss": "trainings.token_loss_exercise",
    "train_loop": "trainings.loop_exercise",
    "training_script": ".capstone.script_sections",
    "weighted_average": "trainings.weighted_exercise",
}
__all__ = list(_HOME)
_NOT_COUNTED = {"Report", "progress"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load(name)


@functools.cache
def _load(name: str) -> object:
    from importlib import import_module

    from ddp_lessons.check.dashboard import counting

    thing = getattr(import_module(f".{_HOME[name]}", __name__), name)
    return thing if name in _NOT_COUNTED else counting(thing)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
