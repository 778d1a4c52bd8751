"""Messages between ranks, collectives made of them, roots and groups: lessons 2, 3 and 11."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lessons.check.exercise import MESSAGES, Budget, Exercise, Fields, Mistake, Program, Trial
from ddp_lessons.check.runs import Case
from ddp_lessons.check.trials import of_every_kind, tensor
from ddp_lessons.train import collectives_by_hand, groups, point_to_point

_gather = collectives_by_hand.all_gather_by_hand


def _but(solution: Program, change: Callable[[Any, Tensor, int], Any]) -> Program:
    """The solution, but a rank returns `change(right, own, rank)`, where `own` is what it was given."""

    def program(tensor: Tensor) -> Any:
        own = tensor.clone()
        return change(solution(tensor), own, dist.get_rank())

    return program


def _ends_with(program: Program, *given: Any) -> Fields:
    """What is returned; if that is None, the given tensor afterwards."""
    answer = program(*given)
    return {"answer": given[-1] if answer is None else answer}


def _one_tensor(case: Case) -> int:
    return int(case.arguments[-1].nbytes)


_IN_PAIRS = [
    Mistake(
        _but(point_to_point.swap, lambda right, own, rank: right if rank % 2 else own),
        "Rank {rank} gets its own tensor back, as if the other rank had overwritten its tensor before sending it. "
        "Receive into a second buffer.",
    ),
    Mistake(
        _but(point_to_point.swap, lambda right, own, rank: own),
        "Rank {rank} ends up with its own tensor. Receive the other rank's into a second buffer, and return that "
        "buffer.",
    ),
]

exchange = Exercise(
    """Check `function(tensor)` on two ranks: each returns the tensor of the other.

    Both tensors have the same shape and dtype. You may also overwrite the tensor and return None. Use only messages,
    and send each tensor once. Any way of avoiding the deadlock is correct.
    """,
    solution=point_to_point.exchange,
    trials=of_every_kind(),
    call=_ends_with,
    world_sizes=(2,),
    budget=Budget(MESSAGES, _one_tensor, too_much="Send the tensor once."),
    hints={
        "answer": "Rank {rank} does not end up with the other rank's tensor. Send each tensor unchanged, and return "
        "it as received."
    },
    mistakes=_IN_PAIRS,
)


def _swapped(program: Program, tensor: Tensor) -> Fields:
    answer = program(tensor)
    name = "answer" if dist.get_rank() ^ 1 < dist.get_world_size() else "answer without a partner"
    return {name: tensor if answer is None else answer, "returned": "None" if answer is None else "a tensor"}


def _none_from_all(ranks: Sequence[Fields]) -> list[Fields]:
    """A rank may return None if all others do, too."""
    kinds = {one["returned"] for one in ranks}
    return [{**one, "returned": one["returned"] if len(kinds) > 1 else "a tensor"} for one in ranks]


swap = Exercise(
    """Check `function(tensor)`: ranks 0 and 1 are partners, 2 and 3, and so on; each returns its partner's tensor.

    All tensors have the same shape and dtype. You may also overwrite the tensor and return None, on all ranks. If the
    number of ranks is odd, the last one keeps its own tensor and sends nothing. Use only messages, and send each tensor
    once.
    """,
    solution=point_to_point.swap,
    trials=of_every_kind(),
    call=_swapped,
    together=_none_from_all,
    budget=Budget(
        MESSAGES,
        _one_tensor,
        may_send=lambda rank, world_size, targets: targets == {rank ^ 1},
        too_much="Send the tensor once, and only to the partner.",
    ),
    hints={
        "answer without a partner": "Rank {rank} has no partner. Return its own tensor, unchanged.",
        "answer": "Rank {rank} does not end up with its partner's tensor. Swap in pairs: ranks 0 and 1, 2 and 3. "
        "Send the tensor unchanged, and return the partner's as received.",
        "returned": "Rank {rank} returns None, but other ranks return a tensor. Return a tensor on all of them.",
    },
    mistakes=[
        *_IN_PAIRS,
        Mistake(
            _but(_gather, lambda given, own, rank: given[rank - 1]),
            "Each rank ends up with the tensor of the rank before it, as in a ring. Swap in pairs: 0 and 1, 2 and 3.",
        ),
    ],
)


def _token_of(program: Program, token: Tensor) -> Fields:
    """An int and a tensor of any shape with one element are accepted, too."""
    answer = _ends_with(program, token)["answer"]
    answer = torch.tensor([answer]) if type(answer) is int else answer
    return {"answer": answer.view(1) if isinstance(answer, Tensor) and answer.numel() == 1 else answer}


def _not_back_to_rank_0(token: Tensor) -> Tensor:
    rank = dist.get_rank()
    if rank > 0:
        dist.recv(token, rank - 1)
    token += 1
    if rank + 1 < dist.get_world_size():
        dist.send(token, rank + 1)
    return token


pass_the_token = Exercise(
    """Check `function(token)`: the token goes around the ring once, and each rank adds 1.

    `token` is a tensor with one integer (int64, shape [1]). Rank 0 has the token; on the other ranks, the tensor is
    only a buffer to receive into. Rank 0 adds 1 and sends the token to rank 1. Every other rank receives it from the
    previous rank, adds 1 and sends it to the next; the last rank sends it back to rank 0. Rank 0 returns the token that
    it received (start + world_size), every other rank the one that it sent (start + rank + 1). You may also overwrite
    the tensor and return None. Each rank sends exactly one message, or none if there is only one rank. Don't use
    collectives.
    """,
    solution=point_to_point.pass_the_token,
    trials=[
        Trial(tensor((1,), "int64", largest=10_000)),
        *[Trial(tensor((1,), "int64", largest=10_000), "another token")] * 3,
        Trial(tensor((1,), "int64"), "a token that a float would round"),
    ],
    call=_token_of,
    budget=Budget(
        MESSAGES,
        lambda case: min(1, case.world_size - 1),
        least=1.0,
        measured="messages of the busiest rank",
        may_send=lambda rank, world_size, targets: targets == {(rank + 1) % world_size},
        too_much="On every rank, send the token once, to the next rank.",
    ),
    hints={
        "answer": "Rank {rank} ends up with the wrong token. Each rank adds 1 and sends the token to the next rank. "
        "Return it as sent or, on rank 0, as received."
    },
    mistakes=[
        Mistake(
            _but(point_to_point.pass_the_token, lambda right, own, rank: right - min(1, rank)),
            "Rank {rank}'s token is too low by 1. On every rank, add 1 before sending, and return the token as sent.",
        ),
        Mistake(
            _but(point_to_point.pass_the_token, lambda right, own, rank: right - 1),
            "The token is too low by 1, even on rank 0. Each rank must add 1 once, before sending.",
        ),
        Mistake(
            _but(point_to_point.pass_the_token, lambda right, own, rank: right if rank else right + 1),
            "Only rank 0's token is wrong: it is too high by 1. On each rank, add 1 once, just before sending.",
        ),
        Mistake(
            _not_back_to_rank_0,
            "Rank 0 ends up with its own token plus 1. Add 1 on each rank before sending, and on rank 0, return what "
            "comes back.",
        ),
        Mistake(
            _but(_not_back_to_rank_0, lambda sent, own, rank: sent if rank else own + dist.get_world_size()),
            "The last rank sends nothing, so the token stops there. On every rank, send the token to the next rank.",
        ),
        Mistake(
            lambda token: point_to_point.pass_the_token(token.float()).long(),
            "Floats round large tokens. Keep the token's dtype, int64.",
        ),
    ],
)

broadcast_by_hand = Exercise(
    """Check `function(tensor)`: every rank ends up with the tensor of rank 0.

    All tensors have the same shape and dtype. Every rank returns rank 0's tensor, or overwrites its own and returns
    None. Use only messages, in any order: in a star, a chain or a tree, whole or in pieces. Each rank may receive the
    tensor only once, and rank 0 must not receive it. With only one rank, return its tensor.
    """,
    solution=collectives_by_hand.broadcast_by_hand,
    parameters=("tensor",),
    trials=of_every_kind(),
    call=_ends_with,
    budget=Budget(
        MESSAGES,
        # a broadcast in pieces round a ring sends some of them back to rank 0
        lambda case: _one_tensor(case) * (case.world_size**2 - 1) // case.world_size,
        measured="bytes sent by all ranks together",
        too_much="Send the tensor to each rank once, and not to rank 0.",
    ),
    hints={"answer": "Rank {rank} does not end up with rank 0's tensor. Send all of it, unchanged, to every rank."},
    mistakes=[
        Mistake(
            _but(collectives_by_hand.broadcast_by_hand, lambda right, own, rank: own),
            "Rank {rank} ends up with its own tensor. Receive rank 0's tensor, and return it.",
        ),
        Mistake(
            partial(collectives_by_hand.broadcast_by_hand, src=1),
            "Every rank ends up with rank 1's tensor. Send rank 0's tensor.",
        ),
    ],
)


def _gathered(program: Program, tensor: Tensor) -> Fields:
    """A stacked tensor is accepted, too."""
    answer = program(tensor)
    if isinstance(answer, Tensor) and answer.dim() and answer.shape[1:] == tensor.shape:
        answer = [*answer]
    repeated = len(answer) - len({id(one) for one in answer}) if isinstance(answer, list) else 0
    return {"repeated tensors in the list": repeated, "answer": answer, "given tensor afterwards": tensor}


all_gather_by_hand = Exercise(
    """Check `function(tensor)`: every rank returns the list of all ranks' tensors, in rank order.

    All tensors have the same shape and dtype. Return a list, a tuple, or one stacked tensor of shape [world_size, ...],
    and leave the given tensor unchanged. Use only messages. Each rank has to receive world_size - 1 tensors. All ranks
    together may send at most 1.5 * world_size * (world_size - 1) of them, so that a gather followed by a broadcast is
    correct, too. With only one rank, return a list with its tensor.
    """,
    solution=_gather,
    trials=of_every_kind(),
    call=_gathered,
    budget=Budget(
        MESSAGES,
        lambda case: _one_tensor(case) * 3 * case.world_size * (case.world_size - 1) // 2,
        measured="bytes sent by all ranks together",
        too_much="Send each tensor to each other rank once.",
    ),
    hints={
        "repeated": "Several entries of rank {rank}'s list are the same tensor object, as after `[buffer] * "
        "world_size`. Allocate one buffer per rank.",
        "answer": "Rank {rank} does not return the tensors of all ranks in rank order. Receive each into its own "
        "buffer of the same shape and dtype, and put the tensor of rank i at index i.",
        "given": "The list is correct, but the given tensor has changed. Work on a copy.",
    },
    mistakes=[
        Mistake(
            _but(_gather, lambda right, own, rank: [own, *right[:rank], *right[rank + 1 :]]),
            "Rank {rank}'s list is in the wrong order. Put rank i's tensor at index i, no matter when it arrives.",
        ),
        Mistake(
            _but(_gather, lambda right, own, rank: [one * (source != rank) for source, one in enumerate(right)]),
            "Entry {rank} of rank {rank}'s list is a buffer of zeros. No message carries the rank's own tensor, so "
            "copy it there.",
        ),
        Mistake(
            _but(_gather, lambda right, own, rank: [own.clone() for _ in right] if rank else right),
            "Rank {rank}'s list repeats its own tensor. Send every tensor to every rank, and put the received ones "
            "into the list.",
        ),
    ],
)


def _scored(*place: Any, scores: Sequence[float], dtype: str = "float32") -> tuple[float, Tensor]:
    """Further ranks begin again with the first score."""
    return scores[place[0] % len(scores)], *tensor((4, 7), dtype)(*place)


def _shares(score: float, tensor: Tensor, best: Callable[[Tensor], Any]) -> Tensor:
    scores = torch.stack(_gather(torch.tensor(score, dtype=torch.float64)))
    dist.broadcast(tensor, int(best(scores)))
    return tensor


share_best = Exercise(
    """Check `function(score, tensor)`: every rank ends up with the tensor of the rank with the highest score.

    In a tie, the lowest rank wins. Scores are Python floats with float64 precision, and some are negative. All tensors
    have the same shape and dtype. Every rank returns the tensor, or overwrites its own and returns None. You may use
    collectives and messages. With only one rank, it keeps its own tensor.
    """,
    solution=groups.share_best,
    trials=[
        Trial(partial(_scored, scores=(4.0, 1.5, 2.5, 3.0, 0.5))),
        Trial(partial(_scored, scores=(1.0, 3.5, 5.0, 9.0, 2.0)), "other scores"),
        Trial(partial(_scored, scores=(-2.0, -3.0, -0.5, -4.0, -0.25)), "negative scores"),
        Trial(partial(_scored, scores=(2.25, 2.75, 2.5), dtype="int64"), "scores that differ only in their decimals"),
        Trial(partial(_scored, scores=(1.0, 2.0, 2.0)), "a highest score shared by several ranks"),
        Trial(partial(_scored, scores=(1.0,)), "the same score on all ranks"),
        Trial(partial(_scored, scores=(0.9, 0.9 + 1e-9, 0.9 - 1e-9)), "nearly equal scores"),
    ],
    call=_ends_with,
    budget=Budget(least=0.25),  # if it sends messages, the best rank receives nothing
    hints={
        "answer": "Rank {rank} does not end up with the best rank's tensor. Find the highest of all scores, and "
        "broadcast the tensor of the first rank that has it, unchanged."
    },
    mistakes=[
        Mistake(
            lambda score, tensor: tensor,
            "Rank {rank} ends up with its own tensor. Broadcast the best rank's, and return the tensor that you "
            "passed to broadcast.",
        ),
        Mistake(
            partial(_shares, best=lambda scores: 0),
            "Every rank ends up with rank 0's tensor. Broadcast the tensor of the rank with the highest score.",
        ),
        Mistake(
            partial(_shares, best=torch.argmin),
            "Every rank ends up with the tensor of the lowest score. Choose the highest.",
        ),
        Mistake(
            partial(_shares, best=lambda scores: len(scores) - 1 - scores.flip(0).argmax()),
            "In a tie, your function chooses the highest rank. Choose the lowest.",
        ),
        Mistake(
            partial(_shares, best=lambda scores: scores.clamp(min=0).argmax()),
            "Rank 0 wins if all scores are negative. Compare the scores with each other, not with 0.",
        ),
        Mistake(
            partial(_shares, best=lambda scores: scores.float().argmax()),
            "Your function treats scores that differ only in the ninth decimal as equal. Send the scores as float64.",
        ),
    ],
)

sum_of_half = Exercise(
    """Check `function(tensor)`: even ranks end with the sum over the even ranks, and odd ranks with that over the odd.

    All tensors have the same shape and dtype. Every rank returns the sum, or overwrites its tensor and returns None.
    You may use groups, other collectives and messages. There are at least three ranks, so that there is something to
    add.
    """,
    solution=groups.sum_of_half,
    trials=of_every_kind(),
    call=_ends_with,
    world_sizes=(4, 3, 5),
    hints={
        "answer": "Rank {rank} does not end up with the sum over its half. On even ranks, sum over all even ranks; "
        "on odd ranks, over all odd ones."
    },
    mistakes=[
        Mistake(
            _but(_gather, lambda given, own, rank: sum(given)),
            "Rank {rank} ends up with the sum over all ranks. Sum over its half: the even ranks, or the odd ones.",
        ),
        Mistake(
            _but(_gather, lambda given, own, rank: own),
            "Rank {rank} ends up with its own tensor. Call all_reduce with the group that this rank belongs to.",
        ),
        Mistake(
            _but(_gather, lambda given, own, rank: sum(given[rank::2]) if rank < 2 else own),
            "Only the first rank of each half has the sum, as after reduce. Every rank needs it: use all_reduce.",
        ),
        Mistake(
            _but(_gather, lambda given, own, rank: sum(given[rank % 2 :: 2]) / len(given[rank % 2 :: 2])),
            "Your function returns the mean. Leave out the division.",
        ),
    ],
)
