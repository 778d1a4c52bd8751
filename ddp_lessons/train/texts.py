"""Sixteen texts of unequal length, a transformer that predicts their next character, and a training step for both."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

TEXTS = (
    "one rank waits",
    "every rank calls the same collectives in the same order",
    "the slow rank never waits",
    "a gradient is averaged once, after the last micro-batch of a step",
    "save on rank 0",
    "the sampler deals the samples to the ranks like a pack of cards",
    "count each sample once",
    "two ranks with the same seed drop the same neurons of a layer",
    "add up the counts",
    "equal replicas can be wrong in the same way on every rank",
    "ask the log first",
    "a larger batch takes fewer steps, so each step has to go further",
    "then divide once",
    "compare with one process before you trust the loss curve",
    "warm up slowly",
    "a mean of means is a mean only where all counts are equal",
)
CHARACTERS = sorted(set("".join(TEXTS)))
LENGTH = 64  # the longest text has 65 characters, and the first is not predicted
PADDING = -100  # cross_entropy leaves out targets with this number


def as_batch(texts: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return tokens and targets, both [texts, LENGTH]; at each position, the target is the next token."""
    tokens = torch.zeros(len(texts), LENGTH, dtype=torch.int64)
    targets = torch.full((len(texts), LENGTH), PADDING)
    for row, text in enumerate(texts):
        numbers = torch.tensor([CHARACTERS.index(character) for character in text])
        tokens[row, : len(text) - 1] = numbers[:-1]
        targets[row, : len(text) - 1] = numbers[1:]
    return tokens, targets


class TextModel(nn.Module):
    """A transformer without dropout: a character sees only those before it, so padding at the end changes nothing."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.character, self.place = nn.Embedding(len(CHARACTERS), width), nn.Embedding(LENGTH, width)
        layer = nn.TransformerEncoderLayer(width, 2, 2 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(CHARACTERS))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return outputs [texts, LENGTH, characters]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        mask = nn.Transformer.generate_square_subsequent_mask(len(places), device=tokens.device)
        hidden: Tensor = self.layers(self.character(tokens) + self.place(places), mask=mask, is_causal=True)
        outputs: Tensor = self.head(hidden)
        return outputs


def token_mean_loss(model: DistributedDataParallel, micro_batches: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Run the forward and backward passes of one optimizer step. Return the mean loss over all tokens of all ranks."""
    own = sum((targets != PADDING).sum() for _, targets in micro_batches)
    count = torch.as_tensor(own, dtype=torch.float64)
    dist.all_reduce(count)
    scale = dist.get_world_size() / count  # DDP divides by the world size
    mean = torch.zeros((), dtype=torch.float64)
    for number, (tokens, targets) in enumerate(micro_batches, start=1):
        with nullcontext() if number == len(micro_batches) else model.no_sync():
            outputs = model(tokens).flatten(0, 1)
            loss = cross_entropy(outputs, targets.flatten(), reduction="sum", ignore_index=PADDING)
            (loss * scale).backward()
        mean += loss.detach() / count
    dist.all_reduce(mean)
    return mean.item()
