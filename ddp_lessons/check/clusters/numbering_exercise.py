"""The exercise of numbering ranks over nodes with different numbers of GPUs."""

from __future__ import annotations

import re
from collections.abc import Callable

from ddp_lessons.check.judging.report import Report, not_right
from ddp_lessons.check.judging.separate_process import answers_of
from ddp_lessons.check.judging.trial_ranks import Thing
from ddp_lessons.check.judging.wrapped_functions import refusal

NAME = "ranks_of"
CASES = (("8,2", 0), ("8,2", 1), ("2,8", 1), ("4", 0), ("1,3,2", 2), ("12,4", 1), ("2,0,2", 1), ("2,0,2", 2))
_UNPACKED = re.compile(r"values to unpack \(expected (\d+)")


def ranks_of(function: Callable[[str, int], list[int]]) -> Report:
    """Check f(gpus, machine): the ranks on a node in order, where `gpus` is a string such as "8,2".

    A list, a tuple or a range.
    """
    if report := refusal(NAME, function, ("gpus", "machine")):
        return report
    for (gpus, machine), answer in zip(CASES, answers_of(function, CASES), strict=False):
        expected, call = _right(gpus, machine), f"{NAME}({gpus!r}, {machine})"
        if answer.trouble:
            why = _why_raised(answer.trouble, len(gpus.split(",")))
            return not_right(NAME, f"{call} {answer.trouble}. {why}".rstrip())
        if answer.value != expected or _first_odd(answer.value) is not None:
            details = (f"  {call}", f"    yours      {_short(answer.value)}", f"    expected   {_short(expected)}")
            return not_right(NAME, _likely(answer.value, gpus, machine), details)
    return Report(NAME, True, "passed", "", (f"  right for {len(CASES)} cases, of up to three nodes",))


def _right(gpus: str, machine: int) -> list[int]:
    counts = list(map(int, gpus.split(",")))
    first = sum(counts[:machine])
    return list(range(first, first + counts[machine]))


def _likely(found: object, gpus: str, machine: int) -> str:
    """The likely mistake behind the wrong ranks."""
    counts = list(map(int, gpus.split(",")))
    mine, before = counts[machine], sum(counts[:machine])
    if not isinstance(found, list):
        return f"It returns {_short(found)}. Return a list (or a range) of ranks."
    if (odd := _first_odd(found)) is not None:
        return f"Ranks are integers, but {_short(odd)} is not. Use // or int()."
    if sorted(found) == _right(gpus, machine):
        return "These are the right ranks in the wrong order. Start with the lowest."
    known = {
        "These are the local ranks on this node. Add the number of GPUs on all earlier nodes.": range(mine),
        "The GPUs of this node are counted as if they belonged to an earlier node. Add up only the GPUs of earlier "
        "nodes.": range(before + mine, before + 2 * mine),
        "These ranks are too high by 1. Count ranks from 0.": range(before + 1, before + mine + 1),
        "These are the ranks of all nodes. Return only the ranks on this node.": range(sum(counts)),
        "These are the ranks on this node and on all earlier nodes. Return only the ranks on this node.": range(
            before + mine
        ),
    }
    if _is_as_if_equal(gpus, machine):
        as_if_equal = (
            "It assumes that every earlier node has as many GPUs as this one. Add up their actual numbers of GPUs."
        )
        known = {as_if_equal: range(machine * mine, machine * mine + mine), **known}
    for sentence, ranks in known.items():
        if found == list(ranks):
            return sentence
    if machine == 0 and found == list(range(counts[-1], counts[-1] + mine)):
        return (
            "For node 0, the first rank is 0, because no node comes before it. Index 0 - 1 is -1, which reads the last "
            "node's count. Sum only the counts before this node."
        )
    if len(found) != mine:
        return f"Node {machine} has {mine} GPUs, but this list has {len(found)} ranks. Return one rank per GPU."
    if machine == 0:
        return "For node 0, the first rank is 0, because no node comes before it. Sum only the counts before this node."
    return (
        f"The first rank on node {machine} is {before}, because the nodes before it have {before} GPUs. Start the list "
        f"at {before}."
    )


def _is_as_if_equal(gpus: str, machine: int) -> bool:
    """Do all earlier cases fit the assumption that every node has as many GPUs as the one asked for?"""
    earlier = ((text.split(","), number) for text, number in CASES[: CASES.index((gpus, machine))])
    return all(_right(",".join(counts), number)[:1] == [number * int(counts[number])] for counts, number in earlier)


def _first_odd(found: object) -> object:
    """An item that is not an int, even if it equals one: 8.0, True."""
    return next((item for item in found if type(item) is not int), None) if isinstance(found, list) else None


def _why_raised(trouble: str, nodes: int) -> str:
    if (found := _UNPACKED.search(trouble)) and int(found[1]) != nodes:
        return f"There can be any number of nodes, here {nodes}. Keep the counts in a list."
    if trouble.startswith(("raises TypeError", "raises ValueError")):
        return 'gpus is a string such as "8,2". Convert its parts to integers first.'
    return ""


def _short(value: object) -> str:
    text = f"an object of type {value.kind}" if isinstance(value, Thing) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
