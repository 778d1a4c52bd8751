"""Pictures of what the ranks did, drawn from the events that they recorded.

Every function here returns a `Picture`, which shows itself in a notebook and carries a drawing in plain text.
The names load when they are first used, so that nobody pays for matplotlib who draws nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_lessons.show.before_after import collective as collective
    from ddp_lessons.show.curves import Line as Line, cost as cost, fit_line as fit_line, latency as latency
    from ddp_lessons.show.digit_sheets import digits as digits
    from ddp_lessons.show.distances import distance as distance
    from ddp_lessons.show.matrix import traffic as traffic
    from ddp_lessons.show.picture import Picture as Picture
    from ddp_lessons.show.replicas import fingerprints as fingerprints
    from ddp_lessons.show.rings import ring as ring
    from ddp_lessons.show.speeds import scaling as scaling
    from ddp_lessons.show.timelines import timeline as timeline
    from ddp_lessons.show.told_curves import training as training
    from ddp_lessons.show.who_saw import samples as samples

__all__ = [
    "Line",
    "Picture",
    "collective",
    "cost",
    "digits",
    "distance",
    "fingerprints",
    "fit_line",
    "latency",
    "ring",
    "samples",
    "scaling",
    "timeline",
    "traffic",
    "training",
]

_HOME = {
    "Line": "curves",
    "Picture": "picture",
    "collective": "before_after",
    "cost": "curves",
    "digits": "digit_sheets",
    "distance": "distances",
    "fingerprints": "replicas",
    "fit_line": "curves",
    "latency": "curves",
    "ring": "rings",
    "samples": "who_saw",
    "scaling": "speeds",
    "timeline": "timelines",
    "traffic": "matrix",
    "training": "told_curves",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
