"""`check.training_script`: run the script of lesson 9 on two ranks, and say whether one section of it is right.

The learner writes the functions of four sections, which go into `train.py`. `scripts/training.py` is the finished
script: its functions take the place of those that are not right yet, so that the next section can go on.
"""

from __future__ import annotations

import ast
import inspect
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ddp_lessons.capstone.capstone_page import sentence
from ddp_lessons.capstone.capstone_parts import survives_a_kill, wrong_number_tested
from ddp_lessons.capstone.capstone_trials import EPOCHS, NotJudged, Trials, named
from ddp_lessons.capstone.script_runs import CannotJudge, Outcome, Program, require_torchrun
from ddp_lessons.check.report import Report, not_right, not_started
from ddp_lessons.own_files import SCRIPTS
from ddp_lessons.train.mnist import mnist_folder

BEGIN, FINISHED = SCRIPTS / "one_process.py", SCRIPTS / "training.py"
TRAINED, TESTED, STEPS = 1_920, 1_001, 30  # images, and steps of an epoch
_PARTS = 4  # of each rank's batch
_CLOSE = 1e-4  # gradients, relative to the largest
_UNWRITTEN = "def save(path, epoch, parts):\n    ...\n\n\ndef load(path, parts):\n    return 0\n"


class ScriptTrials(Trials):
    """Runs of the script of the lesson."""

    steps_per_epoch: ClassVar[int] = STEPS
    arguments: ClassVar[str] = f"--data DATA --epochs {EPOCHS}"

    def program(self, ranks: int, name: str, epochs: int = EPOCHS, **more: Any) -> Program:
        files = ("--checkpoint", f"{self.folder / name}.pt")
        return Program(self.script, ranks, ("--data", mnist_folder(), "--epochs", str(epochs), *files), **more)

    def result(self, name: str, outcome: Outcome, ranks: int) -> dict[str, float]:
        self.require_end(outcome, ranks)
        return {}

    @cached_property
    def reference(self) -> Outcome:
        return self.run("2 ranks, undisturbed", self.program(2, "reference"))

    def ended(self, ranks: int, *arguments: str, **more: Any) -> Outcome:
        program = Program(self.script, ranks, ("--data", mnist_folder(), *arguments), **more)
        outcome = self.run(named(ranks), program)
        self.require_end(outcome, ranks)
        return outcome

    def watched_steps(self, *arguments: str) -> Any:
        """Samples and gradients of two ranks."""
        from ddp_lessons.sameness.run_records import Run, file_of, read_record

        settings = {"steps": 2, "random": [], "dtype": None}
        outcome = self.ended(2, *arguments, settings=settings, watches=True)
        return Run(tuple(read_record(file_of(outcome.folder, rank)) for rank in range(2)))


# what each section claims: the function returns what was seen, or raises NotJudged


def shares_the_images(trials: ScriptTrials) -> str:
    run = trials.watched_steps("--epochs", "2")
    half = run.steps[0] // 2
    epochs = [[run.samples(step) for step in range(begin, begin + half)] for begin in (0, half)]
    zero, one = (Counter[int]() + sum((step[rank] for step in epochs[0]), Counter()) for rank in range(2))
    if number := (zero & one).total():
        said = f"in the first epoch, {number:,} of the images enter the model on both ranks."
        raise NotJudged(said, "give each rank its own images: sampler=DistributedSampler(train_set).")
    if len(zero | one) != TRAINED:
        said = f"in the first epoch, {len(zero | one):,} of {TRAINED:,} images enter the model."
        raise NotJudged(said, "divide the images among the ranks, and leave none out.")
    if {*run.steps} != {2 * STEPS}:
        said = f"in two epochs the ranks make {' and '.join(map(str, run.steps))} steps, instead of {2 * STEPS} each."
        raise NotJudged(said, "let the ranks share the 64 images of a step: 64 // dist.get_world_size() for each.")
    if epochs[0] == epochs[1]:
        said = "both epochs use the images in the same order."
        raise NotJudged(said, "call sampler.set_epoch(epoch), and leave the sampler's shuffle on.")
    return f"{TRAINED:,} images in each epoch, each on one rank, and another order in the second epoch"


def counts_all_test_images(trials: ScriptTrials) -> str:
    counted, text = {}, trials.script.read_text(encoding="utf-8")
    trials.script = trials.folder / trials.script.name  # a copy, in which each rank prints what it returns
    trials.script.write_text(text.replace(_ON_RANK_0, "if True:\n            print("), encoding="utf-8")
    for ranks in (1, 2):
        outcome = trials.ended(ranks, settings={"records": True})
        found = re.findall(r"(\d+) of (\d+) test images correct", outcome.printed)
        if not found:
            raise NotJudged("the script no longer prints `N of M test images correct`.", "return correct and tested.")
        counted[ranks] = min(((int(correct), int(tested)) for correct, tested in found), key=lambda pair: pair[1])
    for ranks, (_, tested) in counted.items():
        for said, advice in wrong_number_tested(tested, ranks, TESTED):
            raise NotJudged(said.replace("`tested`", "the number of test images"), f"{advice}.")
    own = [event for event in outcome.calls().events.of(0) if event.is_collective and event.call in _COLLECTIVES]
    if not own:
        said = "on 2 ranks, no count is exchanged, so each rank evaluates all test images."
        raise NotJudged(said, "let each rank evaluate its own test images, and all_reduce the counts.")
    if abs(counted[1][0] - counted[2][0]) > 3:  # rounding may turn a few
        said = f"on 2 ranks {counted[2][0]} images are correct, on one rank {counted[1][0]}."
        raise NotJudged(said, "add up correct and tested on each rank, and all_reduce both.")
    return f"{TESTED:,} test images, each counted once, on 1 and on 2 ranks"


_COLLECTIVES = {"all_reduce", "reduce", "all_gather", "gather", "all_gather_object", "gather_object"}
_COLLECTIVES |= {"all_gather_into_tensor", "all_gather_single"}
_ON_RANK_0 = "if dist.get_rank() == 0:\n            print("


def resumes(trials: ScriptTrials) -> str:
    part = survives_a_kill(trials)
    if not part.passed:
        raise NotJudged(part.said, part.advice)
    return part.said


def accumulates(trials: ScriptTrials) -> str:
    import numpy as np

    whole, run = (trials.watched_steps("--accumulate", str(parts)) for parts in (1, _PARTS))
    passes = [len(batch) for batch in run.at(0)[0].samples]
    batch = 64 // run.world_size
    if len(passes) != _PARTS or sum(passes) != batch:
        said = f"with --accumulate {_PARTS}, a rank's step has {len(passes)} forward passes, with {passes} images."
        raise NotJudged(said, f"split the {batch} images with chunk(args.accumulate): one forward pass for each part.")
    small, large = (np.concatenate([*each.values("local", 0)[0].values()]) for each in (whole, run))
    distance = float(np.abs(large - small).max() / np.abs(small).max())
    times = float(large @ small / (small @ small))
    if abs(times - 1) > 0.5 and not distance < _CLOSE:
        said = f"the gradients are {times:.2f} times those of --accumulate 1."
        raise NotJudged(said, "divide the loss of each part by the number of parts.")
    if not distance < _CLOSE:
        said = f"the gradients differ from those of --accumulate 1 by {distance:.0e} of the largest."
        raise NotJudged(said, "divide each loss by the number of parts, and let the last part average over the ranks.")
    syncs = sum(run.at(0)[0].syncs)
    if syncs != 1:
        said = f"DDP averages the gradients after {syncs} of {_PARTS} parts, instead of 1."
        raise NotJudged(said, "put forward and backward pass of every part but the last under model.no_sync().")
    return f"{_PARTS} parts give the gradients of one batch, and only the last part communicates"


@dataclass(frozen=True)
class Section:
    functions: tuple[str, ...]  # that the learner writes
    judge: Callable[[ScriptTrials], str]


SECTIONS = {
    "sampler": Section(("train_loader",), shares_the_images),
    "evaluation": Section(("evaluate",), counts_all_test_images),
    "checkpoint": Section(("save", "load"), resumes),
    "accumulation": Section(("backward",), accumulates),
}
_passed: dict[str, list[str]] = {}  # by section, the functions that passed


def training_script(section: str, *functions: Any, script: str | Path = "train.py") -> Report:
    """Put your functions into the script, run it on two ranks, and judge one section of lesson 9.

    Args:
        section: "sampler", "evaluation", "checkpoint" or "accumulation".
        *functions: replace those of the same name in the file.
        script: the file.
    """
    path, exercise = Path(script), f'training_script("{section}")'
    if section not in SECTIONS:
        raise ValueError(f"section is one of {', '.join(map(repr, SECTIONS))}, not {section!r}")
    if not path.is_file():
        return replace(not_started(exercise), mistake=f"There is no file {path.name} here: run the cells above.")
    put_into(path, *functions)
    written = _written(section, path.read_text(encoding="utf-8"))
    if written == _written(section, BEGIN.read_text(encoding="utf-8") + _UNWRITTEN):
        return not_started(exercise)
    try:
        require_torchrun()
        with ScriptTrials.shown(path.resolve(), random.Random(0)) as trials:
            said = SECTIONS[section].judge(trials)
    except NotJudged as wrong:
        return not_right(exercise, sentence(str(wrong)), (f"  Next: {wrong.advice}",))
    except CannotJudge as missing:
        return Report(exercise, False, "could not judge", str(missing))
    _passed[section] = written
    return Report(exercise, True, "passed", details=(f"  {sentence(said)}",))


# functions of a file


def put_into(script: str | Path, *functions: Any) -> None:
    """Replace the functions of these names in the file, or add them before `main`."""
    path = Path(script)
    text = path.read_text(encoding="utf-8")
    for function in functions:
        source = function if isinstance(function, str) else inspect.getsource(function)
        (name,) = functions_of(source)
        old = functions_of(text).get(name)
        main = functions_of(text)["main"]
        text = text.replace(old, source.strip()) if old else text.replace(main, f"{source.strip()}\n\n\n{main}")
    path.write_text(text, encoding="utf-8")


def functions_of(source: str) -> dict[str, str]:
    """The text of each function, with its decorators."""
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            begin = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found[node.name] = "\n".join(lines[begin - 1 : node.end_lineno])
    return found


def _written(section: str, source: str) -> list[str]:
    """The functions of the section, without comments and blank lines."""
    found = functions_of(source)
    return [ast.unparse(ast.parse(found.get(name, ""))) for name in SECTIONS[section].functions]


def continue_with(section: str, script: str | Path = "train.py") -> None:
    """Keep the functions of a section that have passed their check; otherwise take the course's."""
    path, names = Path(script), " and ".join(SECTIONS[section].functions)
    if _passed.get(section) == _written(section, path.read_text(encoding="utf-8")):
        print(f"{path.name} keeps your {names}")
        return
    put_into(path, *finished_functions(section))
    print(f"{path.name} now has the course's {names}")


def finished_functions(section: str) -> list[str]:
    finished = functions_of(FINISHED.read_text(encoding="utf-8"))
    return [finished[name] for name in SECTIONS[section].functions]
