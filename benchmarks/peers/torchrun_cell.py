"""torchrun --standalone of a script, as `!torchrun` in a cell would."""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.peers import adding

SCRIPT = Path(adding.__file__).with_name("torchrun_script.py")


def answers(world_size: int) -> list[float]:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*torchrun, str(SCRIPT), folder], check=True, capture_output=True)
        return adding.written_answers(folder, world_size)
