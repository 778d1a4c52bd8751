"""Means over ranks that have different numbers of elements, losses, samples or tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from ddp_lessons.check.exercise import Budget, Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.exercises.gradient_exercises import state_of
from ddp_lessons.train import averages, evaluation, texts
from ddp_lessons.train.digits import Digits

Rule = Callable[[Tensor, Tensor, int], Any]  # from the ranks' sums and counts, and this rank

_DIVIDE_ONCE = "Add up the sums and the counts of all ranks, then divide once."
_HINTS = {
    "nan": "Rank {rank} returns nan. Look for a division of 0 by 0.",
    "answer": f"Rank {{rank}} does not return the mean over the data of all ranks. {_DIVIDE_ONCE}",
    "given": "The mean is correct, but your function changes its argument. Work on a copy.",
}
_LIKELY: list[tuple[str, Rule]] = [
    (
        "The ranks' results are averaged with equal weights, but a rank with more elements must count more. "
        f"{_DIVIDE_ONCE}",
        lambda s, n, rank: (s / n.clamp(min=1)).mean(),
    ),
    (f"Rank {{rank}} uses only its own elements. {_DIVIDE_ONCE}", lambda s, n, rank: s[rank] / n[rank].clamp(min=1)),
    ("The result is the sum over all ranks. Divide it by the total number of elements.", lambda s, n, rank: s.sum()),
    (
        "The sum is divided by the number of ranks. Divide it by the total number of elements instead.",
        lambda s, n, rank: s.mean(),
    ),
    (
        "The sum is divided by this rank's count only. Sum the counts over all ranks.",
        lambda s, n, rank: s.sum() / n[rank].clamp(min=1),
    ),
]


def _mistakes(program: Program, things: str, *more: tuple[str, Rule]) -> list[Mistake]:
    return [Mistake(partial(program, rule=rule), text.replace("elements", things)) for text, rule in (*_LIKELY, *more)]


def _by(rule: Rule, own_sum: Any, own_count: int) -> float:
    own = torch.tensor([float(own_sum), own_count], dtype=torch.float64)
    received = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(received, own)
    sums, counts = torch.stack(received).T
    return float(rule(sums, counts, dist.get_rank()))


def _of_data(data: Any, rule: Rule) -> float:
    return _by(rule, torch.as_tensor(data).sum(), len(data))


def _number(answer: Any) -> Fields:
    number = answer.item() if isinstance(answer, Tensor) and answer.numel() == 1 else answer
    return {"nan": str(number) == "nan", "answer": number}


def _mean(program: Program, data: Any) -> Fields:
    return {**_number(program(data)), "given": data}


def _elements(rank: int, _: int, chance: Any, lengths: Sequence[int] = (3, 5, 1), dtype: Any = torch.float32) -> Any:
    numbers = torch.rand(lengths[rank % len(lengths)], generator=chance) + 3 * (rank + 1)
    return (numbers.tolist() if dtype is list else numbers.to(dtype),)


_losses = partial(_elements, dtype=list)

global_mean = Exercise(
    """Check `function(tensor)`: every rank returns the mean over all elements of all ranks.

    The tensors are one-dimensional, float32 or float64, with at least one element; their lengths differ between ranks.
    Return a float or a tensor with one element, and leave the given tensor unchanged. You may use collectives and
    messages, but not send the data itself, because a sum and a count per rank are enough. With only one rank, return
    the mean of its tensor.
    """,
    solution=averages.global_mean,
    call=_mean,
    tolerance=1e-4,
    trials=[
        Trial(_elements),
        Trial(partial(_elements, lengths=(2, 1, 4, 3)), "other lengths"),
        Trial(partial(_elements, dtype=torch.float64), "another dtype (float64)"),
        Trial(partial(_elements, lengths=(5000, 1200)), "long tensors"),
    ],
    budget=Budget(most=lambda case: 4096, least=0.25, too_much="A sum and a count per rank are enough."),
    hints=_HINTS,
    mistakes=_mistakes(
        _of_data,
        "elements",
        (
            "The sum is divided by this rank's count times world_size. Sum the counts instead.",
            lambda s, n, rank: s.mean() / n[rank],
        ),
        (
            "The sum is divided by the largest count times world_size. Sum the counts instead.",
            lambda s, n, rank: s.mean() / n.max(),
        ),
        ("Each rank's sum is truncated to an integer. Keep it a float.", lambda s, n, rank: s.floor().sum() / n.sum()),
    ),
)

mean_loss = Exercise(
    """Check `function(losses)`: every rank returns the mean over the losses of all ranks.

    `losses` is a list of floats whose length differs between ranks; some lists are empty, but never all. Return a float
    or a tensor with one element, and leave the given list unchanged. You may use collectives and messages. With only
    one rank, return the mean of its list.
    """,
    solution=averages.mean_loss,
    call=_mean,
    tolerance=1e-4,
    trials=[
        Trial(partial(_losses, lengths=(3, 1, 4))),
        Trial(partial(_losses, lengths=(1, 2, 7)), "other lengths"),
        Trial(partial(_losses, lengths=(2, 0, 5)), "lists that are empty on some ranks"),
        Trial(partial(_losses, lengths=(0, 4, 0, 0)), "lists that are empty on all ranks but one", smallest_world=2),
    ],
    budget=Budget(least=0.25),
    hints=_HINTS,
    mistakes=_mistakes(
        _of_data,
        "losses",
        (
            "A rank without losses is counted as if it had one. Count 0 for it.",
            lambda s, n, rank: s.sum() / n.clamp(min=1).sum(),
        ),
        (
            "Rank {rank} has no losses and returns 0. Return the mean over all ranks there, too.",
            lambda s, n, rank: (n[rank] > 0) * s.sum() / n.sum(),
        ),
    ),
)


# What each forward pass was given; not in the model, because a learner may copy the model before using it.
_shown: list[tuple[Tensor, bool, bool]] = []  # images, in training mode, with autograd


def _samples(rank: int, _: int, chance: torch.Generator, samples: int = 37, is_training: bool = True) -> Any:
    """The model predicts some samples correctly, and more of the later ones. All ranks have the same."""
    common, numbers = torch.Generator().manual_seed(samples), torch.arange(samples)
    is_right = (torch.rand(samples, generator=common) < 0.3 + 0.5 * numbers / samples) | (numbers == 0)
    pixels = torch.randn(samples, 10, generator=common)
    images = torch.cat([numbers[:, None], pixels], 1).view(samples, 1, 1, 11)
    model = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(11, 10, bias=False))
    model[2].weight.data = torch.eye(11)[1:]
    model.register_forward_hook(lambda me, given, made: _shown.append((given[0], me[1].training, made.requires_grad)))
    return model.train(is_training), Digits(images, (pixels.argmax(1) + ~is_right) % 10)


def _evaluate(program: Program, model: Any, data: Any) -> Fields:
    _shown.clear()
    number = _number(program(model, data))
    evaluated = {int(image.flatten()[0]) for images, _, _ in _shown for image in images}
    return {
        "mode during evaluation": "training" if any(mode for _, mode, _ in _shown) else "eval",
        **number,
        "autograd": "on" if any(graph for _, _, graph in _shown) else "off",
        "requires_grad afterwards": model[2].weight.requires_grad,
        "mode afterwards": "training" if model[1].training else "eval",
        "samples": "all" if dist.get_world_size() > 1 and len(evaluated) == len(data) > 1000 else "some",
    }


def _tested(model: nn.Module, data: Any, rule: Rule, drop_last: bool | None = None) -> float:
    every_nth = range(dist.get_rank(), len(data), dist.get_world_size())
    mine = every_nth if drop_last is None else DistributedSampler(data, shuffle=False, drop_last=drop_last)
    indices, was_training = torch.tensor([*mine]).long(), model.training
    with torch.no_grad():
        right = (model.eval()(data.images[indices]).argmax(1) == data.labels[indices]).sum()
    model.train(was_training)
    return _by(rule, right, len(indices))


evaluate = Exercise(
    """Check `function(model, data)`: every rank returns the accuracy over all samples, counting each once.

    `data` has a length, `data[i]` is an image and its label, and the tensors `data.images` and `data.labels` contain
    all of them; every rank has all the data. `model` takes batches of images, is the same on all ranks, and contains
    dropout. It is in training mode (in one trial, in eval mode), and must be in the same mode afterwards. Evaluate
    without autograd.

    Return a float between 0 and 1, or a tensor with one element. You may use collectives and messages. The ranks must
    divide the work, so that no rank evaluates everything. With only one rank, return its accuracy.
    """,
    solution=evaluation.evaluate,
    parameters=("model", "data"),
    call=_evaluate,
    tolerance=1e-5,
    budget=Budget(least=0.0),
    trials=[
        Trial(_samples),  # no world size divides it
        Trial(partial(_samples, samples=41, is_training=False), "a model in eval mode", largest_world=3),
        Trial(partial(_samples, samples=1), "fewer samples than ranks", smallest_world=2),
        Trial(partial(_samples, samples=257), "samples that give one rank an extra batch", 2, 2),
        Trial(partial(_samples, samples=2001), "many samples", 2, 2),
    ],
    hints={
        "mode during": "The model is evaluated in training mode, in which dropout sets inputs to zero. Call "
        "model.eval() first.",
        **_HINTS,
        "answer": "Rank {rank} does not return the accuracy over all samples. Evaluate each sample once, sum the "
        "correct predictions and the number of samples over all ranks, and divide once.",
        "autograd": "Autograd builds a graph for every batch. Evaluate under torch.no_grad().",
        "requires_grad": "Your function leaves parameters frozen. Evaluate under torch.no_grad() instead.",
        "mode after": "Your function leaves the model in the other mode. Save model.training, and restore it with "
        "model.train(saved).",
        "samples": "Rank {rank} evaluates all samples, which takes as long as on one rank. Give each rank its own "
        "part.",
    },
    mistakes=[
        *_mistakes(
            _tested,
            "samples",
            ("The accuracy is in percent. Return a value between 0 and 1.", lambda s, n, rank: 100 * s.sum() / n.sum()),
        ),
        Mistake(
            partial(_tested, rule=lambda s, n, rank: s.sum() / n.sum(), drop_last=False),
            "Some samples count twice, because DistributedSampler repeats them. Take the indices range(rank, "
            "len(data), world_size).",
        ),
        Mistake(
            partial(_tested, rule=lambda s, n, rank: s.sum() / n.sum().clamp(min=1), drop_last=True),
            "Some samples are missing. Do not drop the remainder with drop_last or //.",
        ),
    ],
)


@cache
def _language_model(is_in_rank: bool) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(16, 8), nn.Tanh(), nn.Linear(8, 16)).double()
    return DistributedDataParallel(model) if is_in_rank else model


def _micro_batches(rank: int, _: int, chance: torch.Generator, lengths: Sequence[Sequence[Sequence[int]]]) -> Any:
    """`lengths[rank][micro_batch]` has the number of tokens of each sequence."""
    model = _language_model(dist.is_initialized())
    model.zero_grad()
    micro_batches = []
    for sequences in lengths[rank % len(lengths)]:
        tokens, targets = torch.randint(16, (2, len(sequences), 6), generator=chance)
        targets[torch.arange(6) >= torch.tensor(sequences)[:, None]] = texts.PADDING
        micro_batches.append((tokens, targets))
    return model, micro_batches


def _step(program: Program, model: Any, micro_batches: Any) -> Fields:
    number = _number(program(model, micro_batches))
    return {**state_of(model.module), **number}


def _rescaled(model: Any, micro_batches: Any, gradients: int = 0, loss: int = 0, is_averaged: bool = True) -> Any:
    """Times a power of the number of ranks."""
    with nullcontext() if is_averaged else model.no_sync():
        mean = texts.token_mean_loss(model, micro_batches)
    for parameter in model.parameters():
        parameter.grad *= float(dist.get_world_size()) ** gradients
    return mean * dist.get_world_size() ** loss


token_mean_loss = Exercise(
    """Check `function(model, micro_batches)`: the forward and backward passes of a step, for the mean loss per token.

    `model` is a language model in DistributedDataParallel; model(tokens) returns logits of shape (sequences, length,
    vocabulary). `micro_batches` is a list of pairs (tokens, targets), int64 of shape (sequences, length), with the
    same number of pairs on every rank. Targets of padding are -100 and don't count. A micro-batch may consist only of
    padding, and so may all micro-batches of a rank.

    Afterwards, every gradient is that of the mean cross entropy over all tokens of all ranks and micro-batches, and the
    function returns this mean on every rank, as a float or a tensor with one element. Communicate the gradients only
    once. Leave zero_grad() and step() to the caller.
    """,
    solution=texts.token_mean_loss,
    call=_step,
    tolerance=1e-6,
    world_sizes=(2, 3, 4, 1),
    wraps_models=True,
    trials=[
        Trial(partial(_micro_batches, lengths=(((6, 5, 4), (2,), (3, 1)), ((2, 1), (4, 3), (1,))))),
        Trial(partial(_micro_batches, lengths=(((6, 3), (1,)), ((4,), (0, 0)))), "a last micro-batch of padding"),
        Trial(partial(_micro_batches, lengths=(((5,), (2, 3)), ((0,), (0, 0)))), "a rank without tokens", 2),
        Trial(partial(_micro_batches, lengths=(((0, 0),), ((6, 1),))), "rank 0 without tokens", 2),
    ],
    budget=Budget(
        most=lambda case: 3000,
        too_much="Average the gradients once: run all micro-batches but the last in model.no_sync().",
    ),
    hints={
        **_HINTS,
        "weights": "Your function changes the weights. Leave step() to the caller.",
        "parameters": "A parameter has no gradient. Call backward() on every loss, and leave zero_grad() to the "
        "caller.",
        "gradient": "The gradient is not that of the mean over all tokens, in which a micro-batch with more tokens "
        "counts more. Multiply each summed loss by world_size, and divide it by the number of tokens on all ranks, "
        "without padding.",
        "answer": "The gradients are correct, but rank {rank} does not return the mean over all tokens. Sum the "
        "losses over all ranks, and divide by the total number of tokens.",
    },
    mistakes=[
        Mistake(
            partial(_rescaled, is_averaged=False),
            "DDP does not average the gradients. Call model(tokens), not model.module(tokens), and run the last "
            "micro-batch outside no_sync().",
        ),
        Mistake(
            partial(_rescaled, gradients=-1),
            "The gradients are too small by a factor of world_size, because DDP divides by it. Multiply the loss by "
            "world_size.",
        ),
        Mistake(
            partial(_rescaled, gradients=1),
            "The gradients are too large by a factor of world_size. Leave out that factor.",
        ),
        Mistake(
            partial(_rescaled, loss=1),
            "The returned loss is too large by a factor of world_size. Return it without that factor.",
        ),
    ],
)
