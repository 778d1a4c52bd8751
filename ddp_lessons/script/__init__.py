"""From a cell to a script: a notebook's function, with everything it needs, in a file that torchrun runs."""

from ddp_lessons.script.live import to_script as to_script
from ddp_lessons.script.refusals import CannotCarry as CannotCarry

__all__ = ["CannotCarry", "to_script"]
