"""A notebook from its first minute: imports, launches right after them or later, and cells of standing ranks."""

import ast
import subprocess
import sys
import time
from dataclasses import dataclass, field

from .family import Family
from .kernel import ROOT, CellFailed, Kernel, peer_cell, time_answers
from .measurement import Sample, Series

IMPORT_TORCH = "import torch"
IMPORT_OURS = "from ddp_lessons import launch"
TIMEOUT_SECONDS = 90.0
READING_SECONDS = 5.0
MANY = 64
FIRST_OF_STANDING = (
    "%load_ext ddp_lessons\nimport time\nget_ipython().run_cell_magic('ranks', '{}', 'x = torch.ones(1)')"
)
STANDING = """
begin = time.perf_counter()
get_ipython().run_cell_magic("ranks", "", "dist.all_reduce(x)")
said = time.perf_counter() - begin
"""


@dataclass
class Beginnings:
    """Seconds of each beginning with one world size."""

    world_size: int
    import_torch: Series = field(default_factory=Series)
    import_ours: Series = field(default_factory=Series)
    whole_first_cell: Series = field(default_factory=Series)
    at_once: Series = field(default_factory=Series)
    after_reading: Series = field(default_factory=Series)
    later: Series = field(default_factory=Series)
    standing: Series = field(default_factory=Series)
    many: Series = field(default_factory=Series)


def measure_beginnings(world_size: int, rounds: int) -> Beginnings:
    """All beginnings in turn, `rounds` times, each in a new process or kernel."""
    found = Beginnings(world_size)
    for _ in range(rounds):
        found.import_torch.samples.append(time_import(IMPORT_TORCH))
        found.import_ours.samples.append(time_import(IMPORT_OURS))
        found.whole_first_cell.samples.append(time_whole_first_cell(world_size))
        found.at_once.samples.append(time_at_once(world_size))
        first, *later = time_after_reading(world_size)
        found.after_reading.samples.append(first)
        found.later.samples.extend(later)
        found.standing.samples.extend(time_standing(world_size))
        found.many.samples.extend(time_many())
    return found


def time_import(statement: str) -> Sample:
    """One import in a new process, without the start and the end of Python itself."""
    program = f"import time; begin = time.perf_counter(); {statement}; print(time.perf_counter() - begin)"
    family = Family()
    command = [sys.executable, "-c", program]
    variables = {**family.environment, "PYTHONPATH": str(ROOT)}
    try:
        done = subprocess.run(
            command, env=variables, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
        )
    except subprocess.SubprocessError as error:
        return Sample(trouble="failed", detail=str(getattr(error, "stderr", error)))
    finally:
        family.kill()
    return Sample(ast.literal_eval(done.stdout))


def time_whole_first_cell(world_size: int) -> Sample:
    """Both imports, the function and the launch in one cell of a kernel that has imported nothing."""
    cell = "import time\nstarted = time.perf_counter()\n" + peer_cell("ours_first_cell")
    cell += f"\nsaid = (tuple(answers({world_size})), time.perf_counter() - started)"
    with Kernel() as kernel:
        try:
            answers, seconds = kernel.run(cell, "said", TIMEOUT_SECONDS)
        except CellFailed as trouble:
            return trouble.as_sample()
    return Sample(seconds, answers).checked(world_size)


def time_at_once(world_size: int) -> Sample:
    """Launch in the cell that imports ddp_lessons, with torch imported already."""
    with Kernel() as kernel:
        kernel.run("import torch")
        return time_answers(kernel, world_size, TIMEOUT_SECONDS, before=peer_cell("ours"))


def time_after_reading(world_size: int) -> list[Sample]:
    """The first launch after the learner has read for a while, and six more with pauses in between."""
    with Kernel() as kernel:
        kernel.run(peer_cell("ours"))
        time.sleep(READING_SECONDS)
        return [time_and_settle(kernel, world_size) for _ in range(7)]


def time_standing(world_size: int) -> list[Sample]:
    """A short cell of ranks that stay."""
    with Kernel() as kernel:
        try:
            kernel.run(FIRST_OF_STANDING.format(world_size))
            return [Sample(kernel.run(STANDING, "said")) for _ in range(10)]
        except CellFailed as trouble:
            return [trouble.as_sample()]


def time_many() -> list[Sample]:
    with Kernel() as kernel:
        kernel.run(peer_cell("ours"))
        time.sleep(READING_SECONDS)
        return [time_and_settle(kernel, MANY) for _ in range(2)]


def time_and_settle(kernel: Kernel, world_size: int) -> Sample:
    sample = time_answers(kernel, world_size, TIMEOUT_SECONDS)
    kernel.family.settle()
    return sample
