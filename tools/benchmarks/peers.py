"""The other ways to start ranks, each as short as its tool allows, and ours.

Every rank adds its rank in one all_reduce. A function here starts the ranks and returns each one's sum.
`python -m tools.benchmarks.peers FOLDER` is the script that torchrun starts; without FOLDER it is the floor.
"""

import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist


def add_up(rank: int, world_size: int) -> float:
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()


def join_and_add(rank: int, world_size: int, folder: str, port: int = 0) -> None:
    """Join, add up, and write the sum to a file, for tools that return nothing. With port 0, the tool chooses one."""
    if port:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    Path(folder, str(rank)).write_text(str(add_up(rank, world_size)))


def join_add_and_leave(rank: int, world_size: int, folder: str, port: int = 0) -> None:
    join_and_add(rank, world_size, folder, port)
    dist.destroy_process_group()


def join_add_and_sleep(rank: int, world_size: int, folder: str, port: int) -> None:
    join_and_add(rank, world_size, folder, port)
    time.sleep(3600)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def written(folder: str, world_size: int) -> list[float]:
    return [float(Path(folder, str(rank)).read_text()) for rank in range(world_size)]


def plain_fork(world_size: int) -> list[float]:
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        every = [(rank, world_size, folder, port) for rank in range(world_size)]
        ranks = [fork.Process(target=join_add_and_leave, args=arguments) for arguments in every]
        for process in ranks:
            process.start()
        for process in ranks:
            process.join()
        return written(folder, world_size)


def mp_spawn(world_size: int) -> list[float]:
    from torch.multiprocessing.spawn import spawn

    with tempfile.TemporaryDirectory() as folder:
        spawn(join_add_and_leave, (world_size, folder, free_port()), world_size)  # type: ignore[no-untyped-call, unused-ignore]
        return written(folder, world_size)


def notebook_launcher(world_size: int) -> list[float]:
    """accelerate's launcher, which forks the kernel; with a new free port each time, because its own stays in use."""
    from accelerate import notebook_launcher as start  # type: ignore[import-not-found, import-untyped, unused-ignore]

    with tempfile.TemporaryDirectory() as folder:
        start(run_script, (folder,), num_processes=world_size, use_port=str(free_port()))
        return written(folder, world_size)


def torchrun(world_size: int) -> list[float]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world_size}"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, __file__, folder], check=True, capture_output=True)
        return written(folder, world_size)


def run_script(folder: str) -> None:
    join_add_and_leave(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), folder)


def torchrunx(world_size: int) -> list[float]:
    from torchrunx import Launcher  # type: ignore[import-not-found, unused-ignore]

    results = Launcher(hostnames=["localhost"], workers_per_host=world_size, backend="gloo").run(add_up_as_member)
    return [results.rank(rank) for rank in range(world_size)]


def add_up_as_member() -> float:
    return add_up(dist.get_rank(), dist.get_world_size())


def floor() -> None:
    """Fork from a process that only imported torch, join by a file, add once, and answer through a pipe.

    It handles no errors, shows no output and supervises nothing, so no launcher of new processes can be much faster. A
    number on stdin starts this many ranks, and the next line ends them, which the measured seconds don't include.
    """
    for line in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            started = [fork_rank(rank, int(line), f"file://{folder}/meeting") for rank in range(int(line))]
            answers = [float(os.read(answer, 64)) for _, answer, _ in started]
            print(json.dumps([time.perf_counter() - begin, answers]), flush=True)
            sys.stdin.readline()
            for process, answer, stay in started:
                os.write(stay, b".")
                os.close(stay)
                os.close(answer)
                os.waitpid(process, 0)


def fork_rank(rank: int, world_size: int, meeting: str) -> tuple[int, int, int]:
    """Fork a rank, and return its process, the pipe for its answer, and the pipe on which it waits."""
    answer, write = os.pipe()
    wait, stay = os.pipe()
    process = os.fork()
    if process == 0:
        dist.init_process_group("gloo", meeting, rank=rank, world_size=world_size)
        os.write(write, str(add_up(rank, world_size)).encode())
        os.read(wait, 1)
        os._exit(0)
    os.close(write)
    os.close(wait)
    return process, answer, stay


if __name__ == "__main__":
    run_script(sys.argv[1]) if sys.argv[1:] else floor()
