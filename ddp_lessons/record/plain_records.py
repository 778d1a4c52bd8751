"""What a rank recorded, as plain data that any process can read from a file, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ddp_lessons.record.event import Event
from ddp_lessons.record.rank_record import Recorded, Standing


def as_plain(recorded: Recorded) -> dict[str, Any]:
    """Dicts, tuples, text and numbers."""
    return dataclasses.asdict(recorded)


def from_plain(told: Mapping[str, Any]) -> Recorded:
    """Raises KeyError or TypeError if it is not what `as_plain` returned."""
    known = [field.name for field in dataclasses.fields(Standing)]  # older files have more
    standing = None if told["standing"] is None else Standing(**{name: told["standing"][name] for name in known})
    return Recorded(
        **{
            **told,
            "calls": tuple(Event(**call) for call in told["calls"]),
            "standing": standing,
        }
    )
