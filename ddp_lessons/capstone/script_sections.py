"""`check.training_script`: run the script of lesson 9 on two ranks, and check one of its sections.

The learner writes the functions of four sections, which go into `train.py`. `scripts/training.py` is the finished
script, whose functions replace those that aren't correct yet, so that the learner can go on with the next section.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ddp_lessons.capstone.capstone_parts import number_tested, survives_a_kill
from ddp_lessons.capstone.script_runs import EPOCHS, Trials, trials_of
from ddp_lessons.capstone.verdicts import NotYet, Part, part_of, refuse
from ddp_lessons.check.report import Report, not_right, not_started
from ddp_lessons.own_files import SCRIPTS

BEGIN, FINISHED = SCRIPTS / "one_process.py", SCRIPTS / "training.py"
_TRAINED, _TESTED, _STEPS = 1_920, 1_001, 30  # images, and steps of an epoch
_BATCH, _PARTS = 64 // 2, 4  # of each rank's step
_CLOSE = 1e-4  # gradients, relative to the largest
_ARGUMENTS = f"--data DATA --epochs {EPOCHS} --checkpoint FILE.pt"
_UNWRITTEN = "def save(path, epoch, parts):\n    ...\n\n\ndef load(path, parts):\n    return 0\n"
_ON_RANK_0 = "if dist.get_rank() == 0:\n            print("
_COUNTS = re.compile(r"(\d+) of (\d+) test images correct")
_EXCHANGE = ("all_reduce", "reduce", "all_gather", "gather")  # calls begin with it; DDP's has another name


def shares_the_images(trials: Trials) -> Part:
    run = trials.run("step by step", 2, "--data DATA --epochs 2", watch=1).require_end().record
    half = run.steps[0] // 2
    epochs = [[run.samples(step) for step in range(begin, begin + half)] for begin in (0, half)]
    zero, one = (sum((step[rank] for step in epochs[0]), Counter()) for rank in range(2))
    doubled, entered = (zero & one).total(), len(zero | one)
    rows = {
        "images_on_both_ranks": doubled,
        "images_left_out": entered != _TRAINED,
        "other_number_of_steps": {*run.steps} != {2 * _STEPS},
        "same_order": epochs[0] == epochs[1],
    }
    steps = " and ".join(map(str, run.steps))
    refuse(rows, doubled=doubled, entered=entered, trained=_TRAINED, steps=steps, wanted=2 * _STEPS)
    return part_of("sampler", True, trained=_TRAINED)


def counts_all_test_images(trials: Trials) -> Part:
    text = trials.script.read_text(encoding="utf-8")
    trials.script = trials.folder / trials.script.name  # a copy, in which each rank prints what it returns
    trials.script.write_text(text.replace(_ON_RANK_0, "if True:\n            print("), encoding="utf-8")
    correct = {}
    for ranks in (1, 2):
        outcome = trials.run("evaluated", ranks, "--data DATA", records=True).require_end()
        counts = [(int(right), int(tested)) for right, tested in _COUNTS.findall(outcome.printed)]
        refuse({"prints_no_counts": not counts})
        correct[ranks], tested = min(counts, key=lambda pair: pair[1])
        refuse(**number_tested(tested, _TESTED, ranks), what="the number of test images")
    own = [event for event in outcome.calls().events.of(0) if event.call.startswith(_EXCHANGE)]
    rows = {
        "counts_not_exchanged": not own,
        "other_images_correct": abs(correct[1] - correct[2]) > 3,  # rounding may turn a few
    }
    refuse(rows, one=correct[1], two=correct[2])
    return part_of("evaluation", True, tested=_TESTED)


def accumulates(trials: Trials) -> Part:
    arguments = [f"--data DATA --accumulate {parts}" for parts in (1, _PARTS)]
    whole, run = (trials.run("step by step", 2, given, watch=1).require_end().record for given in arguments)
    passes = [len(batch) for batch in run.at(0)[0].samples]
    small, large = (np.concatenate([*each.values("local", 0)[0].values()]) for each in (whole, run))
    distance, times = float(np.abs(large - small).max() / np.abs(small).max()), float(large @ small / (small @ small))
    syncs, is_far = sum(run.at(0)[0].syncs), not distance < _CLOSE
    rows = {
        "other_forward_passes": len(passes) != _PARTS or sum(passes) != _BATCH,
        "gradients_times": is_far and abs(times - 1) > 0.5,
        "other_gradients": is_far,
        "other_number_of_syncs": syncs != 1,
    }
    facts: dict[str, Any] = {"passes": len(passes), "images": passes, "batch": _BATCH, "syncs": syncs}
    refuse(rows, parts=_PARTS, times=times, distance=distance, **facts)
    return part_of("accumulation", True, parts=_PARTS)


SECTIONS: dict[str, tuple[tuple[str, ...], Callable[[Trials], Part]]] = {  # the functions that the learner writes
    "sampler": (("train_loader",), shares_the_images),
    "evaluation": (("evaluate",), counts_all_test_images),
    "checkpoint": (("save", "load"), survives_a_kill),
    "accumulation": (("backward",), accumulates),
}
_passed: dict[str, list[str]] = {}  # by section, the functions that passed


def training_script(section: str, *functions: Any, script: str | Path = "train.py") -> Report:
    """Put your functions into the script, run it on two ranks, and check one section of lesson 9.

    Args:
        section: "sampler", "evaluation", "checkpoint" or "accumulation".
        *functions: your functions, which replace those of the same name in the file.
        script: the file's path.
    """
    path, exercise = Path(script), f'training_script("{section}")'
    if section not in SECTIONS:
        raise ValueError(f"section must be one of {', '.join(map(repr, SECTIONS))}, not {section!r}")
    if not path.is_file():
        return replace(not_started(exercise), mistake=f"There is no file {path.name} here. Run the cells above first.")
    put_into(path, *functions)
    written = _written(section, path.read_text(encoding="utf-8"))
    if written == _written(section, BEGIN.read_text(encoding="utf-8") + _UNWRITTEN):
        return not_started(exercise)
    try:
        with trials_of(path.resolve(), _ARGUMENTS, _STEPS) as trials:
            part = SECTIONS[section][1](trials)
    except NotYet as verdict:
        return not_right(exercise, verdict.part.said, (f"  Next: {verdict.part.advice}",))
    _passed[section] = written
    return Report(exercise, True, "passed", details=(f"  {part.said}",))


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
    return [ast.unparse(ast.parse(found.get(name, ""))) for name in SECTIONS[section][0]]


def continue_with(section: str, script: str | Path = "train.py") -> None:
    """Keep your functions of a section if they have passed their check; otherwise, use the course's."""
    path, names = Path(script), " and ".join(SECTIONS[section][0])
    if _passed.get(section) == _written(section, path.read_text(encoding="utf-8")):
        print(f"{path.name} keeps your {names}")
        return
    put_into(path, *finished_functions(section))
    print(f"{path.name} now has the course's {names}")


def finished_functions(section: str) -> list[str]:
    finished = functions_of(FINISHED.read_text(encoding="utf-8"))
    return [finished[name] for name in SECTIONS[section][0]]
