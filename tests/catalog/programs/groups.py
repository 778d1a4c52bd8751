"""Mistakes around groups: making them, joining them, and calling on one from outside."""

# A learner writes no types for mypy: torch's own would want a cast around new_group and isend.
# mypy: disable-error-code="arg-type"

import torch
import torch.distributed as dist
from torch import Tensor

from ..declared import all_but_rank_0, last, mistake, only


@mistake(6, "group-mismatch", only(1), ["new_group()"], "Group mismatch in new_group")
def group_made_by_some(rank: int, world_size: int) -> tuple[float, float]:
    """The even ranks make a group of their own, which the odd ones know nothing of; then all make one of all."""
    evens = list(range(0, world_size, 2))
    total, grand_total = torch.tensor([float(rank)]), torch.tensor([float(rank)])
    if rank in evens:
        of_evens = dist.new_group(evens)
        dist.all_reduce(total, group=of_evens)
    of_all = dist.new_group()
    dist.all_reduce(grand_total, group=of_all)
    return total.item(), grand_total.item()


@mistake(6, "group-mismatch", only(0, 1), ["new_group("], "Group mismatch in new_group", ends="either", at_least=3)
def groups_in_different_order(rank: int, world_size: int) -> float:
    """The sum over the even ranks, and the sum over the odd ones. Everybody makes both groups, its own one first."""
    evens, odds = list(range(0, world_size, 2)), list(range(1, world_size, 2))
    total = torch.tensor([float(rank)])
    mine, other = (evens, odds) if rank in evens else (odds, evens)
    group = dist.new_group(mine)
    dist.new_group(other)
    dist.all_reduce(total, group=group)
    return total.item()


@mistake(6, "", last, ["all_reduce("], "does not belong to the given group", ends="warned", alone="warning")
def outside_the_group(rank: int, world_size: int) -> float:
    """The sum over all ranks but the last, which calls on the group, too."""
    group = dist.new_group(list(range(world_size - 1)))
    total = torch.tensor([float(rank)])
    dist.all_reduce(total, group=group)
    return total.item()


@mistake(7, "never-called", all_but_rank_0, ["barrier("], ends="either")
def barrier_on_rank_0(rank: int, world_size: int) -> str:
    """Rank 0 gets the data, and the others wait for it: so it was meant."""
    if rank == 0:
        print("the data is here")
        dist.barrier()
    return f"rank {rank} reads the data"


@mistake(7, "never-called", only(0), ["init_process_group("], "init_process_group", "returned", join=False)
def one_never_joins(rank: int, world_size: int) -> float:
    """Rank 0 only prints, and takes itself for a master that need not join."""
    if rank == 0:
        print("training begins")
        return 0.0
    dist.init_process_group("gloo")
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    return total.item()


@mistake(7, "no-counterpart", last, ["recv("], join=False)
def numbers_of_its_own(rank: int, world_size: int) -> float:
    """The ranks after rank 0 number themselves from the last to the first, and number 1 forgets to send."""
    number = -rank % world_size
    dist.init_process_group("gloo", rank=number, world_size=world_size)
    weight = torch.tensor([0.5])
    if number != 1:
        dist.recv(weight, 1)
    return weight.item()


@mistake(7, "world-size-too-large", only(), ["init_process_group("], "world size mismatch", "world_size", join=False)
def wrong_world_size(rank: int, world_size: int) -> Tensor:
    """There is a notebook, too, and so the ranks are taken to be one more than they are."""
    dist.init_process_group("gloo", rank=rank, world_size=world_size + 1)
    total = torch.tensor([float(rank)])
    dist.all_reduce(total)
    return total
