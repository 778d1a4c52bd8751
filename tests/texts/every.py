"""One test for all texts of a kind: it names each that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Claim = Callable[..., None]


def every(cases: Iterable[T], named: Callable[[T], object] = str) -> Callable[[Claim], Callable[[], None]]:
    cases = list(cases)

    def of_all(claim: Claim) -> Callable[[], None]:
        def test() -> None:
            wrong = []
            for case in cases:
                try:
                    claim(*case) if isinstance(case, tuple) else claim(case)
                except AssertionError as error:
                    wrong.append(f"{named(case)}: {error}")
            assert cases
            assert not wrong, "\n".join(wrong)

        test.__doc__ = claim.__doc__
        return test

    return of_all
