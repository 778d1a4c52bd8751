"""A hang as the ranks' own processes report it: NCCL's watchdog, and the dumps of the Flight Recorder.

The ranks are plain processes, because `launch` would end the hang before the watchdog does.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from ddp_lessons.gpu.gpu_recordings import Measured, as_recorded
from ddp_lessons.show.page.printed import in_columns

TIMEOUTS = {"nccl": 10.0, "gloo": 2.0}  # seconds
MOST_SECONDS, GRACE_SECONDS = 120.0, 20.0  # for the rank that waits, and then for the one that makes no call
MOST_LINES, LAST_CALLS = 8, 3
TOLD = ("watchdog", "timeout", "timed out", "flight recorder", "aborting process", "terminate called", "what():")
NOT_TOLD = ("deprecated", "frame #", 'file "')
SUMMARY = {"profiling_name": "call", "collective_seq_id": "number", "state": "state", "input_sizes": "shapes"}


def measure(device: str) -> Measured:
    """Two ranks: both make one all_reduce, and only rank 0 makes the second."""
    backend = "nccl" if device == "cuda" else "gloo"
    with tempfile.TemporaryDirectory(prefix="hang-") as folder:
        statuses, seconds = _run(backend, Path(folder))
        said = [Path(folder, f"said_{rank}").read_text(encoding="utf-8", errors="replace") for rank in range(2)]
        dumps = {rank: file.read_bytes() for rank in range(2) if (file := Path(folder, f"dump_{rank}")).exists()}
    calls = {rank: summary(pickle.loads(dump)) for rank, dump in dumps.items()}  # noqa: S301  torch wrote them
    words = [last_words(text) for text in said]
    lines = ["rank 1 makes no second all_reduce"]
    lines += [f"the timeout is {TIMEOUTS[backend]:g} s; rank 0 runs for {seconds:.0f} s, with its start and its dump"]
    for rank in range(2):
        lines += [f"rank {rank} {_ending(statuses[rank])}", *(f"  {line}" for line in words[rank])]
    for rank, of_rank in calls.items():
        rows = [[str(call.get(field, "")) for field in SUMMARY] for call in of_rank]
        lines += [f"Flight Recorder of rank {rank}, its last calls:", *in_columns([list(SUMMARY.values()), *rows])]
    checks = {"rank 0 ends with an error": statuses[0] not in (0, None), "rank 0 reports it": bool(words[0])}
    checks["rank 0 wrote a dump"] = 0 in calls or backend == "gloo"
    values = {"statuses": statuses, "seconds": round(seconds, 1), "calls": {str(rank): calls[rank] for rank in calls}}
    return Measured(f"2 ranks, {'a GPU each, NCCL' if device == 'cuda' else 'gloo'}", lines, values, checks)


def summary(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The last calls of a dump, without the stacks and times."""
    entries = list(dump.get("entries", []))[-LAST_CALLS:]
    return [{field: entry[field] for field in SUMMARY if field in entry} for entry in entries]


def last_words(said: str) -> list[str]:
    """The lines about the timeout, not the stacks and the notes on renamed environment variables."""
    told = [line.strip() for line in said.splitlines() if any(word in line.lower() for word in TOLD)]
    return [as_recorded(line) for line in told if not any(word in line.lower() for word in NOT_TOLD)][:MOST_LINES]


def _ending(status: int | None) -> str:
    if status is None:
        return "makes no call, and is stopped by this experiment"
    return f"is killed by {signal.Signals(-status).name}" if status < 0 else f"ends with status {status}"


def _run(backend: str, folder: Path) -> tuple[list[int | None], float]:
    """The exit status of each rank, None if it had to be stopped, and the seconds that rank 0 ran."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    # in this process, as torchrun's agent has it: it stays when rank 0 ends
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    begin = time.monotonic()
    processes = [_start(rank, backend, folder, store.port) for rank in range(2)]
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[0].wait(MOST_SECONDS)
        seconds = time.monotonic() - begin
        with contextlib.suppress(subprocess.TimeoutExpired):
            processes[1].wait(GRACE_SECONDS if backend == "nccl" else 0)  # with gloo, rank 1 hears of nothing
        return [process.poll() for process in processes], seconds
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start(rank: int, backend: str, folder: Path, port: int) -> subprocess.Popen[bytes]:
    dump = str(folder / "dump_")  # torch adds the rank
    # torch 2.9 renamed some variables and still reads the older names, and NCCL's part reads only those
    settings = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCH_NCCL_LOG_CPP_STACK_ON_UNCLEAN_SHUTDOWN": "0",
        **dict.fromkeys(("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), "2000"),
        **dict.fromkeys(("TORCH_FR_DUMP_ON_TIMEOUT", "TORCH_NCCL_DUMP_ON_TIMEOUT"), "1"),
        **dict.fromkeys(("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"), dump),
    }
    command = [sys.executable, "-m", __name__, backend, str(TIMEOUTS[backend]), dump]
    with Path(folder, f"said_{rank}").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **settings})


def main(backend: str, seconds: str, dump: str) -> None:
    """As one rank."""
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    device = torch.device("cuda", rank) if backend == "nccl" else torch.device("cpu")
    if backend == "nccl":
        torch.cuda.set_device(device)
    dist.init_process_group(backend, timeout=timedelta(seconds=float(seconds)))
    tensor = torch.ones(4, device=device)
    dist.all_reduce(tensor)
    if rank == 1:
        time.sleep(2 * MOST_SECONDS)
    try:
        dist.all_reduce(tensor)
        tensor.sum().item()  # waits for the GPU
    except Exception:
        write: Any = getattr(torch._C._distributed_c10d, "_dump_fr_trace", None)
        if backend == "gloo" and write is not None:  # only NCCL has a watchdog that does it
            Path(f"{dump}{rank}").write_bytes(write())
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
