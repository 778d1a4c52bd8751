import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


import functools


class PlainDDP(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average)

    def average(self, parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()

    def forward(self, *inputs):
        return self.module(*inputs)
wrong(PlainDDP, "the seven lines, but nothing overlaps", "async_op, overlap")


class WithAvgAndNoGrad(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        with torch.no_grad():
            for p in module.parameters():
                dist.broadcast(p, 0)
                if not p.requires_grad:
                    continue
                p.register_post_accumulate_grad_hook(lambda q: self.average(q))
            for b in module.buffers():
                dist.broadcast(b, 0)

    def average(self, parameter):
        dist.all_reduce(parameter.grad, dist.ReduceOp.AVG)
wrong(WithAvgAndNoGrad, "no_grad, a lambda that uses its own argument, AVG, but nothing overlaps", "async_op, overlap")


class DividesFirst(PlainDDP):
    def average(self, parameter):
        parameter.grad.div_(dist.get_world_size())
        dist.all_reduce(parameter.grad)
wrong(DividesFirst, "divides before it adds up, but nothing overlaps", "async_op, overlap")


class HandlesAtTheEnd(PlainDDP):
    def __init__(self, module):
        self.__dict__["open"] = []
        super().__init__(module)

    def average(self, parameter):
        if not self.open:
            torch.autograd.Variable._execution_engine.queue_callback(self.wait)
        self.open.append((parameter, dist.all_reduce(parameter.grad, async_op=True)))

    def wait(self):
        while self.open:
            parameter, handle = self.open.pop(0)
            handle.wait()
            parameter.grad /= dist.get_world_size()
right(HandlesAtTheEnd, "async, waits at the end of backward, like Overlapped")


class ObjectsAtTheStart(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        tensors = [t.data for t in (*module.parameters(), *module.buffers())]
        box = [[t.clone() for t in tensors]] if dist.get_rank() == 0 else [None]
        dist.broadcast_object_list(box, src=0)
        for mine, rank_0s in zip(tensors, box[0]):
            mine.copy_(rank_0s)
        for p in filter(lambda p: p.requires_grad, module.parameters()):
            p.register_post_accumulate_grad_hook(functools.partial(type(self).average, self))
wrong(ObjectsAtTheStart, "start weights as objects (slow), hook by partial, but nothing overlaps", "async_op, overlap")


class GathersTheGradients(PlainDDP):
    def average(self, parameter):
        room = [torch.empty_like(parameter.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(room, parameter.grad)
        parameter.grad.copy_(sum(room) / len(room))
wrong(GathersTheGradients, "all_gather and a mean, but nothing overlaps", "async_op, overlap")


class ByMessagesAtTheStart(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in list(module.parameters()) + list(module.buffers()):
            t = t.detach()
            if dist.get_rank() == 0:
                for other in range(1, dist.get_world_size()):
                    dist.send(t, other)
            else:
                dist.recv(t, 0)
        self.hooks = [p.register_post_accumulate_grad_hook(self.average) for p in module.parameters() if p.requires_grad]
wrong(ByMessagesAtTheStart, "send and recv instead of broadcast, keeps the hooks' handles, but nothing overlaps", "async_op, overlap")


class HooksOnly(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average)
wrong(HooksOnly, "no broadcast: every rank keeps its own start", "rank 0, broadcast, start weights")


class ForgetsBuffers(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for p in module.parameters():
            dist.broadcast(p.detach(), src=0)
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average)
wrong(ForgetsBuffers, "buffers are not broadcast", "buffers")


class ForgetsFrozen(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for b in module.buffers():
            dist.broadcast(b, src=0)
        for p in module.parameters():
            if p.requires_grad:
                dist.broadcast(p.detach(), src=0)
                p.register_post_accumulate_grad_hook(self.average)
wrong(ForgetsFrozen, "frozen parameters are not broadcast", "frozen, requires_grad, broadcast")


class ForgetsHooks(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)
wrong(ForgetsHooks, "average is never called", "hook, average, gradients not averaged")


class HooksTheFrozen(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)
        for p in module.parameters():
            p.register_post_accumulate_grad_hook(self.average)
wrong(HooksTheFrozen, "a frozen parameter takes no hook", "frozen, requires_grad")


class Sums(PlainDDP):
    def average(self, parameter):
        dist.all_reduce(parameter.grad)
wrong(Sums, "sum, not the mean", "sum, mean, divide")


class EveryRankIsRoot(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=dist.get_rank())
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average)
wrong(EveryRankIsRoot, "each names itself as the root", "src, root, same on all ranks, rank 0")


class LambdaOfTheLast(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)
        for parameter in module.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(lambda _: self.average(parameter))
wrong(LambdaOfTheLast, "all lambdas look at the loop's last parameter", "lambda, last parameter, None, not averaged")


class BroadcastsACopy(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach().clone(), src=0)
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average)
wrong(BroadcastsACopy, "rank 0's numbers arrive in a clone", "clone, copy, start weights differ")


class CallsInsteadOfHooking(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average(p))
wrong(CallsInsteadOfHooking, "calls average in __init__ instead of giving the function", "function, called, None")


class HookTooEarly(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)
        for p in module.parameters():
            if p.requires_grad:
                p.register_hook(lambda g, p=p: self.average(p))
wrong(HookTooEarly, "register_hook comes before .grad is written: None in the first step", "register_post_accumulate_grad_hook, None, complete")


class AveragesInForward(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        self.module = module
        for t in [*module.parameters(), *module.buffers()]:
            dist.broadcast(t.detach(), src=0)

    def forward(self, *inputs):
        out = self.module(*inputs)
        for p in self.module.parameters():
            if p.grad is not None:
                self.average(p)
        return out
wrong(AveragesInForward, "averages in forward: too late by a step", "hook, backward, forward")


class DoesNotWait(PlainDDP):
    def average(self, parameter):
        dist.all_reduce(parameter.grad, async_op=True)
        parameter.grad /= dist.get_world_size()
wrong(DoesNotWait, "divides before wait", "wait, async")


class DividesByTwo(PlainDDP):
    def average(self, parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad /= 2
wrong(DividesByTwo, "world size 2", "world size, mean")


class AveragesWeights(PlainDDP):
    def average(self, parameter):
        dist.all_reduce(parameter.data)
        parameter.data /= dist.get_world_size()
wrong(AveragesWeights, "averages weights, not gradients", "grad, weights")


class QuotientLost(PlainDDP):
    def average(self, parameter):
        mean = parameter.grad.clone()
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
wrong(QuotientLost, "the mean stays in a clone", "in place, clone, parameter.grad")


class SameSeedInstead(PlainDDP):
    def __init__(self, module):
        nn.Module.__init__(self)
        torch.manual_seed(0)
        self.module = module
        for p in module.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(self.average)
wrong(SameSeedInstead, "a seed, after the weights were drawn", "broadcast, seed, start weights")


class OnlyRank0GetsIt(PlainDDP):
    def average(self, parameter):
        dist.reduce(parameter.grad, dst=0)
        parameter.grad /= dist.get_world_size()
wrong(OnlyRank0GetsIt, "reduce to rank 0", "reduce, only rank 0, all_reduce")
