"""What cannot be carried over into a file: why, and what to do about it. All of it is said at once."""

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
    """The function needs what no file can have. `refusals` is all of it; nothing was written."""

    def __init__(self, function: str, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(dict.fromkeys(refusals))
        count = "one thing" if len(self.refusals) == 1 else f"{len(self.refusals)} things"
        head = f"{function} needs {count} that cannot be carried over, so nothing was written"
        super().__init__("\n".join([head, *map(str, self.refusals)]))

    def _render_traceback_(self) -> list[str]:
        """In a notebook: the message alone."""
        return [f"{type(self).__name__}: {self}"]


def only_in_a_notebook(name: str, statement: Statement, asked: str) -> Refusal:
    if statement.is_definition:
        why = f"asks for `{asked}`, which only a notebook has; under torchrun every rank would ask for it."
        after = f"take `{asked}` out of {name}, and call it in a cell of its own."
        if asked in ("launch", "Workers"):
            why = f"starts ranks with `{asked}`; under torchrun every rank would start ranks of its own."
    else:
        why = f"is bound by a statement that asks for `{asked}`, which only a notebook has."
        after = f"write the value itself into the cell ({name} = ...), or make it an argument of the function."
    return Refusal(name, statement.place(name), why, after)


def of_this_process(name: str, statement: Statement, asked: str) -> Refusal:
    why = f"belongs to the process that made it (`{asked}`): every rank would have one of its own, and not the same."
    return Refusal(
        name, statement.place(name), why, "make it in the function, on one rank, or hand it over as an argument."
    )


def drawn_at_random(name: str, statement: Statement, asked: str) -> Refusal:
    why = f"was drawn at random (`{asked}`), and no seed stands before it in its cell: every rank would draw another."
    return Refusal(
        name, statement.place(name), why, "put torch.manual_seed(1) before it, in the same cell, and run that."
    )


def changed_elsewhere(name: str, statement: Statement, change: Statement) -> Refusal:
    why = f"was changed after it was made, by another cell ({change.place()})."
    return Refusal(name, statement.place(name), why, "make and change it in one cell, or do both in the function.")


def not_what_it_says(name: str, statement: Statement) -> Refusal:
    why = "is now something else than its statement gives: it was changed since, or what it was made of was."
    return Refusal(name, statement.place(name), why, f"run the cell again; or write what {name} is now into it.")


def only_by_magic(name: str, place: str, magic: str) -> Refusal:
    why = f"is bound only under `{magic}`, and that did not run in the notebook."
    return Refusal(name, place, why, f"put the lines that make {name} into a plain cell.")


def in_no_cell(name: str, user: str) -> Refusal:
    why = f"is there, but no cell that was run binds it{_for(user)}."
    return Refusal(name, "", why, f"make {name} in a cell, and run that.")


def nobody_defined(name: str, user: str) -> Refusal:
    return Refusal(name, "", f"nobody has defined it{_for(user)}.", f"define {name} in a cell, or import it.")


def _for(user: str) -> str:
    return f" ({user} needs it)" if user else ""


def has_a_file(name: str, statement: Statement) -> Refusal:
    after = "start that file with torchrun, or name a function that a cell defines."
    return Refusal(name, statement.place(name), "was imported, so it has a file already.", after)


def fails_anew(name: str, error: Exception) -> Refusal:
    why = f"what it needs cannot be made anew from the cells: {type(error).__name__}: {error}"
    return Refusal(name, "", why, "restart the kernel and run the cells in order; then it shows which one fails.")


def no_plain_function(name: str, place: str, what: str) -> Refusal:
    why = f"{what}; a script needs a function with a name and parameters that can be read."
    return Refusal(name, place, why, f"write it as `def {name}(rank, world_size, ...):` at the left margin of a cell.")


def without_a_value(name: str, statement: Statement, parameter: str) -> Refusal:
    why = f"nothing says what its parameter `{parameter}` is: no default, no type, and no launch() that can be read."
    after = f"give it a type (`{parameter}: int`) or a default, or run launch({name}, 2, ...) in a cell."
    return Refusal(name, statement.place(name), why, after)


def another_in_each_turn(name: str, statement: Statement, argument: str) -> Refusal:
    why = (
        f"launch() hands over `{argument}`, which is another in each turn of a loop, or comes from a list of arguments."
    )
    return Refusal(
        name, statement.place(name), why, f"launch {name} once with a value, or give the parameter a default."
    )
