"""Speed and memory of launch, each measurement with its targets. docs/measured.md has the results.

    python -m tools.benchmarks launch     launches compared with other tools, the first minute of a notebook, memory
    python -m tools.benchmarks recording  the cost of recording, and the ring by hand compared with gloo's
    python -m tools.benchmarks hangs      the catalog of mistakes: how soon is it reported, and is the message right
    python -m tools.benchmarks training   accuracy on MNIST, and images per second, compared with a program without DDP
    python -m tools.benchmarks room       lessons of thirty learners on one machine
    python -m tools.benchmarks nodes      what a wrong set-up of several nodes reports

Each has options: python -m tools.benchmarks hangs --help. `make bench` runs launch, recording and training.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # for the catalog of mistakes
