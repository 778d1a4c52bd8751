"""The small DistributedDataParallel, against torch's own with the same data, or against one process."""

from __future__ import annotations

import ast
import inspect
import pathlib
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist
from nights import by_day
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons import launch
from ddp_lessons.train import small_ddp
from ddp_lessons.train.replicas import fingerprint
from ddp_lessons.train.small_ddp import SmallDDP

Wrap = Callable[[nn.Module], Any]
BUCKETS = [0, 1, 100, 150, 300, 2**20]


def torchs(model: nn.Module) -> Any:
    return DistributedDataParallel(model, find_unused_parameters=True)


def samples(rank: int, step: int, count: int = 4) -> Tensor:
    return torch.randn(count, 6, generator=torch.Generator().manual_seed(100 * step + rank), dtype=torch.float64)


def small_net(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def gradients(model: nn.Module) -> list[Tensor | None]:
    return [None if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()]


def batch_norm_net(seed: int) -> Any:
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)).double()
    nn.init.normal_(cast(Tensor, net[1].running_mean))  # other buffers on each rank
    return net


def test_it_is_short_enough_to_be_read_in_a_lesson() -> None:
    tree = ast.parse(pathlib.Path(inspect.getfile(small_ddp)).read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for definition in ast.walk(tree):
        if isinstance(definition, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(definition):
            definition.body = definition.body[1:]
    lines = [line for node in classes for line in ast.unparse(node).splitlines() if line.strip()]
    assert len(classes) == 2
    assert len(lines) <= 65


def test_batch_norm_with_each_ranks_own_statistics_trains_as_with_torch() -> None:
    def run(rank: int, world_size: int) -> list[Any]:
        answers = []
        for wrap in (SmallDDP, torchs):
            model = wrap(batch_norm_net(seed=rank))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            outputs = []
            for step in range(8):
                optimizer.zero_grad()
                # uneven, and a pass that only looks between two that learn
                outputs.append(model(samples(rank, step, count=3 + rank)).square().mean())
                outputs[-1].backward()
                optimizer.step()
                model.eval()
                with torch.no_grad():
                    outputs.append(model(samples(rank, step)).mean())
                model.train()
            answers.append((torch.stack(outputs).tolist(), list(model.parameters()), list(model.buffers())))
        return answers

    results = launch(run, 3)
    for rank, (small, reference) in enumerate(results):
        assert small[0] == pytest.approx(reference[0], abs=1e-12)
        assert all(torch.equal(one, other) for one, other in zip(small[1], results[0][0][1], strict=True))
        torch.testing.assert_close(small[1], reference[1], rtol=0, atol=1e-12)
        if rank == 0:  # before the next forward() the others' are their own, here as there
            torch.testing.assert_close(small[2], reference[2], rtol=0, atol=1e-12)


def test_every_rank_begins_with_the_weights_and_buffers_of_rank_0() -> None:
    def run(rank: int, world_size: int) -> tuple[str, str]:
        net = batch_norm_net(seed=rank)
        net.register_parameter("turned", nn.Parameter(torch.full((2, 3), float(rank)).t()))
        net.register_buffer("flag", torch.tensor([rank == 0, rank == 1]))
        net[0].weight.requires_grad_(False)  # also what is frozen
        before = fingerprint(net)
        return before, fingerprint(SmallDDP(net))

    results = launch(run, 3)
    assert {after for _, after in results} == {results[0][0]}
    assert len({before for before, _ in results}) == 3


class Crossroads(nn.Module):
    """Each rank takes its own way: rank 0 the left one, rank 1 the right one, and nobody the third."""

    def __init__(self) -> None:
        super().__init__()
        self.start, self.left, self.right, self.third = (nn.Linear(6, 6).double() for _ in range(4))

    def forward(self, inputs: Tensor, rank: int) -> Tensor:
        start = self.start(inputs)
        if rank > 1:
            return cast(Tensor, self.right(self.left(start)))
        return cast(Tensor, self.right(start) if rank else self.left(start))


@pytest.mark.parametrize("bucket_bytes", by_day(BUCKETS, 2))
def test_a_parameter_that_only_some_ranks_use_gets_the_mean_with_zeros_for_the_others(bucket_bytes: int) -> None:
    def run(rank: int, world_size: int) -> list[Any]:
        answers = []
        for wrap in (lambda model: SmallDDP(model, bucket_bytes), torchs):
            torch.manual_seed(0)
            model: Any = wrap(Crossroads())
            seen = []
            for step, set_to_none in enumerate([True, False, True]):
                model.zero_grad(set_to_none=set_to_none)
                who = (rank + step) % world_size  # another way in every step
                model(samples(rank, step), who).square().sum().backward()
                seen.append(gradients(model))
            answers.append(seen)
        return answers

    results = launch(run, 3)
    for small, reference in results:
        torch.testing.assert_close(small, reference)
    names = [name for name, _ in Crossroads().named_parameters()]
    assert [name for name, gradient in zip(names, results[0][0][0], strict=True) if gradient is None] == [
        "third.weight",
        "third.bias",
    ]


def test_with_two_ranks_the_way_of_the_other_sets_off_in_the_same_order() -> None:
    def run(rank: int, world_size: int) -> None:
        torch.manual_seed(0)
        model = SmallDDP(Crossroads(), bucket_bytes=300)
        for step in range(3):
            model(samples(rank, step), rank).sum().backward()

    results = launch(run, 2)
    shapes = [[event.shape for event in results.events.of(rank) if event.operation == "all_reduce"] for rank in (0, 1)]
    assert shapes[0] == shapes[1]
    assert len(shapes[0]) == 3 * 8


KINDS = {
    "bfloat16": [torch.bfloat16] * 2,
    "float16": [torch.float16] * 2,
    "float32": [torch.float32] * 2,
    "complex64": [torch.complex64] * 2,
    "float32 then float64": [torch.float32, torch.float64],
}


@pytest.mark.parametrize("kinds", KINDS)
def test_every_dtype_travels(kinds: str) -> None:
    def run(rank: int, world_size: int) -> list[Any]:
        answers = []
        for wrap in (SmallDDP, torchs):
            torch.manual_seed(rank)
            first, last = (nn.Linear(6, 6).to(dtype) for dtype in KINDS[kinds])

            class Casting(nn.Module):
                def __init__(self, first: nn.Linear, last: nn.Linear) -> None:
                    super().__init__()
                    self.first, self.last = first, last

                def forward(self, inputs: Tensor) -> Tensor:
                    hidden = self.first(inputs.to(self.first.weight.dtype))
                    return cast(Tensor, self.last(hidden.to(self.last.weight.dtype)))

            model = wrap(Casting(first, last))
            model(samples(rank, 0)).abs().mean().backward()
            answers.append(gradients(model))
        return answers

    results = launch(run, 2)
    for small, reference in results:
        torch.testing.assert_close(small, reference)
        assert all(torch.equal(one, other) for one, other in zip(small, results[0][0], strict=True))


def test_buckets_of_every_size_give_the_gradient_of_the_whole_batch() -> None:
    def run(rank: int, world_size: int) -> list[Any]:
        answers = []
        for bucket_bytes in BUCKETS:
            model = SmallDDP(small_net(), bucket_bytes)
            model(samples(rank, 0)).square().mean().backward()
            answers.append(gradients(model))
        return answers

    results = launch(run, 3)

    alone = small_net()
    alone(torch.cat([samples(rank, 0) for rank in range(3)])).square().mean().backward()
    for answers in results:
        for of_a_size in answers:
            torch.testing.assert_close(of_a_size, gradients(alone), rtol=0, atol=1e-12)
    assert sum(event.operation == "all_reduce" for event in results.events.of(0)) == sum([6, 6, 5, 4, 3, 1])


@pytest.mark.parametrize("world_size", [1, 2])
def test_a_model_of_one_parameter_and_one_of_none_that_learns(world_size: int) -> None:
    def run(rank: int, world_size: int) -> tuple[float, Tensor | None]:
        number: Any = nn.Module()
        number.weight = nn.Parameter(torch.tensor(2.0))
        number.forward = lambda inputs: number.weight * inputs
        SmallDDP(number)(torch.tensor(rank + 1.0)).backward()
        frozen = nn.Linear(2, 2).requires_grad_(False)
        inputs = torch.ones(2, requires_grad=True)
        SmallDDP(frozen)(inputs).sum().backward()
        return number.weight.grad.item(), frozen.weight.grad

    assert list(launch(run, world_size)) == [((world_size + 1) / 2, None)] * world_size


def test_after_a_backward_that_was_caught_half_way_the_next_one_is_right() -> None:
    def run(rank: int, world_size: int) -> tuple[int, list[Tensor | None]]:
        model: Any = SmallDDP(small_net(), bucket_bytes=1)
        caught = 0
        for _ in range(2):
            middle = model.module[2].register_full_backward_hook(lambda *_: 1 / 0)
            try:
                model(samples(rank, 0)).square().mean().backward()
            except ZeroDivisionError:
                caught += 1
            middle.remove()
        model.zero_grad()
        model(samples(rank, 1)).square().mean().backward()
        return caught, gradients(model)

    results = launch(run, 2)

    alone = small_net()
    alone(torch.cat([samples(rank, 1) for rank in range(2)])).square().mean().backward()
    for caught, after in results:
        assert caught == 2
        torch.testing.assert_close(after, gradients(alone))
    # gradients of the last layer were on their way when the first two stopped
    assert sum(event.operation == "all_reduce" for event in results.events.of(0)) > 6


def both_then_backward(model: Any, first: Tensor, second: Tensor) -> None:
    one, other = model(first), model(second)
    (one.square().mean() + other.mean()).backward()


def each_with_its_backward(model: Any, first: Tensor, second: Tensor) -> None:
    one, other = model(first), model(second)
    one.square().mean().backward()
    other.mean().backward()


def looking_in_between(model: Any, first: Tensor, second: Tensor) -> None:
    one, other = model(first), model(second)
    with torch.no_grad():
        model(second)
    (one.square().mean() + other.mean()).backward()


def twice_without_clearing(model: Any, first: Tensor, second: Tensor) -> None:
    model(first).square().mean().backward()
    model(second).mean().backward()


@pytest.mark.parametrize(
    "passes", [both_then_backward, each_with_its_backward, looking_in_between, twice_without_clearing]
)
def test_two_forwards_in_any_order_with_their_backwards(passes: Callable[[Any, Tensor, Tensor], None]) -> None:
    def run(rank: int, world_size: int) -> list[Tensor | None]:
        model = SmallDDP(small_net(), bucket_bytes=300)
        passes(model, samples(rank, 0), samples(rank, 1))
        return gradients(model)

    alone = small_net()
    passes(alone, *(torch.cat([samples(rank, step) for rank in range(2)]) for step in (0, 1)))
    for averaged in launch(run, 2):
        torch.testing.assert_close(averaged, gradients(alone))


def test_no_sync_holds_for_a_forward_wherever_its_backward_is_called_and_ends_with_an_error() -> None:
    def run(rank: int, world_size: int) -> list[Any]:
        answers = []
        for wrap in (SmallDDP, torchs):
            model = wrap(small_net())
            seen = []
            with model.no_sync():
                inside = model(samples(rank, 0)).mean()
            inside.backward()
            seen.append(gradients(model))
            outside = model(samples(rank, 1)).mean()
            with model.no_sync():
                outside.backward()
            seen.append(gradients(model))
            model.zero_grad()
            try:
                with model.no_sync(), model.no_sync():
                    raise KeyError
            except KeyError:
                model(samples(rank, 2)).mean().backward()
            seen.append(gradients(model))
            answers.append(seen)
        return answers

    results = launch(run, 2)
    for small, reference in results:
        torch.testing.assert_close(small, reference)
    assert not torch.equal(results[0][0][0][0], results[1][0][0][0])
    assert torch.equal(results[0][0][2][0], results[1][0][2][0])


@pytest.mark.parametrize("world_size", [2, 3])
def test_buckets_are_under_way_before_the_first_layer_has_its_gradient(world_size: int) -> None:
    def run(rank: int, world_size: int) -> None:
        model: Any = SmallDDP(small_net(), bucket_bytes=160)
        # a barrier marks the moment at which backward() comes to the first layer
        model.module[1].register_full_backward_hook(lambda *_: dist.barrier())
        for step in range(2):
            model(samples(rank, step)).sum().backward()

    results = launch(run, world_size)
    for rank in range(world_size):
        after_the_start = [event for event in results.events.of(rank) if event.operation != "broadcast"]
        step = ["all_reduce", "all_reduce", "barrier", "all_reduce", "all_reduce"]
        assert [event.operation for event in after_the_start] == step * 2
        assert [event.shape for event in after_the_start] == [event.shape for event in results.events.of(0)[-10:]]
        # nobody waits for a bucket before the last one is on its way
        first, second, barrier, third, last = after_the_start[:5]
        assert first.begin < second.begin < barrier.begin < third.begin < last.begin
        assert first.waited is not None
        assert last.issued <= first.waited


def test_a_model_called_without_its_wrapper_keeps_its_own_gradients() -> None:
    def run(rank: int, world_size: int) -> list[Any]:
        answers = []
        for wrap in (SmallDDP, torchs):
            net = small_net()
            wrap(net)
            net(samples(rank, 0)).mean().backward()
            answers.append(gradients(net))
        return answers

    results = launch(run, 2)
    for small, reference in results:
        torch.testing.assert_close(small, reference)
    assert not torch.equal(results[0][0][0], results[1][0][0])


def test_its_state_has_the_names_of_torchs() -> None:
    def run(rank: int, world_size: int) -> tuple[list[str], list[str]]:
        return list(SmallDDP(batch_norm_net(0)).state_dict()), list(torchs(batch_norm_net(0)).state_dict())

    for small, reference in launch(run, 2):
        assert small == reference
