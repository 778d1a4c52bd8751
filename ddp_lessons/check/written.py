"""Can a check call this function, and has the learner started to write it?"""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
from collections.abc import Sequence
from types import CodeType

# the bytecode of a function without statements
_NOTHING = {"RESUME", "NOP", "LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "POP_TOP", "CACHE"}
_NOT_IMPLEMENTED = _NOTHING | {"LOAD_GLOBAL", "PRECALL", "CALL", "CALL_FUNCTION", "PUSH_NULL", "RAISE_VARARGS"}
_NOT_IMPLEMENTED |= {"LOAD_COMMON_CONSTANT"}
_COUNTS = ("no", "one", "two", "three", "four", "five", "six")


def why_not_callable(function: object, parameters: Sequence[str] | None, what: str) -> str:
    """A sentence if `function(*parameters)` cannot work, or ""; None: they are not checked."""
    if not callable(function):
        if function is None:
            return f"The check got None instead of a {what}. Pass the {what} itself, without calling it."
        return f"The check got {_article(type(function).__name__)}. Pass a {what} that every rank can call."
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
    if parameters is None:
        return ""
    try:
        signature.bind(*parameters)
    except TypeError:
        many = f"{_COUNTS[len(parameters)]} argument{'s' * (len(parameters) > 1)}"
        call = f"{called}({', '.join(parameters)})"
        return f"The check calls {call} with {many}, but the definition is {called}{signature}."
    return ""


def is_untouched(function: object) -> bool:
    """Only a docstring, `...`, `pass`, `return None` or `raise NotImplementedError`."""
    code = _code(function)
    if code is None:
        return False
    steps = {step.opname for step in dis.get_instructions(code)}
    if steps <= _NOTHING:
        return all(constant is None for constant in _returned(code))
    return steps <= _NOT_IMPLEMENTED and "RAISE_VARARGS" in steps and code.co_names in ((), ("NotImplementedError",))


def still_empty(answer: object, methods: Sequence[str]) -> tuple[list[str], bool]:
    """Which of these methods a class leaves empty, and whether that is all that it defines of them."""
    own = vars(answer) if inspect.isclass(answer) else {}
    present = [name for name in methods if name in own]
    empty = [name for name in present if is_untouched(own[name])]
    return empty, bool(empty) and empty == present


def lacks_a_method(answer: object, methods: Sequence[str]) -> str:
    missing = [name for name in methods if inspect.isclass(answer) and not hasattr(answer, name)]
    return f"{getattr(answer, '__name__', '')} has no method {missing[0]}. Add it." if missing else ""


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
