"""The output of the lesson's programs under mpirun, for machines without it. A test runs them and compares.

The keys are a program's name, its ranks, and a digest of its source.
"""

from __future__ import annotations

RECORDED: dict[tuple[str, int, str], tuple[str, ...]] = {
    ("hello_over_mpi.py", 4, "c66cb0993d512afe"): (
        "rank 0 of 4 has 6",
        "rank 1 of 4 has 6",
        "rank 2 of 4 has 6",
        "rank 3 of 4 has 6",
    ),
    ("lessons_over_mpi.py", 4, "e615ded4af4aa848"): (
        "rank 0: mean gradient [[1.0, 1.5]]",
        "rank 0: sum by the ring [0.0, 6.0, 12.0, 18.0, 24.0, 30.0]",
        "rank 1: mean gradient [[1.0, 1.5]]",
        "rank 1: sum by the ring [0.0, 6.0, 12.0, 18.0, 24.0, 30.0]",
        "rank 2: mean gradient [[1.0, 1.5]]",
        "rank 2: sum by the ring [0.0, 6.0, 12.0, 18.0, 24.0, 30.0]",
        "rank 3: mean gradient [[1.0, 1.5]]",
        "rank 3: sum by the ring [0.0, 6.0, 12.0, 18.0, 24.0, 30.0]",
    ),
    ("my_mpi_group.py", 2, "7b7854d50cf4847e"): (
        "rank 0: yours 0.0, expected 1.0, methods []",
        "rank 1: yours 2.0, expected 1.0, methods []",
    ),
}
