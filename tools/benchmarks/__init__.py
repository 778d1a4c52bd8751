"""Measure the speed and memory of launch, and compare them with targets. docs/measured.md has the results.

    python -m tools.benchmarks launch     launches compared with other tools, a notebook's first minute, memory
    python -m tools.benchmarks recording  the cost of recording, and our hand-written ring compared with gloo's
    python -m tools.benchmarks hangs      the catalog of mistakes: is each reported correctly, and how soon
    python -m tools.benchmarks training   accuracy and throughput on MNIST, compared with a program without DDP
    python -m tools.benchmarks room       the lessons of thirty learners on one machine
    python -m tools.benchmarks nodes      what is reported if several nodes are set up wrongly

Each one has options: python -m tools.benchmarks hangs --help. `make bench` runs launch, recording and training.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))  # for the catalog of mistakes
