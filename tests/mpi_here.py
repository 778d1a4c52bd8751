"""Tests that need a real MPI say so where there is none; where everything has to be tried, its lack is a failure."""

from __future__ import annotations

from places import leave_out

from ddp_lessons.backends.under_mpirun import why_no_mpi


def need_mpi() -> None:
    if why_not := why_no_mpi():
        leave_out(why_not)
