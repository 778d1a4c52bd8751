"""Inside a rank of a learner's script: run it as Python would, delay or end it where asked, and note what it did.

`python -m ddp_lessons.capstone.observed_rank FOLDER SETTINGS script.py its arguments`. The script needs no change:
everything here happens in hooks around `optimizer.step()` and `torch.save`.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pickle
import runpy
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.optim import optimizer as optimizer_hooks

from ddp_lessons.run.recording.interception import install, recorder
from ddp_lessons.sameness.run_records import file_of

KILLED, LEAVES, ALONE = "killed", "leaves", "alone"
_FAULTS: dict[str, Callable[[], object]] = {
    KILLED: lambda: os.kill(os.getpid(), signal.SIGKILL),
    LEAVES: sys.exit,  # a rank ends early
    ALONE: lambda: dist.barrier(),  # a collective call that no other rank makes
}


class Observer:
    """Hooks that stay until the process ends, and what they have noted.

    The settings have `fault`, the kind, rank and step of one fault; `delays` in seconds; and `records`, whether to
    record the calls of torch.distributed.
    """

    def __init__(self, rank: int, settings: dict[str, Any]) -> None:
        self.rank, self.settings = rank, settings
        self.steps = 0  # of the optimizer, so far
        self.saved: list[str] = []  # the files that torch.save wrote
        self.optimizer: torch.optim.Optimizer | None = None

    def begin(self) -> None:
        optimizer_hooks.register_optimizer_step_pre_hook(self._before_step)
        optimizer_hooks.register_optimizer_step_post_hook(self._after_step)
        torch.save = functools.partial(self._saving, torch.save)
        if self.settings.get("records"):
            install()
            recorder.begin(keeps_values=False)
        self._delay("start")

    def _delay(self, where: str) -> None:
        time.sleep(self.settings.get("delays", {}).get(f"{where} {self.rank}", 0.0))

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self.optimizer = optimizer
        kind, *where = self.settings.get("fault", [""])
        if where == [self.rank, self.steps]:
            _FAULTS[kind]()
        self._delay("step")

    def _after_step(self, *_: object) -> None:
        self.steps += 1

    def _saving(self, save: Any, content: object, file: Any, *args: Any, **kwargs: Any) -> None:
        self._delay("save")
        if isinstance(file, (str, os.PathLike)):
            self.saved.append(os.path.abspath(file))
        save(content, file, *args, **kwargs)

    def write(self, folder: Path) -> None:
        """What the rank did, with the weights that its optimizer trains, as they are at the end."""
        if self.optimizer is None:
            return
        parameters = [parameter for group in self.optimizer.param_groups for parameter in group["params"]]
        weights = torch.cat([parameter.detach().cpu().double().ravel() for parameter in parameters])
        np.save(folder / f"weights-{self.rank}.npy", weights.numpy())
        if self.settings.get("records"):
            (folder / f"calls-{self.rank}.pickle").write_bytes(pickle.dumps(recorder.recorded()))
        file_of(folder, self.rank).write_text(json.dumps({"steps": self.steps, "saved": self.saved}), encoding="utf-8")


def main() -> None:
    folder, settings, script = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    del sys.argv[:3]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    observer = Observer(int(os.environ.get("RANK", "0")), settings)
    observer.begin()
    try:
        runpy.run_path(script, run_name="__main__")
    finally:
        with contextlib.suppress(Exception):  # the script's own error is the one to see
            observer.write(folder)


if __name__ == "__main__":
    main()
