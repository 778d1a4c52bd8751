"""Right and wrong answers to the exercise of lesson 7."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.autograd import Variable

dist: Any = torch.distributed


class OneByOne(nn.Module):
    """As in the lesson, where it is given: nothing overlaps."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.works: list[Any] = []
        self.start()
        for parameter in self.trained():
            parameter.register_post_accumulate_grad_hook(self.gradient_is_ready)

    def start(self) -> None:
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)

    def trained(self) -> list[Any]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def gradient_is_ready(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class WaitsAfterBackward(OneByOne):
    def gradient_is_ready(self, parameter: Any) -> None:
        if not self.works:
            Variable._execution_engine.queue_callback(self.wait)
        parameter.grad /= dist.get_world_size()
        self.works.append(dist.all_reduce(parameter.grad, async_op=True))

    def wait(self) -> None:
        while self.works:
            self.works.pop().wait()


def by_futures(module: nn.Module) -> nn.Module:
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, 0)
    futures: list[Any] = []
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]

    def hook(parameter: Tensor) -> None:
        futures.append(dist.all_reduce(parameter.grad, async_op=True).get_future())
        if len(futures) == len(trained):
            torch.futures.wait_all(futures)
            futures.clear()
            for one in trained:
                one.grad = one.grad / dist.get_world_size()

    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(hook)
    return module


class LeavesOutWhatIsFrozen(OneByOne):
    def start(self) -> None:
        for tensor in [*self.trained(), *self.module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)


class ReplacesTheFirstGradient(OneByOne):
    """Right as long as there is one backward() in a step."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        for parameter in self.trained():
            parameter.register_hook(lambda gradient, mine=parameter: setattr(mine, "grad", None))


RIGHT: dict[str, list[Any]] = {"my_ddp": [WaitsAfterBackward, by_futures]}
WRONG: dict[str, list[Any]] = {
    "my_ddp": [
        (OneByOne, "Communication does not overlap"),
        (LeavesOutWhatIsFrozen, "starts with wrong values"),
        (ReplacesTheFirstGradient, "but not after a later one."),
    ]
}
