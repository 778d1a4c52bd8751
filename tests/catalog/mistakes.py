"""The catalog of mistakes, by kind: each program in `programs` declares what comes of it."""

from .declared import DECLARED, Mistake
from .programs import collectives, groups, messages, replicas  # noqa: F401

__all__ = ["MISTAKES", "Mistake"]

MISTAKES = tuple(sorted(DECLARED, key=lambda mistake: mistake.kind))
