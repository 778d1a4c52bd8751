"""What torch has beyond DistributedDataParallel, as the recorder sees it: held against torch's own counting."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.distributed as dist
from nights import by_day, nightly
from notebook_session import NotebookSession
from processes import eventually, template_of
from torch import nn

from ddp_lessons import Results, WorkersStuck, launch
from ddp_lessons.run.processes.process_pool import _has_gpu as has_gpu
from ddp_lessons.run.processes.process_sources import Forks

# torch's names of the operators that its CommDebugMode counts -> what they are
OPERATIONS = {
    "all_reduce": "all_reduce",
    "allreduce_": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "_allgather_base_": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "broadcast_": "broadcast",
    "scatter_": "scatter",
}
INPUTS = torch.ones(4, 8)


def blocks() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)) for _ in range(3)])


def sharded(world_size: int) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = blocks(), init_device_mesh("cpu", (world_size,))
    for block in model:
        fully_shard(block, mesh=mesh)
    return model


def cut_in_layers(world_size: int) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan: Any = {"*.0": ColwiseParallel(), "*.2": RowwiseParallel()}
    return parallelize_module(blocks(), init_device_mesh("cpu", (world_size,)), plan)


def count(rank: int, world_size: int, make: Callable[[int], nn.Module]) -> dict[str, int]:
    """What torch counts between two barriers."""
    from torch.distributed.tensor.debug import CommDebugMode

    model = make(world_size)
    dist.barrier()
    kinds: Counter[str] = Counter()
    for _ in range(2):
        with CommDebugMode() as torchs:  # a new one for each step: those of torch 2.11 fail in the second
            model(INPUTS).sum().backward()
            counted: Any = torchs.get_comm_counts()
        for operator, times in counted.items():
            kinds[OPERATIONS[operator.__name__]] += times
    dist.barrier()
    return dict(kinds)


def between_barriers(results: Results[Any], rank: int) -> list[Any]:
    calls = list(results.events.of(rank))
    begin, end = (place for place, call in enumerate(calls) if call.operation == "barrier")
    return calls[begin + 1 : end]


@pytest.mark.parametrize("make", by_day([sharded, cut_in_layers], 1))
def test_every_call_that_torch_counts_is_noted_with_its_end(make: Callable[[int], nn.Module]) -> None:
    results = launch(count, 2, make)
    for rank in range(2):
        noted = between_barriers(results, rank)
        assert Counter(call.operation for call in noted) == results[rank]
        assert len(noted) >= 10
        assert all(call.waited is not None and call.end is not None for call in noted)
    assert all(meeting.is_agreed for meeting in results.events.meetings)


def test_a_wait_is_noted_where_autograd_handed_on_another_object() -> None:
    def call(rank: int, world_size: int) -> float:
        from torch.distributed import _functional_collectives as functional

        world: Any = dist.group.WORLD
        start = torch.ones(3, requires_grad=True)
        total: Any = functional.all_reduce(start * rank, "sum", world)
        return float((total * 2).sum())

    results = launch(call, 2)
    assert list(results) == [6.0, 6.0]
    for event in results.events:
        assert event.waited is not None
        assert event.end is not None
        assert event.begin <= event.issued <= event.waited <= event.end


def test_calls_on_parts_of_one_tensor_end_together() -> None:
    """As torch has it: who waits for one part waits for whatever goes on in the same memory."""

    def call(rank: int, world_size: int) -> float:
        import torch.distributed._functional_collectives

        operators = torch.ops._c10d_functional
        whole = torch.ones(20)
        operators.all_reduce_(whole[:10], "sum", "0")
        if rank == 1:
            time.sleep(0.3)
        operators.all_reduce_(whole[10:], "sum", "0")
        operators.wait_tensor(whole[:10])
        ended = time.perf_counter()
        operators.wait_tensor(whole[10:])
        return ended

    results = launch(call, 2)
    late = results.events.of(1)[1]
    for rank in range(2):
        first, second = results.events.of(rank)
        assert first.end == second.end
        assert first.waited == second.waited
        assert second.end is not None
        assert late.begin <= second.end <= results[rank]


@pytest.mark.skipif(not hasattr(torch.ops._c10d_functional, "wait_tensors"), reason="new in torch 2.15")
def test_one_wait_may_be_for_several_calls() -> None:
    def call(rank: int, world_size: int) -> bool:
        import torch.distributed._functional_collectives

        operators = torch.ops._c10d_functional
        apart = [torch.ones(3), torch.ones(4)]
        for tensor in apart:
            operators.all_reduce_(tensor, "sum", "0")
        operators.wait_tensors(apart)
        together = operators.all_reduce_coalesced([torch.ones(5), torch.ones(6)], "sum", "0")
        for tensor in together:
            operators.wait_tensor(tensor)
        return all(bool((tensor == 2).all()) for tensor in [*apart, *together])

    results = launch(call, 2)
    assert list(results) == [True, True]
    for rank in range(2):
        first, second, third = results.events.of(rank)
        assert first.end is not None
        assert first.waited is not None
        assert (first.waited, first.end) == (second.waited, second.end)
        assert first.waited <= first.end <= third.begin
        assert third.end is not None


def test_a_tensor_without_memory_of_its_own_is_known_by_itself_and_other_faults_are_told() -> None:
    from ddp_lessons.run.recording.functional_collectives import _memory_of

    sparse = torch.eye(2).to_sparse()
    assert _memory_of(sparse) == id(sparse)

    class Broken:
        def untyped_storage(self) -> None:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _memory_of(Broken())


@pytest.mark.parametrize(("make", "waits"), [(sharded, "all_gather"), (cut_in_layers, "all_reduce")])
def test_who_goes_forward_alone_is_told_in_which_call_it_waits(make: Callable[[int], nn.Module], waits: str) -> None:
    def call(rank: int, world_size: int) -> None:
        model = make(world_size)
        if rank == 0:
            model(INPUTS).sum().item()

    with pytest.raises(WorkersStuck, match=rf"rank 0   waits in {waits}.*\n.*rank 1   has returned"):
        launch(call, 2)


def test_the_stages_of_a_pipeline_send_to_their_neighbors_only() -> None:
    def call(rank: int, world_size: int) -> None:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

        stage = PipelineStage(blocks()[rank], rank, world_size, torch.device("cpu"))
        schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
        for _ in range(2):  # in the first step they also tell each other their shapes
            dist.barrier()
            targets: Any = {"target": INPUTS} if rank == world_size - 1 else {}
            schedule.step(*[INPUTS][rank:], **targets)
            stage.submod.zero_grad()
        dist.barrier()

    events = launch(call, 3).events
    for rank in range(3):
        calls = list(events.of(rank))
        *_, begin, end = (place for place, call in enumerate(calls) if call.operation == "barrier")
        step = [(call.operation, call.peer, call.bytes) for call in calls[begin + 1 : end]]
        neighbors = [other for other in (rank - 1, rank + 1) if 0 <= other < 3]
        right = {(way, other, 32): 4 for way in ("send", "recv") for other in neighbors}
        assert Counter(step) == right
        assert all(call.end is not None for call in calls)


def test_zero_shares_what_it_has_stepped_for() -> None:
    def call(rank: int, world_size: int) -> None:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = blocks()
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam)
        model(INPUTS).sum().backward()
        dist.barrier()
        optimizer.step()
        dist.barrier()

    results = launch(call, 2)
    sizes = Counter(parameter.nbytes for parameter in blocks().parameters())
    for rank in range(2):
        step = between_barriers(results, rank)
        assert {call.operation for call in step} == {"broadcast"}
        assert Counter(call.bytes for call in step) == sizes
        assert {call.root for call in step} == {0, 1}


def pause(seconds: float) -> bool:
    """In which the template has nothing to do."""
    time.sleep(seconds)
    return False


@nightly
@pytest.mark.skipif(has_gpu(), reason="where there is a GPU nothing is imported ahead")
def test_a_notebook_s_template_imports_the_compiler_when_it_is_idle() -> None:
    with NotebookSession() as kernel:
        kernel.run("import sys; from ddp_lessons import launch")
        pause(20)
        there = kernel.run("list(launch(lambda rank, size: 'torch._dynamo' in sys.modules, 2))").value
    assert there == "[True, True]"


def test_what_takes_long_to_import_is_imported_once_for_all_later_launches() -> None:
    heavy = ["torch.distributed.fsdp", "torch.distributed.tensor.parallel", "torch.distributed.pipelining"]

    def call(rank: int, world_size: int) -> list[bool]:
        were_there = [name in sys.modules for name in heavy]
        for name in heavy:
            __import__(name)
        return [*were_there, torch.cuda.is_initialized()]

    launch(call, 1)
    assert eventually(lambda: launch(call, 2)[0] == [True, True, True, False] or pause(2))
    template: psutil.Process = template_of(os.getpid())
    assert template.num_threads() == 1  # it can still be forked


@nightly
def test_a_template_that_imports_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch's compiler on a busy machine. Ranks are stopped meanwhile; to begin with torch again takes longer."""
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(11)")
    monkeypatch.syspath_prepend(tmp_path)
    nursery = Forks()
    processes = nursery.bear(1)
    assert nursery.is_ready_within(60)
    nursery.import_ahead({"slow_to_import"})
    time.sleep(2)  # more than it is idle before it imports
    begin = time.monotonic()
    assert nursery.stop(processes) == [-signal.SIGKILL]
    assert time.monotonic() > begin + 5
    assert (nursery.is_usable(), nursery.imported) == (True, {"slow_to_import"})


def test_a_module_path_that_changed_costs_no_second_import_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    def where(rank: int, world_size: int) -> tuple[int, str]:
        return os.getppid(), os.environ.get("PYTHONPATH", "")

    template, _ = launch(where, 1, quiet=True)[0]
    monkeypatch.setenv("PYTHONPATH", "/somewhere/else")
    assert launch(where, 1, quiet=True)[0] == (template, "/somewhere/else")
