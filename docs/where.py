"""Write docs/where.md, the names of PyTorch and where the course uses them: `.venv/bin/python docs/where.py`.

A name counts where a code cell of a lesson, a program or a test has it. Comments don't count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

DOCS = Path(__file__).parent
PROJECT = DOCS.parent
PAGE = DOCS / "where.md"
MOST = 3  # files in a cell
NAMES = {
    "Process groups and stores": """
        init_process_group destroy_process_group get_rank get_world_size MASTER_ADDR MASTER_PORT WORLD_SIZE
        env:// file:// tcp:// store= EADDRINUSE TCPStore FileStore HashStore PrefixStore wait_for_workers
    """,
    "Messages and collectives": """
        dist.send dist.recv dist.isend dist.irecv dist.broadcast dist.reduce dist.all_reduce dist.scatter
        dist.gather dist.all_gather dist.reduce_scatter dist.all_to_all dist.barrier ReduceOp.SUM
        ReduceOp.PRODUCT ReduceOp.MAX ReduceOp.MIN new_group async_op ring_all_reduce
    """,
    "Training by hand": """
        average_gradients weighted_average Net nll_loss log_softmax momentum manual_seed Partition
        DataPartitioner partition_dataset GlobalBatches
    """,
    "DistributedDataParallel": """
        DistributedDataParallel Overlapped register_post_accumulate_grad_hook map_location no_sync
        find_unused_parameters bucket_cap_mb
    """,
    "A training script": """
        DataLoader num_workers DistributedSampler set_epoch cross_entropy torch.autocast torch.compile
        clip_grad_norm_ CosineAnnealingLR os.replace signal.SIGTERM IterableDataset get_worker_info ignore_index
        TransformerEncoder
    """,
    "Starting ranks": """
        mp.spawn nprocs torch.distributed.run torchrun --standalone --nproc-per-node --nnodes
        --rdzv-endpoint c10d LOCAL_RANK --max-restarts
    """,
    "Debugging": """
        TORCH_DISTRIBUTED_DEBUG TORCH_FR_BUFFER_SIZE
    """,
    "Clusters": """
        sbatch srun #SBATCH --ntasks-per-node --cpus-per-task --gpus-per-node SLURM_JOB_NODELIST scontrol
        GLOO_SOCKET_IFNAME
    """,
    "Backends": """
        gloo nccl mpirun init_rpc torch.cuda.set_device torch.cuda.device_count CUDA_VISIBLE_DEVICES
        device_of_this_rank
    """,
    "After DDP": """
        fully_shard ColwiseParallel Schedule1F1B torch.distributed.checkpoint
    """,
}
HEAD = """\
# PyTorch names: lessons, programs and tests

Where code of the course has a name: in which lessons (including the programs that they write), in which modules of
`scripts/` and `ddp_lessons/train/`, and in which tests. `docs/where.py` writes this page.
"""


@cache
def code_of(file: Path) -> str:
    """Without lines that are comments."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("# "))


def has(text: str, name: str) -> bool:
    """Whether it is there as a whole: `Net` is not in `Network`."""
    before, after = (r"\b" if end.isalnum() or end == "_" else "" for end in (name[0], name[-1]))
    return name in text and re.search(before + re.escape(name) + after, text) is not None


def places(name: str) -> Iterator[list[str]]:
    """The links to lessons, programs and tests that have the name."""
    lessons = sorted((PROJECT / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    programs = [*sorted((PROJECT / "scripts").rglob("*.*")), *sorted((PROJECT / "ddp_lessons" / "train").glob("*.py"))]
    tests = sorted((PROJECT / "tests").rglob("*.py"), key=lambda file: (file.parent.name != "train", file))
    programs = [file for file in programs if file.suffix in (".py", ".sbatch", ".yaml")]
    for files, most in ((lessons, len(lessons)), (programs, MOST), (tests, MOST)):
        found = [file for file in files if has(code_of(file), name)][:most]
        yield [f"[{_named(file)}](../{file.relative_to(PROJECT).as_posix()})" for file in found]


def _named(file: Path) -> str:
    return str(int(file.name[:2])) if file.suffix == ".ipynb" else file.name


def page() -> str:
    parts = [HEAD]
    for title, names in NAMES.items():
        rows = [(f"`{name}`", *(", ".join(found) for found in places(name))) for name in names.split()]
        lines = [("name", "lessons", "programs", "tests"), ("---",) * 4, *rows]
        parts.append(f"## {title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
