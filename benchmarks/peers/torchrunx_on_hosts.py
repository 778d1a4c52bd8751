"""The same all_reduce with torchrunx on machines that ssh reaches: several launches, each with its seconds."""

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
import torchrunx  # type: ignore[import-not-found, unused-ignore]


def add_up() -> float:
    total = torch.tensor(float(dist.get_rank()))
    dist.all_reduce(total)
    return total.item()


def main(ssh_settings: str, ranks: int, launches: int, hosts: Sequence[str]) -> None:
    os.chdir(Path(ssh_settings).parent)  # it writes its logs here
    for _ in range(launches):
        launcher = torchrunx.Launcher(
            hostnames=list(hosts), workers_per_host=ranks // len(hosts), backend="gloo", ssh_config_file=ssh_settings
        )
        begin = time.monotonic()
        results = launcher.run(add_up)
        print(json.dumps([time.monotonic() - begin, [results.rank(rank) for rank in range(ranks)]]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
