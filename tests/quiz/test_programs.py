"""The program of a question does what its right choice says."""

from __future__ import annotations

import linecache
import time
from types import SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddp_lessons import WorkerFailed, WorkersStuck, launch
from ddp_lessons.quiz.question import FILES, Question, questions_of

ALL = [(lesson, number, one) for lesson in range(len(FILES)) for number, one in enumerate(questions_of(lesson), 1)]


def test_programs_do_what_their_right_choice_says() -> None:
    """All in this one test: the ranks are forked from a process that is warm after the first of them."""
    wrong = [
        f"{lesson}.{number}: {said}"
        for lesson, number, one in ALL
        if one.program and (said := says_otherwise(f"quiz {lesson}.{number}", one))
    ]
    assert wrong == []


def says_otherwise(name: str, question: Question) -> str:
    """What the program did, if its question claims something else."""
    program = question.program
    linecache.cache[name] = len(program), None, program.splitlines(keepends=True), name
    launched = SimpleNamespace(results=None, error=None)

    def launch_it(f: Any, world_size: int) -> Any:
        try:
            launched.results = launch(f, world_size, **{"quiet": True, **question.options})
        except (WorkerFailed, WorkersStuck) as error:
            launched.error, launched.results = error, error.results
        return launched.results

    known: dict[str, Any] = {"torch": torch, "dist": dist, "nn": nn, "time": time, "launch": launch_it}
    known |= {"DDP": DistributedDataParallel, "DataLoader": DataLoader, "DistributedSampler": DistributedSampler}
    exec(compile(program, name, "exec"), known)
    if "launch(" not in program:
        launch_it(known["f"], question.ranks)
    known |= {"results": launched.results, "error": launched.error, "right": question.choices[question.right].choice}
    return "" if eval(question.holds, known) is True else f"{list(launched.results)} {launched.error}"
