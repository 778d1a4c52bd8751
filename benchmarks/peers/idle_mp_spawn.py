"""mp.spawn with idle ranks, which have joined and added once, then sleep until they are ended."""

import tempfile
import time

from torch.multiprocessing.spawn import ProcessContext, spawn

from benchmarks.peers.adding import add_up_and_sleep, free_port, written_answers

held: list[ProcessContext] = []


def hold(world_size: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = (world_size, folder, free_port())
        context = spawn(add_up_and_sleep, arguments, world_size, join=False)  # type: ignore[no-untyped-call, unused-ignore]
        held.append(context)
        for _ in range(300):
            try:
                return written_answers(folder, world_size)
            except (FileNotFoundError, ValueError):
                time.sleep(0.2)
    raise TimeoutError("the spawned ranks did not come")


def release() -> None:
    for process in held.pop().processes:
        process.kill()
        process.join()
