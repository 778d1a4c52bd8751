"""Speed and memory: our launcher compared with others, measured in one run.

python -m benchmarks                    launches, first launches and memory, each with its target
python -m benchmarks.talking            the cost of recording, and the ring by hand compared with gloo's
python -m benchmarks.standstills        every mistake of the catalog: how soon is it reported, and is the message right
python -m benchmarks.training           accuracy on MNIST, and images per second, beside a program without DDP
python -m benchmarks.room               thirty kernels of four ranks on one machine
python -m benchmarks.minutes            how long the cells of each lesson run
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))  # for the catalog of mistakes
