"""What cannot be copied into a script: why, and what to do about it. One message lists everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddp_lessons.script.statements import Statement


@dataclass(frozen=True)
class Refusal:
    name: str
    place: str  # "cell 3, line 2:   losses = []"; empty where no cell has it
    why: str
    next: str

    def __str__(self) -> str:
        at = f" ({self.place})" if self.place else ""
        return f"  {self.name}{at}\n    {self.why}\n    Next: {self.next}"


class CannotCarry(Exception):
    """The function needs something that a file cannot hold. `refusals` lists it all; nothing was written."""

    def __init__(self, function: str, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(dict.fromkeys(refusals))
        count = "one thing" if len(self.refusals) == 1 else f"{len(self.refusals)} things"
        head = f"{function} needs {count} that a script cannot contain, so nothing was written"
        super().__init__("\n".join([head, *map(str, self.refusals)]))

    def _render_traceback_(self) -> list[str]:
        """In a notebook: only the message."""
        return [f"{type(self).__name__}: {self}"]


def only_in_a_notebook(name: str, statement: Statement, asked: str) -> Refusal:
    if statement.is_definition:
        why = f"uses `{asked}`, which exists only in a notebook; under torchrun every rank would call it."
        after = f"remove `{asked}` from {name}, and call it in a separate cell."
        if asked in ("launch", "Workers"):
            why = f"starts ranks with `{asked}`; under torchrun every rank would start its own ranks."
    else:
        why = f"is assigned by a statement that uses `{asked}`, which exists only in a notebook."
        after = f"write the value itself into the cell ({name} = ...), or make it an argument of the function."
    return Refusal(name, statement.place(name), why, after)


def of_this_process(name: str, statement: Statement, asked: str) -> Refusal:
    why = f"belongs to the process that created it (`{asked}`): every rank would create a different one."
    return Refusal(
        name, statement.place(name), why, "create it in the function, on one rank, or pass it as an argument."
    )


def drawn_at_random(name: str, statement: Statement, asked: str) -> Refusal:
    why = f"is random (`{asked}`), and its cell sets no seed before it: every rank would draw other values."
    return Refusal(
        name, statement.place(name), why, "put torch.manual_seed(1) before it in the same cell, and run the cell."
    )


def changed_elsewhere(name: str, statement: Statement, change: Statement) -> Refusal:
    why = f"was changed later by another cell ({change.place()})."
    return Refusal(name, statement.place(name), why, "create and change it in one cell, or do both in the function.")


def not_what_it_says(name: str, statement: Statement) -> Refusal:
    why = "no longer has the value that its statement gave it: it, or something that it was computed from, was changed."
    return Refusal(
        name, statement.place(name), why, f"run the cell again, or write the current value of {name} into it."
    )


def only_by_magic(name: str, place: str, magic: str) -> Refusal:
    why = f"is defined only in a cell with `{magic}`, which did not run in the notebook."
    return Refusal(name, place, why, f"define {name} in a cell without `{magic}`.")


def in_no_cell(name: str, user: str) -> Refusal:
    why = f"exists, but no cell that was run defines it{_for(user)}."
    return Refusal(name, "", why, f"define {name} in a cell, and run it.")


def not_defined(name: str, user: str) -> Refusal:
    return Refusal(name, "", f"is not defined{_for(user)}.", f"define {name} in a cell, or import it.")


def _for(user: str) -> str:
    return f" ({user} needs it)" if user else ""


def has_a_file(name: str, statement: Statement) -> Refusal:
    after = "start that file with torchrun, or choose a function that a cell defines."
    return Refusal(name, statement.place(name), "was imported, so it is in a file already.", after)


def fails_anew(name: str, error: Exception) -> Refusal:
    why = f"needs statements that fail when they run again: {type(error).__name__}: {error}"
    return Refusal(name, "", why, "restart the kernel and run the cells in order, to see which one fails.")


def no_plain_function(name: str, place: str, what: str) -> Refusal:
    why = f"{what}; a script needs a named function with parameters."
    return Refusal(name, place, why, f"write it as `def {name}(rank, world_size, ...):` at the top level of a cell.")


def without_a_value(name: str, statement: Statement, parameter: str) -> Refusal:
    why = f"has a parameter `{parameter}` without a value: no default, no type, and no launch() call in a cell."
    after = f"give it a type (`{parameter}: int`) or a default, or run launch({name}, 2, ...) in a cell."
    return Refusal(name, statement.place(name), why, after)


def another_in_each_turn(name: str, statement: Statement, argument: str) -> Refusal:
    why = f"launch() passes `{argument}`, which differs in each iteration of a loop, or comes from a list of arguments."
    return Refusal(
        name, statement.place(name), why, f"launch {name} once with a fixed value, or give the parameter a default."
    )
