"""The floor: fork from a process that only imported torch, join by a file, add once, and answer through a pipe.

It catches, shows and supervises nothing, so no launcher of new processes can be much faster. It runs in its own process
and reads commands from stdin: `time 4` times one world, `hold 4` keeps one idle until the next line.
"""

import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist


def add_up(rank: int, world_size: int, meeting_file: str) -> float:
    dist.init_process_group("gloo", f"file://{meeting_file}", rank=rank, world_size=world_size)
    total = torch.ones(1) * rank
    dist.all_reduce(total)
    return total.item()


def start(world_size: int, meeting_file: str, keep: int | None) -> list[tuple[int, int]]:
    """Fork the ranks; return each one's process id and the pipe for its answer.

    An idle rank (`keep` is the read end of another pipe) ends when the write end is closed.
    """
    started = []
    for rank in range(world_size):
        read_end, write_end = os.pipe()
        process_id = os.fork()
        if process_id == 0:
            os.write(write_end, str(add_up(rank, world_size, meeting_file)).encode())
            if keep is not None:
                os.read(keep, 1)
            os._exit(0)
        os.close(write_end)
        started.append((process_id, read_end))
    return started


def collect(started: list[tuple[int, int]]) -> list[float]:
    answers = [float(os.read(read_end, 64)) for _, read_end in started]
    for _, read_end in started:
        os.close(read_end)
    return answers


def reap(started: list[tuple[int, int]]) -> None:
    for process_id, _ in started:
        os.waitpid(process_id, 0)


def time_once(world_size: int) -> tuple[float, list[float]]:
    """Seconds until the last answer arrives. To be strict, this does not include ending the ranks."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        started = start(world_size, os.path.join(folder, "meeting"), None)
        answers = collect(started)
        seconds = time.perf_counter() - begin
        reap(started)
        return seconds, answers


def hold(world_size: int) -> None:
    """Keep an idle world until the next line comes."""
    with tempfile.TemporaryDirectory() as folder:
        read_end, write_end = os.pipe()
        started = start(world_size, os.path.join(folder, "meeting"), read_end)
        reply(0.0, collect(started))
        sys.stdin.readline()
        os.write(write_end, b"." * world_size)
        reap(started)
        os.close(read_end)
        os.close(write_end)
    reply(0.0, [])


def reply(seconds: float, answers: list[float]) -> None:
    sys.stdout.write(json.dumps([seconds, answers]) + "\n")
    sys.stdout.flush()


def obey() -> None:
    for line in iter(sys.stdin.readline, ""):
        verb, count = line.split()
        if verb == "hold":
            hold(int(count))
        else:
            reply(*time_once(int(count)))


if __name__ == "__main__":
    obey()
