"""The model solution: DistributedDataParallel, and no_sync for all but the last micro-batch."""

import argparse
import json
import os
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LambdaLR

TRAIN, TEST, LONGEST, TOKENS, TAGS = 605, 301, 24, 20, 8
BATCH, MICRO_BATCH = 48, 16  # sequences per optimizer step, over all ranks, and per backward pass
PADDING = -100


def make_data(number: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, TOKENS, (number, LONGEST), generator=generator)
    lengths = torch.randint(4, LONGEST + 1, (number, 1), generator=generator)
    tags = (tokens + tokens.roll(1, dims=1)) % TAGS
    is_padding = torch.arange(LONGEST) >= lengths
    return tokens.masked_fill(is_padding, 0), tags.masked_fill(is_padding, PADDING)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 64)
        convolutions = [nn.Conv1d(64, 256, 3, padding=1), nn.ReLU(), nn.Conv1d(256, 256, 3, padding=1), nn.ReLU()]
        self.layers = nn.Sequential(*convolutions, nn.Conv1d(256, TAGS, 1))

    def forward(self, tokens: Tensor) -> Tensor:
        outputs: Tensor = self.layers(self.embedding(tokens).transpose(1, 2))
        return outputs


def train_epoch(model: Any, optimizer: torch.optim.Optimizer, schedule: LambdaLR, epoch: int) -> float:
    rank, world_size = dist.get_rank(), dist.get_world_size()
    tokens, tags = make_data(TRAIN, seed=1)
    order = torch.randperm(TRAIN, generator=torch.Generator().manual_seed(epoch))
    total = torch.zeros((), dtype=torch.float64)
    for batch in order.split(BATCH):
        token_count = (tags[batch] != PADDING).sum()  # of all ranks: each token has the same weight
        parts = batch[rank::world_size].split(MICRO_BATCH)
        for part in parts:
            with nullcontext() if part is parts[-1] else model.no_sync():
                loss = nn.functional.cross_entropy(model(tokens[part]), tags[part], reduction="sum") / token_count
                (loss * world_size).backward()  # DDP divides by world_size
            total += loss.item() * token_count.item()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.2)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    dist.all_reduce(total)
    return total.item() / (tags != PADDING).sum().item()


@torch.no_grad()
def evaluate(model: nn.Module) -> dict[str, float]:
    tokens, tags = make_data(TEST, seed=2)
    sums = torch.zeros(3, dtype=torch.float64)
    for part in torch.arange(dist.get_rank(), TEST, dist.get_world_size()).split(100):
        outputs = model(tokens[part])
        sums[0] += nn.functional.cross_entropy(outputs, tags[part], reduction="sum").item()
        sums[1] += (outputs.argmax(dim=1) == tags[part]).sum().item()
        sums[2] += len(part)
    dist.all_reduce(sums)
    loss, correct, tested = sums.tolist()
    return {"test_loss": loss / (tags != PADDING).sum().item(), "correct": correct, "tested": tested}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint")
    parser.add_argument("--out")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = Tagger()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0, momentum=0.9)
    steps = args.epochs * -(-TRAIN // BATCH)
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / 5, 1 - step / (steps + 1)))
    parts: dict[str, Any] = {"model": net, "optimizer": optimizer, "schedule": schedule}
    first_epoch, result = 0, {}
    if args.checkpoint and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, weights_only=True)
        first_epoch = saved["epoch"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    for epoch in range(first_epoch, args.epochs):
        result = {"train_loss": train_epoch(model, optimizer, schedule, epoch), **evaluate(net)}
        if dist.get_rank() == 0:
            print(f"epoch {epoch + 1}: {result}", flush=True)
            if args.checkpoint:
                states = {name: part.state_dict() for name, part in parts.items()}
                torch.save({"epoch": epoch + 1, **states}, f"{args.checkpoint}.new")
                os.replace(f"{args.checkpoint}.new", args.checkpoint)
    if args.out and dist.get_rank() == 0:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(result, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
