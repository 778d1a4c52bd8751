"""The script that torchrun starts, once per rank."""

import os
import sys

from benchmarks.peers.adding import add_up

if __name__ == "__main__":
    add_up(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1])
