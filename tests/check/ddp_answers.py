"""Answers to the exercise `my_ddp`: right ones, and wrong ones with words of their sentences."""

# mypy: disable-error-code="no-any-return,no-untyped-def,no-untyped-call"
from __future__ import annotations

import copy
import functools
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from torch.autograd import Variable
from torch.nn.parallel import DistributedDataParallel

from ddp_lessons.train.small_ddp import Overlapped

dist: Any = torch.distributed


class Wrapper(nn.Module):
    """What is not wrong in most of the answers."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.start()
        self.put_hooks()

    def start(self) -> None:
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            dist.broadcast(tensor.data, 0)

    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_post_accumulate_grad_hook(self.hook)

    def trained(self) -> list[Any]:
        return [parameter for parameter in self.module.parameters() if parameter.requires_grad]

    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


# right


class OneByOne(Wrapper):
    pass


class BeforeItIsAccumulated(Wrapper):
    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_hook(self.averaged)

    def averaged(self, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / dist.get_world_size()


class AllInTheEnd(Wrapper):
    """One call, when backward is through."""

    waits = False

    def hook(self, parameter: Any) -> None:
        if not self.waits:
            self.waits = True
            Variable._execution_engine.queue_callback(self.average)

    def average(self) -> None:
        self.waits = False
        gradients = [parameter.grad for parameter in self.trained()]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat, op=dist.ReduceOp.AVG)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))


class WhenTheLastIsThere(Wrapper):
    """It counts, and averages all at once."""

    seen = 0

    def hook(self, parameter: Any) -> None:
        self.seen += 1
        if self.seen == len(self.trained()):
            self.seen = 0
            for one in self.trained():
                one.grad.div_(dist.get_world_size())
                dist.all_reduce(one.grad)


class UnderWay(Wrapper):
    """Without waiting in the hooks."""

    works: Any

    def __init__(self, module: nn.Module) -> None:
        self.__dict__["works"] = []
        super().__init__(module)

    def hook(self, parameter: Any) -> None:
        if not self.works:
            Variable._execution_engine.queue_callback(self.wait)
        self.works.append((dist.all_reduce(parameter.grad, async_op=True), parameter))

    def wait(self) -> None:
        for work, parameter in self.works:
            work.wait()
            parameter.grad /= dist.get_world_size()
        self.works.clear()


class ByGathering(Wrapper):
    def start(self) -> None:
        whole = [{name: tensor.clone() for name, tensor in self.module.state_dict().items()}]
        dist.broadcast_object_list(whole, src=0)
        self.module.load_state_dict(whole[0])

    def hook(self, parameter: Any) -> None:
        received = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(received, parameter.grad)
        parameter.grad = torch.stack(received).mean(0)


class ThroughRank0(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.reduce(parameter.grad, 0)
        parameter.grad.div_(dist.get_world_size())
        dist.broadcast(parameter.grad, 0)


class StartsInForward(UnderWay):
    """When it is called for the first time."""

    is_started = False

    def start(self) -> None: ...

    def forward(self, *inputs: Any) -> Any:
        if not self.is_started:
            self.is_started = True
            super().start()
        return self.module(*inputs)


class NotAModule:
    def __init__(self, module: nn.Module) -> None:
        UnderWay(module)
        self.module = module

    def __call__(self, inputs: Tensor) -> Tensor:
        return self.module(inputs)


class InAFunctionOfAutograd(UnderWay):
    """Parameters are frozen in their places, and each has a way back of its own."""

    def put_hooks(self) -> None:
        for parameter in self.trained():
            accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulator.register_hook(functools.partial(self.accumulated, parameter))
            self.__dict__.setdefault("accumulators", []).append(accumulator)

    def accumulated(self, parameter: Any, *_: Any) -> None:
        self.hook(parameter)


def hooks_on_the_model_itself(module: nn.Module) -> nn.Module:
    for tensor in module.state_dict().values():
        dist.broadcast(tensor, 0)
    for parameter in module.parameters():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(average)
    return module


def average(parameter: Any) -> None:
    dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def torchs_own(module: nn.Module) -> nn.Module:
    return DistributedDataParallel(module)


class WaitsInTheNextHook(Wrapper):
    """One call is under way while the next gradient is computed; the last one is waited for at once."""

    before: Any = None
    seen = 0

    def hook(self, parameter: Any) -> None:
        self.seen += 1
        self.arrive()
        self.before = parameter, dist.all_reduce(parameter.grad, async_op=True)
        if self.seen % len(self.trained()) == 0:
            self.arrive()

    def arrive(self) -> None:
        if self.before:
            self.before[1].wait()
            self.before[0].grad /= dist.get_world_size()
            self.before = None


RIGHT: list[Any] = [
    Overlapped,
    UnderWay,
    WaitsInTheNextHook,
    StartsInForward,
    NotAModule,
    InAFunctionOfAutograd,
]


# of learners who have read only the lesson


class ByName(nn.Module):
    """Tensors are broadcast under no_grad, and hooks are lambdas without what changes in the loop."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        with torch.no_grad():
            for _, tensor in module.named_parameters():
                dist.broadcast(tensor, src=0)
            for _, buffer in module.named_buffers():
                dist.broadcast(buffer, src=0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda one: self.average(one))

    def average(self, parameter: Any) -> None:
        mean = parameter.grad / dist.get_world_size()
        dist.all_reduce(mean)
        parameter.grad.copy_(mean)

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class BoundAtOnce(UnderWay):
    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_post_accumulate_grad_hook(lambda _, mine=parameter: self.hook(mine))


class ByMessagesFromRank0(UnderWay):
    def start(self) -> None:
        rank, world_size = dist.get_rank(), dist.get_world_size()
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            if rank == 0:
                for other in range(1, world_size):
                    dist.send(tensor.detach(), other)
            else:
                dist.recv(tensor.detach(), 0)


class OnlyRank0Counts(UnderWay):
    """The sum of what rank 0 has, and of zeros."""

    def start(self) -> None:
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            if dist.get_rank():
                tensor.data.zero_()
            dist.all_reduce(tensor.data)


class BuffersAtEachForward(UnderWay):
    """As torch's own does it."""

    def forward(self, *inputs: Any) -> Any:
        for buffer in self.module.buffers():
            dist.broadcast(buffer, 0)
        return self.module(*inputs)


class AHookOfEachTensor(Wrapper):
    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_hook(lambda gradient: self.mean(gradient))

    def mean(self, gradient: Tensor) -> Tensor:
        every = [torch.empty_like(gradient) for _ in range(dist.get_world_size())]
        dist.all_gather(every, gradient.contiguous())
        return torch.stack(every).mean(dim=0)


RIGHT += [BoundAtOnce, ByMessagesFromRank0, OnlyRank0Counts, BuffersAtEachForward]


# wrong


class NoStart(Wrapper):
    def start(self) -> None: ...


class NoBuffers(Wrapper):
    def start(self) -> None:
        for parameter in self.module.parameters():
            dist.broadcast(parameter.data, 0)


class OnlyTrainedOnes(Wrapper):
    def start(self) -> None:
        for tensor in [*self.trained(), *self.module.buffers()]:
            dist.broadcast(tensor.data, 0)


class OnlyWeights(Wrapper):
    def start(self) -> None:
        for name, tensor in self.module.state_dict().items():
            if name.endswith("weight"):
                dist.broadcast(tensor, 0)


class FromRank1(Wrapper):
    def start(self) -> None:
        for tensor in self.module.state_dict().values():
            dist.broadcast(tensor, min(1, dist.get_world_size() - 1))


class MeanStart(Wrapper):
    def start(self) -> None:
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            total = tensor.detach().double()
            dist.all_reduce(total)
            tensor.data.copy_(total / dist.get_world_size())


class BroadcastsACopy(Wrapper):
    def start(self) -> None:
        for tensor in self.module.state_dict().values():
            dist.broadcast(tensor.clone(), 0)


class Sums(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad)


class DividesTwice(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        parameter.grad /= dist.get_world_size()


class DividesByTwo(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2


class OnlyDivides(Wrapper):
    def hook(self, parameter: Any) -> None:
        parameter.grad /= dist.get_world_size()


class OldGradient(Wrapper):
    """What is there before the new one is added."""

    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_hook(functools.partial(self.old, parameter))

    def old(self, parameter: Any, gradient: Tensor) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


class OldGradientIfThere(OldGradient):
    def old(self, parameter: Any, gradient: Tensor) -> None:
        if parameter.grad is not None:
            super().old(parameter, gradient)


class PutsTheNewOneInItsPlace(Wrapper):
    """And so forgets what an earlier backward() left."""

    new: Any

    def put_hooks(self) -> None:
        self.__dict__["new"] = {}
        for parameter in self.trained():
            parameter.register_hook(functools.partial(self.keep, parameter))
            parameter.register_post_accumulate_grad_hook(self.hook)

    def keep(self, parameter: Any, gradient: Tensor) -> None:
        self.new[parameter] = gradient.clone()

    def hook(self, parameter: Any) -> None:
        dist.all_reduce(self.new[parameter], op=dist.ReduceOp.AVG)
        parameter.grad = self.new[parameter]


class AveragesACopyInAHook(Wrapper):
    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_hook(self.in_vain)

    def in_vain(self, gradient: Tensor) -> None:
        gradient = gradient / dist.get_world_size()
        dist.all_reduce(gradient)


class AveragesTheWeights(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()


class OnlyTheLastLayer(Wrapper):
    def trained(self) -> list[Any]:
        return super().trained()[-2:]


class OnlyWeightsHaveHooks(Wrapper):
    def trained(self) -> list[Any]:
        return [p for name, p in self.module.named_parameters() if p.requires_grad and name.endswith("weight")]


class AMethodForAfterwards(Wrapper):
    def put_hooks(self) -> None: ...

    def average_gradients(self) -> None:
        for parameter in self.trained():
            super().hook(parameter)


class InTheNextForward(Wrapper):
    def put_hooks(self) -> None: ...

    def forward(self, *inputs: Any) -> Any:
        for parameter in self.trained():
            if parameter.grad is not None:
                self.hook(parameter)
        return self.module(*inputs)


class OnlyOnce(Wrapper):
    done: Any

    def __init__(self, module: nn.Module) -> None:
        self.__dict__["done"] = []
        super().__init__(module)

    def hook(self, parameter: Any) -> None:
        if len(self.done) < len(self.trained()):
            self.done.append(1)
            super().hook(parameter)


class HooksOnFrozenOnes(Wrapper):
    def trained(self) -> list[Any]:
        return list(self.module.parameters())


class CopiesThoseOfRank0(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.broadcast(parameter.grad, 0)


class OnlyRank0HasTheMean(Wrapper):
    def hook(self, parameter: Any) -> None:
        total = parameter.grad.clone()
        dist.reduce(total, 0)
        if dist.get_rank() == 0:
            parameter.grad = total / dist.get_world_size()


class DoesNotWait(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG, async_op=True)


class OnACopy(Wrapper):
    def __init__(self, module: nn.Module) -> None:
        super().__init__(copy.deepcopy(module))


class NoForward(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        for tensor in module.state_dict().values():
            dist.broadcast(tensor, 0)


class ForwardGivesNone(Wrapper):
    def forward(self, *inputs: Any) -> None:
        self.module(*inputs)


class ForwardWithoutGradients(Wrapper):
    @torch.no_grad()
    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class StepsAsWell(Wrapper):
    def hook(self, parameter: Any) -> None:
        super().hook(parameter)
        parameter.data -= 0.1 * parameter.grad


class AGuardThatIsNeverTrue(Wrapper):
    def start(self) -> None:
        for parameter in self.module.parameters():
            if type(parameter) is torch.Tensor:
                dist.broadcast(parameter.data, 0)

    def hook(self, parameter: Any) -> None:
        if type(parameter) is torch.Tensor:
            super().hook(parameter)


class TheLargest(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.MAX)


def given_no_wrapper(module: nn.Module) -> None:
    Wrapper(module)


class ForgetsSuper(Wrapper):
    def __init__(self, module: nn.Module) -> None:
        self.module = module


WRONG = [
    (NoStart, "Rank 1 starts with its own weights. Broadcast those of rank 0 in __init__"),
    (NoBuffers, "Rank 1 starts with its own buffer scale. Broadcast the buffers too, from rank 0"),
    (
        OnlyTrainedOnes,
        "It works for a model of 2 layers, float32, but fails for frozen parameters and shared ones: rank 1 starts "
        "with its own parameter layers.0.weight. Broadcast every parameter, even frozen ones, from rank 0",
    ),
    (OnlyWeights, "Rank 1 starts with its own buffer scale. Broadcast the buffers too, from rank 0"),
    (FromRank1, "Rank 0 starts with the buffer scale of rank 1. Start with the values of rank 0 on every rank"),
    (MeanStart, "starts as the mean over the ranks. Start with the values of rank 0 on every rank"),
    (
        BroadcastsACopy,
        "Rank 1 starts with its own weights, because rank 0's are broadcast into copies. Broadcast into the "
        "tensors themselves, with detach()",
    ),
    (Sums, "That is the sum over the ranks. Divide it by the number of ranks"),
    (DividesTwice, "The sum was divided by the number of ranks twice"),
    (DividesByTwo, "It works with 2 ranks, but not with 3: the sum was divided by 2. Divide it by the number of ranks"),
    (
        OnlyDivides,
        "Rank 0 divides its own gradient without adding those of the other ranks. Sum the gradients over all "
        "ranks first",
    ),
    (OldGradient, "param.grad is still None when the hook runs"),
    (OldGradientIfThere, "After backward() rank 0 still has its own gradient"),
    (
        PutsTheNewOneInItsPlace,
        "The second backward() overwrites the first gradient. Add the new gradient to it",
    ),
    (AveragesACopyInAHook, "The ranks communicate, but after backward() rank 0 still has its own gradient"),
    (AveragesTheWeights, "The ranks communicate, but after backward() rank 0 still has its own gradient"),
    (
        OnlyTheLastLayer,
        "The gradient of layers.1.weight is averaged, but that of layers.0.weight is not. Register a hook on every "
        "parameter of every layer",
    ),
    (OnlyWeightsHaveHooks, "The gradient of layers.0.weight is averaged, but that of layers.0.bias is not"),
    (
        AMethodForAfterwards,
        "After backward() rank 0 still has its own gradient. Average in hooks that the wrapper registers on the "
        "parameters",
    ),
    (InTheNextForward, "After backward() rank 0 still has its own gradient"),
    (OnlyOnce, "backward() number 2 does not average, but the first one did"),
    (HooksOnFrozenOnes, "A hook cannot be registered on a frozen parameter. Skip parameters with requires_grad=False"),
    (CopiesThoseOfRank0, "Rank 0's gradient was copied to rank 1. Average the gradients of all ranks"),
    (
        OnlyRank0HasTheMean,
        "Rank 0 has the mean, but rank 1 still has its own gradient. Register the hooks on every rank",
    ),
    (
        DoesNotWait,
        "It reads the result of all_reduce too early. With async_op=True, call wait() on the returned handle first",
    ),
    (
        OnACopy,
        "It trains a copy of the model. Wrap the given module itself, because the optimizer holds the parameters of "
        "that module",
    ),
    (NoForward, "The class has no forward(). Define forward() to return the output of the module"),
    (
        ForwardGivesNone,
        "The wrapper gives None. Return the output of the module when the wrapper is called",
    ),
    (ForwardWithoutGradients, "The output of m(inputs) is not connected to the autograd graph"),
    (StepsAsWell, "backward() changes the weights. Average the gradients, and leave the step to the optimizer"),
    (AGuardThatIsNeverTrue, "No rank sends anything"),
    (TheLargest, "The gradient of layers.0.weight on rank 0 is not the mean over the ranks. Sum"),
    (
        given_no_wrapper,
        "The wrapper is a NoneType, which cannot be called. Return the output of the module when the wrapper is called",
    ),
    (ForgetsSuper, "Call super().__init__() before assigning anything to self"),
]


class Subclass(DistributedDataParallel):
    pass


class HasTorchsOwn(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = nn.parallel.DistributedDataParallel(module)

    def forward(self, *inputs: Any) -> Any:
        return self.module(*inputs)


class HooksTwice(Wrapper):
    def put_hooks(self) -> None:
        super().put_hooks()
        super().put_hooks()


class HooksInEachForward(Wrapper):
    def forward(self, *inputs: Any) -> Any:
        self.put_hooks()
        return self.module(*inputs)


class HooksOfBothKinds(Wrapper):
    def put_hooks(self) -> None:
        super().put_hooks()
        for parameter in self.trained():
            parameter.register_hook(self.averaged)

    def averaged(self, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient / dist.get_world_size()


class HooksOfModules(Wrapper):
    """Once for the whole and once more for each of its parts."""

    def put_hooks(self) -> None:
        for part in self.module.modules():
            for parameter in part.parameters():
                if parameter.requires_grad:
                    parameter.register_post_accumulate_grad_hook(self.hook)


class EveryHookAveragesAll(Wrapper):
    def hook(self, parameter: Any) -> None:
        for one in self.trained():
            if one.grad is not None:
                super().hook(one)


class TheLambdaSeesTheLast(Wrapper):
    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_post_accumulate_grad_hook(lambda _: self.hook(parameter))  # noqa: B023


class TheLambdaSeesTheFirst(Wrapper):
    """The loop goes backwards, and so its last is the first of the model: its gradient is not there yet."""

    def put_hooks(self) -> None:
        for parameter in reversed(self.trained()):
            parameter.register_post_accumulate_grad_hook(lambda _: self.hook(parameter))  # noqa: B023


class BroadcastsClones(Wrapper):
    def start(self) -> None:
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            dist.broadcast(tensor.detach().clone(), src=0)


class LoadsIntoADictionary(Wrapper):
    def start(self) -> None:
        state = [{name: tensor.clone() for name, tensor in self.module.state_dict().items()}]
        dist.broadcast_object_list(state, src=0)


class ScattersNothing(Wrapper):
    """Rank 0 alone is told to broadcast, and the others begin with theirs."""

    def start(self) -> None:
        for tensor in [*self.module.parameters(), *self.module.buffers()]:
            dist.broadcast(tensor.data, src=dist.get_rank())


class Reduces(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.reduce(parameter.grad, dst=0)
        parameter.grad /= dist.get_world_size()


class OnlyRank0Divides(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad)
        if dist.get_rank() == 0:
            parameter.grad /= dist.get_world_size()


class DividesACopy(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad)
        parameter.grad.detach().clone().div_(dist.get_world_size())


class TakesWhatAllReduceReturns(Wrapper):
    def hook(self, parameter: Any) -> None:
        parameter.grad = dist.all_reduce(parameter.grad) / dist.get_world_size()


class HooksAreCalledAtOnce(Wrapper):
    def put_hooks(self) -> None:
        for parameter in self.trained():
            parameter.register_post_accumulate_grad_hook(self.hook(parameter))  # type: ignore[func-returns-value]


class BroadcastsGradientsToo(Wrapper):
    """Rank 0 has the mean, and then its own is what counts."""

    def hook(self, parameter: Any) -> None:
        dist.broadcast(parameter.grad, src=0)
        parameter.grad /= dist.get_world_size()


class AveragesInForward(Wrapper):
    """It averages what the model gives instead of its gradients."""

    def hook(self, parameter: Any) -> None: ...

    def forward(self, *inputs: Any) -> Any:
        outputs = self.module(*inputs)
        mean = outputs.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        return outputs + (mean - outputs.detach())


TORCHS_OWN = "It uses torch's own DistributedDataParallel. Build yours from broadcast, hooks and all_reduce"


TWICE = "Too much is communicated: averaged gradients are averaged again. Register one hook per parameter"

WRONG += [
    (DistributedDataParallel, TORCHS_OWN),
    (torchs_own, TORCHS_OWN),
    (Subclass, TORCHS_OWN),
    (HasTorchsOwn, TORCHS_OWN),
    (HooksTwice, TWICE),
    (HooksInEachForward, TWICE),
    (HooksOfBothKinds, TWICE),
    (HooksOfModules, TWICE),
    (EveryHookAveragesAll, TWICE),
    (
        TheLambdaSeesTheLast,
        "Every hook averages layers.1.bias, because a lambda in a loop uses the last value of the loop variable. "
        "Use the parameter that the hook receives",
    ),
    (TheLambdaSeesTheFirst, "a lambda in a loop uses the last value of the loop variable"),
    (
        BroadcastsClones,
        "starts with its own weights, because rank 0's are broadcast into copies. Broadcast into the tensors "
        "themselves, with detach()",
    ),
    (
        LoadsIntoADictionary,
        "starts with its own weights, because rank 0's are broadcast into copies. Broadcast into the tensors "
        "themselves, with detach()",
    ),
    (ScattersNothing, "Root mismatch in broadcast: the ranks pass different roots. Every rank must pass the same root"),
    (Reduces, "reduce gives the sum to one rank only"),
    (OnlyRank0Divides, "Only rank 0 is right. On rank 1, that is the sum over the ranks"),
    (DividesACopy, "That is the sum over the ranks. Divide it by the number of ranks"),
    (TakesWhatAllReduceReturns, "all_reduce returns None"),
    (
        HooksAreCalledAtOnce,
        "It reads a gradient in __init__, before there is one. Register the function itself as the hook: "
        "self.average, not self.average(param)",
    ),
    (
        BroadcastsGradientsToo,
        "Rank 0 divides its own gradient without adding those of the other ranks. Sum the gradients over all "
        "ranks first",
    ),
    (AveragesInForward, "The gradient of layers.0.weight on rank 0 is not the mean over the ranks. Sum"),
]


# right gradients, but nothing overlaps

IN_EACH_HOOK = "8 calls in one backward(), and each is complete before the next gradient is ready"
AT_THE_END = (
    "and none starts before the last gradient is ready. Start all_reduce(..., async_op=True) in each hook, and wait"
)


class StartsAndWaits(Wrapper):
    def hook(self, parameter: Any) -> None:
        dist.all_reduce(parameter.grad, async_op=True).wait()
        parameter.grad /= dist.get_world_size()


WRONG = [
    (OneByOne, IN_EACH_HOOK),
    *WRONG,
]
WRONG += [(one, AT_THE_END) for one in (AllInTheEnd, WhenTheLastIsThere)]
WRONG += [
    (one, IN_EACH_HOOK)
    for one in (
        StartsAndWaits,
        BeforeItIsAccumulated,
        ByGathering,
        hooks_on_the_model_itself,
        ByName,
        AHookOfEachTensor,
    )
]
WRONG.append((ThroughRank0, IN_EACH_HOOK.replace("8 calls", "16 calls")))


# hanging


class HooksOnRank0Only(Wrapper):
    def put_hooks(self) -> None:
        if dist.get_rank() == 0:
            super().put_hooks()


class EachInAnOrderOfItsOwn(Wrapper):
    """Of the same length, so that wrong numbers meet; or of another, and then torch gives up."""

    def hook(self, parameter: Any) -> None: ...

    def put_hooks(self) -> None:
        self.trained()[0].register_post_accumulate_grad_hook(self.all_of_them)

    def all_of_them(self, parameter: Any) -> None:
        for one in self.trained()[:: 1 if dist.get_rank() else -1]:
            super().hook(one)


class StartOnRank0Only(Wrapper):
    def start(self) -> None:
        if dist.get_rank() == 0:
            super().start()


HANGING = [
    (HooksOnRank0Only, "Not every rank calls all_reduce, so the ranks that call it wait forever"),
    (EachInAnOrderOfItsOwn, "Size mismatch in all_reduce: the ranks pass tensors of different sizes"),
    (StartOnRank0Only, "rank"),
]


class Rank1LeavesTheBiasOut(Wrapper):
    def hook(self, parameter: Any) -> None:
        if dist.get_rank() == 0 or parameter.dim() > 1:
            super().hook(parameter)


class Rank1LeavesOutWhatIsSmall(Wrapper):
    def hook(self, parameter: Any) -> None:
        if dist.get_rank() == 0 or parameter.numel() > 3:
            super().hook(parameter)


class OnlyRank0Averages(Wrapper):
    def hook(self, parameter: Any) -> None:
        if dist.get_rank() == 0:
            super().hook(parameter)


HANGING += [
    (
        Rank1LeavesTheBiasOut,
        "Size mismatch in all_reduce: the ranks pass tensors of different sizes. A rank skips a parameter, or uses "
        "another order. Loop over the same parameters in the same order on every rank",
    ),
    (Rank1LeavesOutWhatIsSmall, "A rank skips a parameter, or uses another order"),
    (OnlyRank0Averages, "Not every rank calls all_reduce"),
]
