"""The runs of a judgment: the plain program and the learner's script, undisturbed, watched, killed and slowed down."""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ddp_lessons.capstone import plain_training
from ddp_lessons.capstone.script_runs import CannotJudge, Outcome, Program, run_program
from ddp_lessons.run.diagnosis.wording import count
from ddp_lessons.run.output.progress_line import ProgressLine

T = TypeVar("T", bound="Trials")
EPOCHS = 3
STEPS_PER_EPOCH = -(-plain_training.TRAIN // plain_training.BATCH)
SIZES = (1, 2, 4)
RESULTS = ("train_loss", "test_loss", "correct", "tested")
# of a file next to the checkpoint that another rank has renamed, or that two ranks write at the same time
_SEVERAL_WROTE = re.compile(r"FileNotFoundError: .*(->|FILE\.\w+[^'\"\w])|PytorchStreamWriter|unexpected pos")
_LEAST_LIMIT_SECONDS, _TIMES_THE_PLAIN_PROGRAM = 30.0, 8


class NotJudged(Exception):
    """A run that a part needs did not give what the contract asks; the message says what."""

    def __init__(self, said: str, advice: str) -> None:
        super().__init__(said)
        self.advice = advice


@dataclass
class Trials:
    """Runs of the learner's script and of the plain program. Each is made when a part first asks for it."""

    script: Path
    folder: Path
    choice: random.Random
    tick: Callable[[str], None] = lambda words: None
    part: str = ""  # of the judgment, in front of the words of `tick`
    sizes: tuple[int, ...] = SIZES
    steps_per_epoch: ClassVar[int] = STEPS_PER_EPOCH
    arguments: ClassVar[str] = f"--epochs {EPOCHS} --checkpoint FILE.pt --out FILE.json"
    limit: float = 120.0  # seconds for a run; less once the plain program has shown how fast this machine is
    made: int = field(default=0, init=False)

    @classmethod
    @contextmanager
    def shown(cls: type[T], script: Path, choice: random.Random) -> Iterator[T]:
        """In a folder of their own, with a line that says what runs, and for how long."""
        folder, began = Path(tempfile.mkdtemp(prefix="ddp-lessons-")), time.monotonic()
        with ProgressLine() as line:
            trials = cls(script, folder, choice)
            trials.tick = lambda words: line.show(f"{trials.part}{words} ({time.monotonic() - began:.0f} s so far)")
            try:
                yield trials
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    @property
    def plain(self) -> Path:
        return Path(plain_training.__file__)

    def run(self, words: str, program: Program) -> Outcome:
        self.made += 1
        return run_program(program, self.folder / str(self.made), self.limit, lambda: self.tick(words))

    def program(self, ranks: int, name: str, epochs: int = EPOCHS, **more: Any) -> Program:
        script = self.script if ranks else self.plain
        files = ("--checkpoint", f"{self.folder / name}.pt", "--out", f"{self.folder / name}.json")
        return Program(script, ranks, ("--epochs", str(epochs), *files), **more)

    def result(self, name: str, outcome: Outcome, ranks: int) -> dict[str, float]:
        """What the script wrote to --out, if it came to its end."""
        self.require_end(outcome, ranks)
        path = self.folder / f"{name}.json"
        if not path.exists():
            advice = "let rank 0 write the results to the file given by --out, as plain_training.py does."
            raise NotJudged(f"on {named(ranks)} the script ended without writing the file given by --out.", advice)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return {key: float(found[key]) for key in RESULTS}
        except (ValueError, TypeError, KeyError) as error:
            said = (
                f"on {named(ranks)} the file given by --out has no number {error}."
                if isinstance(error, KeyError)
                else (f"on {named(ranks)} the file given by --out holds no JSON object of numbers.")
            )
            raise NotJudged(said, f"write a JSON object with the numbers {', '.join(RESULTS)}.") from error

    def require_end(self, outcome: Outcome, ranks: int) -> None:
        if outcome.status is None and outcome.seconds < outcome.limit:
            raise NotJudged(f"on {named(ranks)} the script printed more than 20 MB.", "print one line per epoch.")
        command = f"`python -m ddp_lessons explain --nproc-per-node {ranks} {self.script.name} {self.arguments}`"
        if outcome.status is None:
            said = f"hang or timeout: on {named(ranks)} the script did not end within {outcome.limit:.0f} seconds."
            raise NotJudged(said, f"run {command}, which shows the rank and the line that wait.")
        if outcome.status:
            failure = self._with_files_as_in_a_command(outcome.last_line)
            advice = f"run {command}."
            if ranks > 1 and _SEVERAL_WROTE.search(failure):
                first = "several ranks write this file: let only rank 0 save (`if rank == 0:`)."
                advice = f"{first} If that is not it, {advice}"
            raise NotJudged(f"on {named(ranks)} the script failed: {failure}", advice)
        if not outcome.steps(0) and outcome.noted:
            said = f"on {named(ranks)} rank 0 made no step with an optimizer of torch.optim."
            raise NotJudged(said, "train with the optimizer of plain_training.py.")

    def _with_files_as_in_a_command(self, line: str) -> str:
        """Each run has files of its own: under one name, the same failure reads the same in each run."""
        return re.sub(rf"{re.escape(str(self.folder))}/[\w-]+\.(pt|json)", r"FILE.\1", line)[:200]

    @cached_property
    def reference(self) -> Outcome:
        _ = self.watched_plain  # which sets the limit
        return self.run("2 ranks, undisturbed", self.program(2, "reference"))

    @cached_property
    def reference_result(self) -> dict[str, float]:
        return self.result("reference", self.reference, 2)

    @cached_property
    def watched(self) -> dict[int, Outcome]:
        """The plain program (0) and the script on 1 rank and more, watched step by step for two epochs."""
        return {0: self.watched_plain, **{size: self._watch(size) for size in self.sizes}}

    @cached_property
    def watched_plain(self) -> Outcome:
        """It sets the limit of all later runs."""
        outcome = self._watch(0)
        if not outcome.has_ended:
            advice = "Next: run `python -m ddp_lessons doctor`, and try again when the machine is less busy."
            raise CannotJudge(f"the plain program failed or took too long: {outcome.last_line}\n{advice}")
        self.limit = max(_LEAST_LIMIT_SECONDS, _TIMES_THE_PLAIN_PROGRAM * outcome.seconds)
        return outcome

    def _watch(self, size: int) -> Outcome:
        settings = {"steps": 2 * STEPS_PER_EPOCH, "random": [], "dtype": None}
        program = self.program(size, f"watched-{size}", 2, settings=settings, watches=True)
        return self.run(f"{named(size)}, step by step", program)

    def killed_and_resumed(self, kill: tuple[int, int]) -> tuple[Outcome, Outcome]:
        killed = self.run("2 ranks, one of them killed", self.program(2, "killed", settings={"kill": kill}))
        return killed, self.run("2 ranks, resumed", self.program(2, "killed"))


def named(ranks: int) -> str:
    return "the plain program" if not ranks else count(ranks, "rank")
