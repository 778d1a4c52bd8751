"""Mistakes of the catalog whose ranks leave dumps: `python -m catalog.programs.dumped FOLDER torch|own NAME...`.

One process imports torch and forks the ranks of all programs. A rank writes its dump when it has been quiet for long
enough that it can't be just late, or when it raised. Ranks that are through live on until all dumps are written.
"""

import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist
from processes import kept_port

from ddp_lessons.dumps.aligned_calls import QUIET_SECONDS
from ddp_lessons.run.rank.dumping_rank import Watch
from ddp_lessons.run.recording.interception import install, recorder

from ..mistakes import MISTAKES, Mistake

WORLD_SIZE = 4
AT_ONCE = 7  # programs: their ranks only wait
STARTING_SECONDS = 6.0  # ranks of several programs, on two cores
LIVE_SECONDS = STARTING_SECONDS + QUIET_SECONDS + 4.0


class TorchsDump:
    """Writes what torch recorded, with the time at which it was asked as the time of the file."""

    def __init__(self, prefix: str, rank: int) -> None:
        self.path, self.is_written, self.lock = f"{prefix}{rank}", False, threading.Lock()

    def write(self) -> None:
        with self.lock:
            if not self.is_written:
                moment = time.time()
                dump = torch._C._distributed_c10d._dump_fr_trace()  # type: ignore[attr-defined]
                Path(self.path).write_bytes(dump)
                os.utime(self.path, (moment, moment))
                self.is_written = True


def as_rank(mistake: Mistake, rank: int, folder: Path, kind: str, port: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD_SIZE), LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    prefix = str(folder / "rank_")
    watch, dump = Watch(prefix, QUIET_SECONDS), TorchsDump(prefix, rank)
    if kind == "own":
        install()
        recorder.begin(keeps_values=False)
        threading.Thread(target=watch.keep, daemon=True).start()
    else:
        threading.Timer(LIVE_SECONDS - 4, dump.write).start()
    ended = "returned"
    try:
        if mistake.join:
            dist.init_process_group("gloo")
        mistake.function(rank, WORLD_SIZE)
    except Exception as error:
        ended = f"raised {type(error).__name__}: {error}".partition("\n")[0]
        print(f"rank {rank} {ended}", file=sys.stderr)
    if kind == "own":
        watch.end(ended)
    elif ended != "returned":
        dump.write()
    time.sleep(2 * LIVE_SECONDS)


def fork_rank(mistake: Mistake, rank: int, folder: Path, kind: str, port: int) -> int:
    child = os.fork()
    if child:
        return child
    with open(folder / f"said_{rank}.txt", "wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    as_rank(mistake, rank, folder, kind, port)
    os._exit(0)


def main(folder: str, kind: str, *names: str) -> None:
    warm_up()
    wanted = [mistake for mistake in MISTAKES if mistake.name in names]
    for first in range(0, len(wanted), AT_ONCE):
        children = []
        for mistake in wanted[first : first + AT_ONCE]:
            place = Path(folder, mistake.name)
            place.mkdir(parents=True)
            port = kept_port()
            children += [fork_rank(mistake, rank, place, kind, port) for rank in range(WORLD_SIZE)]
        time.sleep(LIVE_SECONDS)
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def warm_up() -> None:
    """Torch imports these in its first dump and first backward, which takes seconds. Forked ranks inherit them."""
    importlib.import_module("torch._inductor.codecache")
    importlib.import_module("torch._dynamo")


if __name__ == "__main__":
    main(*sys.argv[1:])
