"""One function per exercise: it tries what you wrote on several ranks, and returns a `Report` that shows itself.

What passes is kept for the learner, and `check.progress()` shows it. The names load when they are first used, so that a
rank pays nothing for them.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.check.averages import global_mean as global_mean, mean_loss as mean_loss
    from ddp_lessons.check.backends import choose_backend as choose_backend
    from ddp_lessons.check.board import all_reduce_on_board as all_reduce_on_board
    from ddp_lessons.check.checkpoints import save_checkpoint as save_checkpoint
    from ddp_lessons.check.collectives_by_hand import (
        all_gather_by_hand as all_gather_by_hand,
        broadcast_by_hand as broadcast_by_hand,
    )
    from ddp_lessons.check.dashboard import progress as progress
    from ddp_lessons.check.evaluation import evaluate as evaluate
    from ddp_lessons.check.gradients import average_gradients as average_gradients
    from ddp_lessons.check.groups import share_best as share_best, sum_of_half as sum_of_half
    from ddp_lessons.check.job_scripts import job_script as job_script
    from ddp_lessons.check.numbering import ranks_of as ranks_of
    from ddp_lessons.check.orders import epoch_order as epoch_order
    from ddp_lessons.check.partitions import data_partitioner as data_partitioner
    from ddp_lessons.check.point_to_point import (
        exchange as exchange,
        pass_the_token as pass_the_token,
        swap as swap,
    )
    from ddp_lessons.check.readings import reading as reading
    from ddp_lessons.check.replicas import replicas_agree as replicas_agree
    from ddp_lessons.check.report import Report as Report
    from ddp_lessons.check.restarts import restartable as restartable
    from ddp_lessons.check.ring import ring_all_reduce as ring_all_reduce
    from ddp_lessons.check.sharded_means import sharded_mean as sharded_mean
    from ddp_lessons.check.shards import shard as shard
    from ddp_lessons.check.stages import stage_of as stage_of
    from ddp_lessons.check.weighted import weighted_average as weighted_average
    from ddp_lessons.check.wrappers import my_ddp as my_ddp

_HOME = {
    "Report": "report",
    "all_gather_by_hand": "collectives_by_hand",
    "all_reduce_on_board": "board",
    "average_gradients": "gradients",
    "broadcast_by_hand": "collectives_by_hand",
    "choose_backend": "backends",
    "data_partitioner": "partitions",
    "epoch_order": "orders",
    "evaluate": "evaluation",
    "exchange": "point_to_point",
    "global_mean": "averages",
    "job_script": "job_scripts",
    "mean_loss": "averages",
    "my_ddp": "wrappers",
    "pass_the_token": "point_to_point",
    "progress": "dashboard",
    "ranks_of": "numbering",
    "reading": "readings",
    "replicas_agree": "replicas",
    "restartable": "restarts",
    "ring_all_reduce": "ring",
    "save_checkpoint": "checkpoints",
    "shard": "shards",
    "sharded_mean": "sharded_means",
    "share_best": "groups",
    "stage_of": "stages",
    "sum_of_half": "groups",
    "swap": "point_to_point",
    "weighted_average": "weighted",
}
_NOT_COUNTED = {"Report", "progress", "replicas_agree"}
__all__ = [
    "Report",
    "all_gather_by_hand",
    "all_reduce_on_board",
    "average_gradients",
    "broadcast_by_hand",
    "choose_backend",
    "data_partitioner",
    "epoch_order",
    "evaluate",
    "exchange",
    "global_mean",
    "job_script",
    "mean_loss",
    "my_ddp",
    "pass_the_token",
    "progress",
    "ranks_of",
    "reading",
    "replicas_agree",
    "restartable",
    "ring_all_reduce",
    "save_checkpoint",
    "shard",
    "sharded_mean",
    "share_best",
    "stage_of",
    "sum_of_half",
    "swap",
    "weighted_average",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _load(name)


@functools.cache
def _load(name: str) -> object:
    from importlib import import_module

    from ddp_lessons.check.dashboard import counting

    thing = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return thing if name in _NOT_COUNTED else counting(thing)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
