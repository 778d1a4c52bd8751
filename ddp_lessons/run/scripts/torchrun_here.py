"""The command with which this package starts torchrun on this machine.

torchrun unpickles what it finds in the store where its agents meet. With `--standalone` that is a TCPStore, which
listens on all interfaces and has no password, so anyone who reaches it can run code here. A file in a private folder
does the same for one machine, and no other user can write to it.
"""

from __future__ import annotations

import os
import uuid


def torchrun_here(ranks: int, private_folder: str | os.PathLike[str]) -> list[str]:
    """The arguments for Python; the script follows. Its logs go into the folder, too."""
    return [
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={ranks}",
        "--rdzv-backend=c10d",
        "--rdzv-conf=store_type=file",
        f"--rdzv-endpoint={os.path.join(private_folder, f'rendezvous-{uuid.uuid4().hex}')}",
        "--local-addr=localhost",
        f"--log-dir={os.fspath(private_folder)}",
    ]
