"""Collectives and other programs of messages, played message by message with controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ddp_lessons.show.controls.explorer import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Steps
from ddp_lessons.show.messages.message_rows import message_rows
from ddp_lessons.show.messages.recorded_messages import Played, kept, play
from ddp_lessons.show.messages.watched_tensors import prepare_collective, prepare_tensor
from ddp_lessons.show.page.picture import Picture

WORLD_SIZES = range(2, 9)
Functions = ModuleType | Mapping[str, Callable[..., Any]]
HAVE_A_ROOT = ("broadcast", "reduce", "scatter", "gather")
OPERATIONS = (*HAVE_A_ROOT, "all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def step_through(functions: Functions, operation: str | None = None, world_size: int = 4, root: int = 0) -> Explorer:
    """Play a collective that is made of messages: one by one, with what every rank holds after each.

    Args:
        functions: a module with functions of the names `broadcast_by_hand`, `all_gather_by_hand` and so on, or a
            dict of such functions: `{"broadcast": broadcast_by_hand}`. They take what those of `train` take.
        operation: which of them to begin with.
        world_size: of how many ranks.
        root: the rank that gives or gets, where there is one.

    Raises:
        ValueError: there is no collective among the functions.
    """
    by_name = _by_operation(functions)

    @kept
    def played(operation: str, world_size: int, root: int) -> Played:
        return play(by_name[operation], world_size, prepare_collective, operation, root)

    def draw(operation: str, world_size: int, root: int, message: int) -> Picture:
        return message_rows(played(operation=operation, world_size=world_size, root=root), message)

    controls = {
        "operation": Choice("collective", list(by_name), operation or next(iter(by_name))),
        "world_size": Choice("ranks", WORLD_SIZES, world_size),
        "root": Choice("root", lambda now: range(now["world_size"] if now["operation"] in HAVE_A_ROOT else 1), root),
        "message": Steps("message", lambda now: range(len(played(**now).messages) + 1), from_the_end=True),
    }
    return Explorer(draw, title="A collective, message by message", controls=controls)


def play_messages(programs: Mapping[str, Callable[..., Any]], world_size: int = 4) -> Explorer:
    """Play programs that send and receive, message by message, with what every rank holds after each.

    Args:
        programs: functions of one tensor by their names, `{"token": pass_the_token, "swap": swap}`: every rank calls
            one with a tensor of its own. Rank 2's holds 20.
        world_size: of how many ranks.
    """

    @kept
    def played(program: str, world_size: int) -> Played:
        return play(programs[program], world_size, prepare_tensor)

    def draw(program: str, world_size: int, message: int) -> Picture:
        return message_rows(played(program=program, world_size=world_size), message)

    controls = {
        "program": Choice("program", list(programs)),
        "world_size": Choice("ranks", WORLD_SIZES, world_size),
        "message": Steps("message", lambda now: range(len(played(**now).messages) + 1), from_the_end=True),
    }
    return Explorer(draw, title="A program, message by message", controls=controls)


def _by_operation(functions: Functions) -> dict[str, Callable[..., Any]]:
    if isinstance(functions, Mapping):
        found = {name: functions[name] for name in OPERATIONS if name in functions}
    else:
        names = {name: f"{name}_by_hand" for name in OPERATIONS}
        found = {name: getattr(functions, by_hand) for name, by_hand in names.items() if hasattr(functions, by_hand)}
    if not found:
        raise ValueError(f"there is no collective among the functions; these can be played: {', '.join(OPERATIONS)}")
    return found
