"""Inside a rank of a learner's script: run it as Python would, delay or end it where asked, and write down what it did.

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

LEAVES, ALONE = "leaves", "alone"  # faults: a rank ends early, or makes a collective call that no other rank makes


class Observer:
    """Hooks that are there while a script runs, and what they have noted."""

    def __init__(self, rank: int, settings: dict[str, Any]) -> None:
        self.rank, self.settings = rank, settings
        self.steps = 0  # of the optimizer, so far
        self.saved: list[str] = []  # the files that torch.save wrote
        self.renamed: list[str] = []  # the names that files got by os.replace and os.rename
        self.optimizer: torch.optim.Optimizer | None = None

    def __enter__(self) -> Observer:
        optimizer_hooks.register_optimizer_step_pre_hook(self._before_step)
        optimizer_hooks.register_optimizer_step_post_hook(self._after_step)
        self._save: Any = torch.save
        torch.save = self._saving  # type: ignore[assignment]
        self._renames: dict[str, Any] = {name: getattr(os, name) for name in ("replace", "rename")}
        for name, rename in self._renames.items():
            setattr(os, name, functools.partial(self._renaming, rename))
        if self.settings.get("records"):
            install()
            recorder.begin(keeps_values=False)
        time.sleep(self._delay("start"))
        return self

    def __exit__(self, *_: object) -> None:
        torch.save = self._save
        for name, rename in self._renames.items():
            setattr(os, name, rename)

    def _delay(self, where: str) -> float:
        return float(self.settings.get("delays", {}).get(f"{where} {self.rank}", 0.0))

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        self.optimizer = optimizer
        if self.settings.get("kill") == [self.rank, self.steps]:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.settings.get("fault") == [LEAVES, self.rank, self.steps]:
            sys.exit(0)
        if self.settings.get("fault") == [ALONE, self.rank, self.steps]:
            dist.barrier()
        time.sleep(self._delay("step"))

    def _after_step(self, *_: object) -> None:
        self.steps += 1

    def _saving(self, content: object, file: Any, *args: Any, **kwargs: Any) -> None:
        time.sleep(self._delay("save"))
        if isinstance(file, (str, os.PathLike)):
            self.saved.append(os.path.abspath(file))
        self._save(content, file, *args, **kwargs)

    def _renaming(self, rename: Any, old: Any, new: Any, **kwargs: Any) -> None:
        rename(old, new, **kwargs)
        self.renamed.append(os.path.abspath(new))

    def weights(self) -> Any:
        """All that the optimizer trains, as it is at the end."""
        groups = self.optimizer.param_groups if self.optimizer is not None else []
        tensors = [parameter.detach().cpu().double().ravel() for group in groups for parameter in group["params"]]
        return torch.cat(tensors).numpy() if tensors else np.zeros(0)

    def write(self, folder: Path) -> None:
        np.save(folder / f"weights-{self.rank}.npy", self.weights())
        if self.settings.get("records"):
            (folder / f"calls-{self.rank}.pickle").write_bytes(pickle.dumps(recorder.recorded()))
        noted = {"steps": self.steps, "saved": self.saved, "renamed": self.renamed}
        (folder / f"noted-{self.rank}.json").write_text(json.dumps(noted), encoding="utf-8")


def observe(folder: Path, settings: dict[str, Any], script: str) -> None:
    with Observer(int(os.environ.get("RANK", "0")), settings) as observer:
        try:
            _as_python_would(runpy.run_path, script)
        finally:
            with contextlib.suppress(Exception):  # the script's own error is the one to see
                observer.write(folder)


def _as_python_would(run: Callable[..., Any], script: str) -> None:
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    run(script, run_name="__main__")


def main() -> None:
    folder, settings, script = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    del sys.argv[:3]
    observe(folder, settings, script)


if __name__ == "__main__":
    main()
