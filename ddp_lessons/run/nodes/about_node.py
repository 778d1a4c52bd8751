"""On a node: what its agent tells the notebook about it first."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import socket
import sys
from collections.abc import Sequence

import psutil

from ddp_lessons import __version__
from ddp_lessons.run.launcher.private_folders import session_folder
from ddp_lessons.run.wire.relayed import Hello


def about_this_node() -> Hello:
    addresses = {
        one.address: interface
        for interface, all_of_it in psutil.net_if_addrs().items()
        for one in all_of_it
        if one.family == socket.AF_INET and not one.address.startswith("127.")
    }
    return Hello(
        version=__version__,
        python=platform.python_version(),
        torch=importlib.metadata.version("torch"),
        cores=cores(len(os.sched_getaffinity(0)), os.environ.get("SLURM_CPUS_ON_NODE")),
        gpus=gpus(os.listdir("/dev"), os.environ.get("CUDA_VISIBLE_DEVICES")),
        folder=session_folder(),
        module_path=[folder for folder in sys.path if folder],
        environment=dict(os.environ),
        addresses=addresses,
    )


def cores(usable: int, of_slurm: str | None) -> int:
    """Slurm counts those of the job, but not every cluster keeps a job from using more."""
    return min(usable, int(of_slurm)) if of_slurm and of_slurm.isdecimal() else usable


def gpus(devices: Sequence[str], visible: str | None) -> int:
    """Those of this node, or of the job on it: `visible` is the value of CUDA_VISIBLE_DEVICES."""
    there = sum(re.fullmatch(r"nvidia\d+", device) is not None for device in devices)
    if visible is None or not there:
        return there
    return sum(re.match(r"\d+$|GPU-|MIG-", one.strip()) is not None for one in visible.split(","))
