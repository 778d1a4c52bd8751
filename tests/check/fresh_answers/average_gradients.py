import time

import torch
import torch.distributed as dist
from torch import nn

RIGHT, WRONG = [], []


def right(answer, what):
    RIGHT.append((answer, what))


def wrong(answer, what, words):
    WRONG.append((answer, what, words))


def average_one_by_one(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
right(average_one_by_one, "the pattern")


def average_by_op_avg(model):
    for _, p in model.named_parameters():
        if p.grad is None:
            continue
        dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)
right(average_by_op_avg, "ReduceOp.AVG")


def average_divides_first(model):
    n = dist.get_world_size()
    for g in [p.grad for p in model.parameters() if p.grad is not None]:
        g.div_(n)
        dist.all_reduce(g)
right(average_divides_first, "divides first, as DDP does")


def average_in_a_bucket(model):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    if not grads:
        return
    bucket = torch.cat([g.reshape(-1) for g in grads])
    dist.all_reduce(bucket)
    bucket /= dist.get_world_size()
    start = 0
    for g in grads:
        g.copy_(bucket[start : start + g.numel()].view_as(g))
        start += g.numel()
right(average_in_a_bucket, "one bucket, positions counted by hand")


def average_all_in_background(model):
    works = [(p, dist.all_reduce(p.grad, async_op=True)) for p in model.parameters() if p.grad is not None]
    for p, work in works:
        work.wait()
        p.grad.mul_(1 / dist.get_world_size())
right(average_all_in_background, "async, then wait and multiply by 1/N")


def average_by_gathering(model):
    for p in filter(lambda p: p.grad is not None, model.parameters()):
        room = [torch.empty_like(p.grad) for _ in range(dist.get_world_size())]
        dist.all_gather(room, p.grad)
        p.grad.copy_(torch.stack(room).mean(dim=0))
right(average_by_gathering, "all_gather and the mean of the stack")


def average_reduce_then_broadcast(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.reduce(p.grad, dst=0)
            if dist.get_rank() == 0:
                p.grad /= dist.get_world_size()
            dist.broadcast(p.grad, src=0)
right(average_reduce_then_broadcast, "rank 0 divides and hands out")


def mean_over_ranks(t):
    dist.all_reduce(t)
    return t.div_(dist.get_world_size())


def average_backwards_in_a_comprehension(model):
    [mean_over_ranks(p.grad) for p in reversed(list(model.parameters())) if p.grad is not None]
right(average_backwards_in_a_comprehension, "from the last layer, in a comprehension")


def gradients_added_up(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
wrong(gradients_added_up, "sum, no division", "sum, mean, divide, world size")


def gradients_behind_the_type_guard(model):
    for p in model.parameters():
        if type(p) is torch.Tensor:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
wrong(gradients_behind_the_type_guard, "nothing is ever averaged", "type, Parameter, nothing averaged, no call")


def gradients_without_asking_for_none(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
wrong(gradients_without_asking_for_none, "a gradient that is None raises", "None")


def gradients_none_becomes_zero(model):
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
wrong(gradients_none_becomes_zero, "a parameter without a gradient gets one", "None, stays, zeros")


def gradients_of_two_ranks(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= 2
wrong(gradients_of_two_ranks, "divides by 2", "world size")


def gradients_left_weights_averaged(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.data)
            p.data /= dist.get_world_size()
wrong(gradients_left_weights_averaged, "averages the weights", "weights, grad, parameter.grad")


def gradients_divided_under_another_name(model):
    for p in model.parameters():
        if p.grad is not None:
            grad = p.grad
            dist.all_reduce(grad)
            grad = grad / dist.get_world_size()
wrong(gradients_divided_under_another_name, "the quotient is a new tensor, the gradient stays the sum", "in place, new tensor, sum")


def gradients_of_a_clone(model):
    for p in model.parameters():
        if p.grad is not None:
            g = p.grad.clone()
            dist.all_reduce(g)
            g /= dist.get_world_size()
wrong(gradients_of_a_clone, "the mean is in a clone", "in place, clone, unchanged")


def gradients_on_rank_0_only(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.reduce(p.grad, dst=0)
            p.grad /= dist.get_world_size()
wrong(gradients_on_rank_0_only, "reduce gives the sum to rank 0 only", "reduce, only rank 0, all_reduce")


def gradients_of_rank_0_for_all(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.broadcast(p.grad, src=0)
wrong(gradients_of_rank_0_for_all, "everyone gets rank 0's", "rank 0, broadcast, mean")


def gradients_not_waited_for(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, async_op=True)
            p.grad /= dist.get_world_size()
wrong(gradients_not_waited_for, "divides while it is under way", "wait, async")


def gradients_divided_twice(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, dist.ReduceOp.AVG)
            p.grad /= dist.get_world_size()
wrong(gradients_divided_twice, "AVG, and divided once more", "twice, AVG, too small")


def gradients_of_matrices_only(model):
    for p in model.parameters():
        if p.grad is not None and p.dim() > 1:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
wrong(gradients_of_matrices_only, "forgets the biases", "bias, every parameter")


def gradients_of_one_weight(model):
    dist.all_reduce(model.weight.grad)
    model.weight.grad /= dist.get_world_size()
wrong(gradients_of_one_weight, "only a model with one weight", "every parameter, model.parameters()")


def gradients_largest(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, dist.ReduceOp.MAX)
wrong(gradients_largest, "MAX instead of the mean", "MAX, mean")


def gradients_skipped_where_zero(model):
    for p in model.parameters():
        if p.grad is not None and p.grad.abs().sum() > 0:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
wrong(gradients_skipped_where_zero, "a rank whose gradient is zero does not come", "zero, does not come, fewer calls")


def gradients_into_one_number(model):
    for p in model.parameters():
        if p.grad is not None:
            mean = p.grad.mean()
            dist.all_reduce(mean)
            p.grad.fill_(mean / dist.get_world_size())
wrong(gradients_into_one_number, "the mean over elements as well as ranks", "each element, mean over ranks")


def gradients_added_by_rank_0_alone(model):
    if dist.get_rank() == 0:
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
wrong(gradients_added_by_rank_0_alone, "a collective under if rank == 0", "every rank, rank 0, waits")


def gradients_divided_on_rank_0(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            if dist.get_rank() == 0:
                p.grad /= dist.get_world_size()
wrong(gradients_divided_on_rank_0, "only rank 0 divides", "every rank, sum, divide")
