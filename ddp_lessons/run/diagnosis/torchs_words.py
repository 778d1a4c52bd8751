"""What plain torch shows for the same failure: words that a learner will meet again under torchrun.

The texts are those of gloo, of torch's store, of torchrun, and of NCCL's watchdog.
"""

from __future__ import annotations

from ddp_lessons.record.events import Events
from ddp_lessons.record.rank_record import NEW_GROUPS

_BEGIN = "  torchrun would show:"
_BEGIN_UNDER_EXPLAIN = "  torchrun alone would show:"
_CLOSED = '"Connection closed by peer"'
_WATCHDOG = 'NCCL: "Watchdog caught collective operation timeout"'
OF_WRONG_RESULTS = f"{_BEGIN} no error."
OF_A_LOST_CONNECTION = f"{_BEGIN} {_CLOSED}."


def of_a_hang(events: Events, waits_for_returned: bool) -> str:
    """`waits_for_returned`: for a rank that returned, whose process would exit under torchrun. Unrecorded calls: ""."""
    held = [event for rank in range(events.world_size) for event in events.held(rank)]
    operations = {event.operation for event in held}
    if not held:
        return ""
    if operations & {*NEW_GROUPS, "init_process_group"}:
        return f'{_BEGIN} "wait timeout after 1800000ms", after 30 minutes.'
    if waits_for_returned:  # a recv that starts after the exit does not notice it
        or_later = ", or a timeout after 30 minutes" if operations == {"recv"} else ""
        return f"{_BEGIN} {_CLOSED} when a rank exits{or_later} ({_WATCHDOG})."
    what = "send" if operations == {"send"} else "recv"
    return f'{_BEGIN} "Timed out waiting 1800000ms for {what} operation to complete", after 30 minutes ({_WATCHDOG}).'


def under_explain(message: str) -> str:
    """For a script that torchrun did start."""
    return message.replace(_BEGIN, _BEGIN_UNDER_EXPLAIN)


def of_a_death(signal_number: int, name: str) -> str:
    return (
        f'{_BEGIN} "Signal {signal_number} ({name}) received by PID ...", and on other ranks {_CLOSED} or "reset by '
        'peer".'
    )
