"""Why torch sees no GPU on a machine that has an NVIDIA driver, and what to do about it."""

from __future__ import annotations

import os
import subprocess


def why() -> tuple[str, str]:
    """The finding and the next step."""
    import torch

    if torch.version.cuda is None:
        found = f"this machine has an NVIDIA driver, but torch {torch.__version__} was built without CUDA"
        return found, "The lessons run on the CPU. For the GPU, follow the selector on pytorch.org."
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return (
            f"this machine has an NVIDIA driver, but with CUDA_VISIBLE_DEVICES={visible!r} torch sees no GPU",
            "The lessons run on the CPU. For the GPU, unset the variable, or set it to existing GPUs.",
        )
    return (
        f"this machine has an NVIDIA driver that lists {_count_listed()} GPUs, but torch {torch.__version__} sees none",
        "The lessons run on the CPU. For the GPU: if `nvidia-smi -L` does not list all GPUs, restart the machine. "
        "If it lists all of them, update the NVIDIA driver.",
    )


def _count_listed() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    return sum(line.startswith("GPU ") for line in listed.splitlines())
