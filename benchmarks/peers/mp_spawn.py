"""torch.multiprocessing.spawn of a module's function, because new processes can't find a function of a cell."""

import tempfile

from torch.multiprocessing.spawn import spawn

from benchmarks.peers.adding import add_up_at, free_port, written_answers


def answers(world_size: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        arguments = (world_size, folder, free_port())
        spawn(add_up_at, args=arguments, nprocs=world_size)  # type: ignore[no-untyped-call, unused-ignore]
        return written_answers(folder, world_size)
