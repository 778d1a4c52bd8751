"""Mistakes around DistributedDataParallel, whose collectives nobody sees in the program."""

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ..declared import all_but_rank_0, last, mistake, only


class TwoHeads(nn.Module):
    """A second head is only asked for when there is something for it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.digit, self.sign = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, pictures: Tensor, has_sign: bool) -> Tensor:
        seen = self.body(pictures).relu()
        loss: Tensor = self.digit(seen).sum()
        return loss + self.sign(seen).sum() if has_sign else loss


@mistake(8, "raised", only(0), ["model("], "find_unused_parameters", ends="failed", alone="error")
def ddp_unused_parameter(rank: int, world_size: int) -> None:
    """Nothing on rank 0 needs the second head, so that it has no gradient there."""
    model = DistributedDataParallel(TwoHeads())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4), has_sign=rank > 0)
        loss.backward()
        optimizer.step()


@mistake(8, "uneven-batches", only(1), ["model("], "returned", "model.join()")
def ddp_fewer_forwards(rank: int, world_size: int) -> int:
    """A batch with a number that is none is left out, by the rank that has it."""
    batches = [torch.ones(2, 4) for _ in range(3)]
    if rank == 1:
        batches[1][0, 0] = float("nan")
    model = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for batch in batches:
        if batch.isnan().any():
            continue
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        steps += 1
    return steps


@mistake(8, "raised", last, ["DistributedDataParallel("], "sizes", "same model", ends="failed", alone="error")
def ddp_shapes_differ(rank: int, world_size: int) -> None:
    """As many outputs as there are kinds of digits. The last rank has seen fewer kinds."""
    digits = torch.tensor([0, 1, 2, 3]) if rank < world_size - 1 else torch.tensor([0, 1, 2, 2])
    model = DistributedDataParallel(nn.Linear(4, len(digits.unique())))
    nn.functional.cross_entropy(model(torch.ones(4, 4)), digits).backward()


@mistake(8, "uneven-batches", all_but_rank_0, ["model("], "returned", "model.join()")
def ddp_uneven_inputs(rank: int, world_size: int) -> int:
    """Rank 0 has a batch more than the others."""
    samples = torch.ones(2 * world_size + 1, 4)[rank::world_size]
    model = DistributedDataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in samples.split(1):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
    return len(samples)


@mistake(8, "ddp-left-alone", all_but_rank_0, ["model(torch"], "returned", "model.module")
def ddp_model_on_rank_0_only(rank: int, world_size: int) -> float:
    """Rank 0 validates, with the wrapped model: its forward brings rank 0's buffers to all, who do not come."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    for batch in torch.ones(2, 8, 4):
        model(batch).sum().backward()
    if rank > 0:
        return 0.0
    model.eval()
    with torch.no_grad():
        score: Tensor = model(torch.ones(8, 4)).mean()
    return score.item()
