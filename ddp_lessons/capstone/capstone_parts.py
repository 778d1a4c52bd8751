"""The parts of the judgment but the last: each looks at runs of the script and says passed or not, with numbers."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ddp_lessons.capstone import plain_training
from ddp_lessons.capstone.capstone_trials import EPOCHS, NotJudged, Trials, named
from ddp_lessons.capstone.checkpoint_content import holds_only_weights
from ddp_lessons.capstone.script_runs import Outcome
from ddp_lessons.run.diagnosis.wording import listed

CLOSE = 1e-5  # weights of the same training in another run, relative to the largest
CLOSE_RESULT = 1e-3  # losses, relative


@dataclass(frozen=True)
class Part:
    """One line of the judgment. `passed` is None where it waits for the learner's answer."""

    name: str
    passed: bool | None
    said: str
    advice: str = ""
    lines: tuple[str, ...] = ()
    picture: Any = None


# 1


def same_training(trials: Trials) -> Part:
    """Compare samples, gradients and weights of each step with those of the plain program."""
    from ddp_lessons.sameness.run_records import CannotRead, Run, file_of, read_record
    from ddp_lessons.sameness.sameness_report import report_of

    name, runs = "the same as one process", []
    for size, outcome in trials.watched.items():
        trials.require_end(outcome, size)
        try:
            runs.append(Run(tuple(read_record(file_of(outcome.folder, rank)) for rank in range(size or 1))))
        except CannotRead:
            said = f"on {named(size)} a rank ended without its last steps."
            raise NotJudged(said, "end the script by returning from main(), not with os._exit().") from None
    report = report_of(runs)
    if report.same is None:
        return Part(name, False, *_split(report.lines))
    if not report.same:
        said, advice = _split(report.lines)
        return Part(name, False, said, advice, tuple(report.lines[1:-1]), _distances(report))
    if shared := _unshared(runs[-1]):
        return Part(name, False, shared, _SHARD, picture=_distances(report))
    within = max(number for curve in report.gradients.values() for number in curve)
    steps = f"{runs[0].steps[0]} steps (2 epochs) on {listed(trials.sizes)} ranks"
    said = f"{steps}; gradients within {within:.0e} of the plain program"
    return Part(name, True, said, picture=_distances(report))


_SHARD = "give each rank its own shard of the global batch, such as `batch[rank::world_size]`."


def _distances(report: Any) -> Any:
    """The picture of the comparison, with the plain program as its baseline."""
    from ddp_lessons.show.charts.distances import distance

    if not report.gradients:
        return None
    curves = {f"gradients, {name}": numbers for name, numbers in report.gradients.items()}
    curves |= {f"weights, {name}": numbers for name, numbers in report.parameters.items()}
    title = "Distance from the plain program, step by step"
    return distance(curves, limit=float(f"{report.limit:.0e}"), title=title, what="values, relative")


def _split(lines: Sequence[str]) -> tuple[str, str]:
    return lines[0], lines[-1].removeprefix("Next: ")


def _unshared(run: Any) -> str:
    whole: Counter[int] = sum(run.samples(0), Counter())
    first = run.samples(0)[0]
    if first and whole == Counter({sample: times * run.world_size for sample, times in first.items()}):
        return "every rank trains on every sample, so the ranks share no work."
    return ""


# 2


def survives_a_kill(trials: Trials) -> Part:
    """Kill one rank with SIGKILL, start the script again, and compare the weights at the end."""
    name = "killed and resumed"
    _ = trials.reference_result  #  the undisturbed run has to work first
    rank = trials.choice.randrange(2)
    step = trials.steps_per_epoch + trials.choice.randrange(2, 2 * trials.steps_per_epoch - 1)
    done = step // trials.steps_per_epoch
    moment = f"rank {rank} killed at step {step} of {EPOCHS * trials.steps_per_epoch}"
    if told := _unsafe_checkpoint(trials):
        return Part(name, False, *told)
    killed, resumed = trials.killed_and_resumed((rank, step))
    if killed.status is None:
        trials.require_end(killed, 2)
    if killed.status == 0:
        advice = "don't restart ranks or catch signals in the script; torchrun ends the others."
        return Part(name, False, f"{moment}: the script ended as if nothing had happened.", advice)
    trials.result("killed", resumed, 2)
    again, wanted = resumed.steps(0), EPOCHS * trials.steps_per_epoch - done * trials.steps_per_epoch
    if again > wanted:
        said = f"{moment}; resumed, rank 0 makes {again} steps instead of {wanted}: it trains finished epochs again."
        return Part(name, False, said, "load --checkpoint on every rank if the file exists, and start at its epoch.")
    distance = _distance(resumed, trials.reference)
    if distance > CLOSE:
        said = f"{moment}; after the resume the final weights differ by {distance:.0e} (limit {CLOSE:.0e})."
        advice = (
            "restore model, optimizer, schedule and epoch on every rank; the order of an epoch depends on its number."
        )
        if holds_only_weights(trials.folder / "reference.pt", trials.reference.weights(0).size):
            advice = f"the checkpoint holds no optimizer state, such as momentum: save and {advice}"
        return Part(name, False, said, advice)
    return Part(name, True, f"{moment}; {again} steps after the resume; {_equal(distance)}")


def _unsafe_checkpoint(trials: Trials) -> tuple[str, str] | None:
    path = Path(os.path.abspath(trials.folder / "reference.pt"))
    if not path.exists():
        return (
            "no file was written to --checkpoint.",
            "let rank 0 save model, optimizer, schedule and epoch after each epoch.",
        )
    noted = trials.reference.noted.values()
    written = Counter(
        file for one in noted for file in {*one["saved"], *one["renamed"]} if path.parent in Path(file).parents
    )
    if max(written.values(), default=0) > 1:
        several = [Path(file).name for file, ranks in written.items() if ranks > 1]
        said = f"{max(written.values())} ranks write {several[0]}, so one can overwrite the file of another."
        return said.replace(path.name, "the checkpoint"), "save on rank 0 only: `if dist.get_rank() == 0:`."
    if any(str(path) in one["saved"] for one in noted):
        said = "the script writes to the checkpoint itself, so a kill during the write leaves a broken file."
        return said, "save to another file first, then call `os.replace(new, checkpoint)`."
    return None


def _equal(distance: float) -> str:
    return f"final weights within {distance:.0e}" if distance else "the same final weights, bit for bit"


def _distance(one: Outcome, other: Outcome) -> float:
    """Of the final weights of all ranks, relative to the largest."""
    import numpy as np

    base, far = other.weights(0), 0.0
    for rank in one.noted:
        mine = one.weights(rank)
        far = max(far, float(np.abs(mine - base).max(initial=0.0)) if mine.shape == base.shape else float("inf"))
    return far / max(float(np.abs(base).max(initial=0.0)), 1e-12)


# 3


def counts_each_sample(trials: Trials) -> Part:
    """605 training and 301 test sequences, which neither 2 nor 4 divides: each counts once."""
    from ddp_lessons.sameness.run_records import Run, file_of, read_record

    name, wanted, tested = "uneven data", {}, plain_training.TEST
    for size, outcome in trials.watched.items():
        result = trials.result(f"watched-{size}", outcome, size)
        run = Run(tuple(read_record(file_of(outcome.folder, rank)) for rank in range(size or 1)))
        if not size:
            wanted, samples = result, run.all_samples
            continue
        if other := _wrong_samples(samples, run.all_samples):
            return Part(name, False, f"on {named(size)}, {other}", _SHARD)
        if wrong := [*wrong_number_tested(result["tested"], size), *_wrong_results(result, wanted, size)]:
            (said, _), *others = wrong
            advice = "; ".join(dict.fromkeys(advice for _, advice in wrong))
            return Part(name, False, said, f"{advice}.", tuple(said for said, _ in others))
    sequences = f"{plain_training.TRAIN} training and {tested} test sequences"
    return Part(name, True, f"{sequences}, each counted once on {listed(trials.sizes)} ranks")


def _wrong_samples(whole: Counter[int], parts: Counter[int]) -> str:
    known = sum((whole & parts).values()) > 0
    doubled, lost = (parts - whole).total(), (whole - parts).total()
    if not known:  # the inputs are laid out in another way: their number is all that can be compared
        doubled, lost = max(0, parts.total() - whole.total()), max(0, whole.total() - parts.total())
    told = [f"{doubled} extra training samples enter the model"] * bool(doubled)
    told += [f"{lost} training samples are lost"] * bool(lost)
    return f"{' and '.join(told)} in two epochs." if told else ""


def wrong_number_tested(number: float, size: int, wanted: int = plain_training.TEST) -> list[tuple[str, str]]:
    """What is wrong, and what to do."""
    if number == wanted:
        return []
    how = "some samples are counted twice" if number > wanted else "some samples are left out"
    advice = "evaluate `range(rank, len(test), world_size)` on each rank, without padding"
    if size > 1 and abs(number - wanted / size) < 1:
        how, advice = "it is the share of one rank", _ADD_UP
    return [(f"on {named(size)}, `tested` is {number:.0f} instead of {wanted}: {how}.", advice)]


def _wrong_results(result: dict[str, float], wanted: dict[str, float], size: int) -> list[tuple[str, str]]:
    """What is wrong, and what to do."""
    wrong = []
    for key in ("train_loss", "test_loss", "correct"):
        allowed = 3 if key == "correct" else CLOSE_RESULT * abs(wanted[key])  # rounding may turn a few tokens
        if not abs(result[key] - wanted[key]) <= allowed:
            said = f"on {named(size)}, {key} is {result[key]:.6g}; the plain program has {wanted[key]:.6g}."
            wrong.append((said, _ADD_UP))
    return wrong


_ADD_UP = "add up sums and counts on each rank, all_reduce them, and divide once at the end"


# 4


def bears_a_slow_rank(trials: Trials) -> Part:
    """Rank 0 starts late and saves slowly; rank 1 is slow in each step."""
    name, delays = "a slow rank", {"start 0": 1.0, "save 0": 1.0, "step 1": 0.03}
    wanted = trials.reference_result
    program = trials.program(2, "slow", settings={"delays": delays, "records": True})
    outcome = trials.run("2 ranks, slow ones", program)
    result = trials.result("slow", outcome, 2)
    steps = [outcome.steps(rank) for rank in outcome.noted]
    calls = outcome.calls()
    distance = _distance(outcome, trials.reference)
    wrong = [said for said, _ in _wrong_results(result, wanted, 2)]
    if distance > CLOSE or wrong:
        said = wrong[0] if wrong else f"the final weights differ by {distance:.0e} (limit {CLOSE:.0e})."
        advice = "do not rely on timing, or on a file that another rank writes: call `dist.barrier()` in between."
        return Part(name, False, f"with a late and a slow rank, {said}", advice, picture=calls)
    slow = f"rank 0 starts and saves 1 s late, rank 1 is 30 ms slower in each of {steps[0]} steps"
    return Part(name, True, f"{slow}; {_equal(distance)}", picture=calls)
