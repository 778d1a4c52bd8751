"""Can a check call this function, and has the learner started to write it?"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from types import CodeType

# the bytecode of a function without statements
_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "POP_TOP", "CACHE"}
_NOT_IMPLEMENTED = _NOTHING | {"LOAD_GLOBAL", "PRECALL", "CALL", "CALL_FUNCTION", "PUSH_NULL", "RAISE_VARARGS"}
_NOT_IMPLEMENTED |= {"LOAD_COMMON_CONSTANT"}
_COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def why_not_callable(function: object, name: str, parameters: Sequence[str]) -> str:
    """A sentence if `function(*parameters)` cannot work, or ""."""
    if not callable(function):
        if function is None:
            return f"It got None instead of a function. Write check.{name}({name}), without calling {name}."
        return f"The check got {_article(type(function).__name__)}. Pass a function that every rank can call."
    called = getattr(function, "__name__", type(function).__name__)
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return f"{called} is a coroutine (async def), which a rank does not await. Write it with def."
    if inspect.isgeneratorfunction(function):
        return (
            f"{called} is a generator function (it contains yield), so calling it does not run its code. Use return "
            "instead of yield."
        )
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return ""  # written in C: it shows on the ranks
    try:
        signature.bind(*parameters)
    except TypeError:
        many = f"{_COUNTS[len(parameters)]} argument{'s' * (len(parameters) > 1)}"
        call = f"{called}({', '.join(parameters)})"
        return f"The check calls {call} with {many}, but the definition is {called}{signature}."
    return ""


def is_untouched(function: Callable[..., object]) -> bool:
    """Only a docstring, `...`, `pass`, `return None` or `raise NotImplementedError`."""
    code = _code(function)
    if code is None:
        return False
    steps = {step.opname for step in dis.get_instructions(code)}
    if steps <= _NOTHING:
        return all(constant is None for constant in _returned(code))
    return steps <= _NOT_IMPLEMENTED and "RAISE_VARARGS" in steps and code.co_names in ((), ("NotImplementedError",))


def mentions(function: object, names: set[str]) -> bool:
    """Does its code, or that of an inner function, use one of these names?"""
    codes = [code] if (code := _code(function)) is not None else []
    for code in codes:  # the list grows during the loop
        if names & {*code.co_names, *code.co_freevars}:
            return True
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return False


def binds_late(function: object) -> bool:
    """Does it contain a lambda that captures a variable by reference, and so sees its last value?"""
    code = _code(function)
    inner = [one for one in code.co_consts if isinstance(one, CodeType)] if code is not None else []
    return any(one.co_name == "<lambda>" and {*one.co_freevars} - {"self", "__class__"} for one in inner)


def _code(function: object) -> CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function) if callable(function) else function
    code = getattr(function, "__code__", None)
    if code is None:  # an object with a __call__ method
        code = getattr(vars(type(function)).get("__call__"), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _returned(code: CodeType) -> list[object]:
    steps = [step for step in dis.get_instructions(code) if step.opname != "NOP"]
    returned = [step.argval for step in steps if step.opname == "RETURN_CONST"]
    pairs = itertools.pairwise(steps)
    return returned + [before.argval for before, step in pairs if step.opname == "RETURN_VALUE"]


def _article(kind: str) -> str:
    return f"{'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
