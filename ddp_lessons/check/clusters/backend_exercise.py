"""The exercise on backends: which one to choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddp_lessons.check.judging.report import Report, not_right
from ddp_lessons.check.judging.report_lines import table
from ddp_lessons.check.judging.separate_process import Answer, answers_of
from ddp_lessons.check.judging.trial_ranks import Thing
from ddp_lessons.check.judging.wrapped_functions import refusal
from ddp_lessons.run.output.transcript import without_middle


@dataclass(frozen=True)
class _Situation:
    """A node and what is asked of it. `reminder` is the explanation for a wrong choice."""

    where: str
    device: str
    ranks_here: int
    gpus_here: int
    has_nccl: bool
    backend: str
    reminder: str

    @property
    def call(self) -> str:
        return f"({self.device!r}, {self.ranks_here}, {self.gpus_here}, {self.has_nccl})"


_MADE_FOR, _MORE_GPUS = "Each rank has its own GPU, as NCCL requires.", "more GPUs than ranks"
_NAME_ONE = 'Return the name of a backend, "nccl" or "gloo".'
_SITUATIONS = (
    _Situation("a GPU for each of 8 ranks", "cuda", 8, 8, True, "nccl", _MADE_FOR),
    _Situation("a laptop", "cpu", 4, 0, False, "gloo", "This node has no GPU, and NCCL works only between GPUs."),
    _Situation(
        "a laptop, torch with NCCL",
        *("cuda", 2, 0, True, "gloo"),
        "torch can be built with NCCL and still run on a node without a GPU. Check the number of GPUs, too.",
    ),
    _Situation("2 ranks, one GPU", "cuda", 2, 1, True, "gloo", "NCCL refuses two ranks on one GPU."),
    _Situation(
        "4 ranks, 3 GPUs",
        *("cuda", 4, 3, True, "gloo"),
        "NCCL refuses two ranks on one GPU, and there are 4 ranks for 3 GPUs.",
    ),
    _Situation(
        _MORE_GPUS,
        *("cuda", 2, 8, True, "nccl"),
        "Each rank has its own GPU, and NCCL does not need the other GPUs.",
    ),
    _Situation("CPU tensors on a node with GPUs", "cpu", 4, 8, True, "gloo", "NCCL supports CUDA tensors only."),
    _Situation("GPUs, torch without NCCL", "cuda", 4, 4, False, "gloo", "This torch was built without NCCL."),
    _Situation("a large node without a GPU", "cpu", 64, 0, True, "gloo", "This node has no GPU, so NCCL cannot work."),
    _Situation("a GPU for each of 16 ranks", "cuda", 16, 16, True, "nccl", "Each rank has its own GPU, so NCCL works."),
    _Situation("one rank, one GPU", "cuda", 1, 1, True, "nccl", "One rank with its own GPU is enough for NCCL."),
)


def choose_backend(function: Callable[[str, int, int, bool], str]) -> Report:
    """Check `function(device, ranks_here, gpus_here, has_nccl)`: it returns "nccl" or "gloo".

    `device` is where the tensors are, "cpu" or "cuda". `ranks_here` and `gpus_here` count the ranks and GPUs of this
    node, and `has_nccl` says whether this torch was built with NCCL.
    """
    name = "choose_backend"
    if report := refusal(name, function, ("device", "ranks_here", "gpus_here", "has_nccl")):
        return report
    calls = [(one.device, one.ranks_here, one.gpus_here, one.has_nccl) for one in _SITUATIONS]
    answers = answers_of(function, calls)
    for number, answer in enumerate(answers):
        one = _SITUATIONS[number]
        if answer.trouble:
            return not_right(name, f"For {one.call} your function {answer.trouble}. {_NAME_ONE}", _shown(number, "-"))
        if answer.value != one.backend:
            mistake = _of_all(one, answers) if answer.value in ("gloo", "nccl") else _why_not(one, answer.value)
            return not_right(name, mistake, _shown(number, _quoted(answer.value)))
    return Report(name, True, "passed", "", (f"    right for {len(_SITUATIONS)} machines",))


def _why_not(one: _Situation, answer: object) -> str:
    if answer is None:
        return f"It returns None for {one.call}. {_NAME_ONE}"
    if not isinstance(answer, str):
        return f'It returns {_quoted(answer)} for {one.call}. Return a string, "gloo" or "nccl".'
    if answer.strip().lower() == one.backend:
        return f'It returns {_quoted(answer)}. Spell the name "{one.backend}".'
    return f'It returns {_quoted(answer)}, which is neither of the two backends. Return "gloo" or "nccl".'


def _of_all(one: _Situation, answers: Sequence[Answer]) -> str:
    """Why this choice is wrong, and what the answers for all nodes have in common."""
    by_place = {situation.where: answer.value for situation, answer in zip(_SITUATIONS, answers, strict=False)}
    values = {*by_place.values()}
    if len(by_place) == len(_SITUATIONS) and len(values) == 1:
        return (
            f"{one.reminder} Your function returns {_quoted(*values)} for every input. Decide by the arguments, not "
            "by the machine that you run this on."
        )
    if one.reminder == _MADE_FOR and by_place.get(_MORE_GPUS) == "nccl":
        return f"{one.reminder} As many GPUs as ranks are enough."
    return f"{one.reminder} Use {one.backend}."


def _quoted(answer: object) -> str:
    if isinstance(answer, Thing):
        return f"an object of type {answer.kind}"
    return f'"{without_middle(answer, 60)}"' if isinstance(answer, str) else repr(answer)[:40]


def _shown(number: int, answer: str) -> list[str]:
    one = _SITUATIONS[number]
    rows = [("", "yours", "expected"), (f"{one.where}: {one.call}", answer, f'"{one.backend}"')]
    return table(rows)
