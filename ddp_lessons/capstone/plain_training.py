"""Train a small network that labels each token of a sequence. One process: python plain_training.py --epochs 3"""

import argparse
import json
import os
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

TRAIN, TEST, LONGEST, TOKENS, TAGS = 605, 301, 24, 20, 8
BATCH, MICRO_BATCH = 48, 16  # sequences per optimizer step, and per backward pass
PADDING = -100  # in tags: no token here


def make_data(number: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sequences of 4 to 24 tokens, padded with 0; the tag depends on the token and the one before it."""
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
        outputs: Tensor = self.layers(self.embedding(tokens).transpose(1, 2))  # [sequences, TAGS, LONGEST]
        return outputs


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, schedule: LambdaLR, epoch: int) -> float:
    """Return the mean loss per token."""
    tokens, tags = make_data(TRAIN, seed=1)
    order = torch.randperm(TRAIN, generator=torch.Generator().manual_seed(epoch))
    total = 0.0
    for batch in order.split(BATCH):  # the last one is smaller
        token_count = (tags[batch] != PADDING).sum()  # tokens in the batch
        for part in batch.split(MICRO_BATCH):
            loss = nn.functional.cross_entropy(model(tokens[part]), tags[part], reduction="sum") / token_count
            loss.backward()
            total += loss.item() * token_count.item()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.2)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return total / (tags != PADDING).sum().item()


@torch.no_grad()
def evaluate(model: nn.Module) -> dict[str, float]:
    """Return the mean loss per token, the tokens that are right, and the sequences that were counted."""
    tokens, tags = make_data(TEST, seed=2)
    loss = correct = tested = 0.0
    for part in torch.arange(TEST).split(100):
        outputs = model(tokens[part])
        loss += nn.functional.cross_entropy(outputs, tags[part], reduction="sum").item()
        correct += (outputs.argmax(dim=1) == tags[part]).sum().item()
        tested += len(part)
    return {"test_loss": loss / (tags != PADDING).sum().item(), "correct": correct, "tested": tested}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint", help="written after each epoch; if the file exists, training resumes from it")
    parser.add_argument("--out", help="the results, as JSON")
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    steps = args.epochs * -(-TRAIN // BATCH)
    schedule = LambdaLR(optimizer, lambda step: min((step + 1) / 5, 1 - step / (steps + 1)))
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "schedule": schedule}
    first_epoch, result = 0, {}
    if args.checkpoint and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint, weights_only=True)
        first_epoch = saved["epoch"]
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    for epoch in range(first_epoch, args.epochs):
        result = {"train_loss": train_epoch(model, optimizer, schedule, epoch), **evaluate(model)}
        print(f"epoch {epoch + 1}: {result}", flush=True)
        if args.checkpoint:
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save({"epoch": epoch + 1, **states}, f"{args.checkpoint}.new")
            os.replace(f"{args.checkpoint}.new", args.checkpoint)  # a kill leaves the old file or the new one
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            json.dump(result, file)


if __name__ == "__main__":
    main()
