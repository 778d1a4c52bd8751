"""The catalog of mistakes: each with its program, its outcome, and what its message must contain."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .culprits import Ranks, all_but_rank_0, everybody, first_and_last, last, near_their_target, nobody, only
from .programs import collectives, groups, messages, replicas

Ending = Literal["stuck", "failed", "either", "warned"]
Alone = Literal["hang", "abort", "wrong answer", "error", "warning"]


@dataclass(frozen=True)
class Mistake:
    """One program, and what its message must name (`ranks`, `words`) and show (`lines`)."""

    kind: int
    function: Callable[[int, int], object]
    ends: Ending  # with launch
    alone: Alone  # with torch alone; a rank that waits for an ended process gets an error, otherwise it hangs
    ranks: Ranks
    lines: tuple[str, ...]  # source lines of the function: where ranks waited, or what they called
    words: tuple[str, ...] = ()
    world_sizes: tuple[int, ...] = (2, 3, 4, 8)
    join: bool = True
    key: str = field(default="", kw_only=True)  # of the exception
    is_slow: bool = field(default=False, kw_only=True)  # takes seconds until it hangs

    @property
    def name(self) -> str:
        return self.function.__name__

    def places(self) -> dict[str, str]:
        """How a message names each of the lines ("groups.py line 12"): the first with that text."""
        source, first = inspect.getsourcelines(self.function)
        texts = [line.strip() for line in source]
        file = Path(inspect.getsourcefile(self.function) or "").name
        return {line: f"{file} line {first + texts.index(line)}" for line in self.lines}


THREE_OR_MORE = (3, 4, 8)
RETURNED = ("returned",)

MISTAKES = (
    Mistake(
        1, collectives.one_returned, "stuck", "hang", last, ("dist.all_reduce(total)",), RETURNED, key="never-called"
    ),
    Mistake(
        1,
        collectives.raised_and_caught,
        "stuck",
        "hang",
        only(1),
        ("dist.all_reduce(total)",),
        RETURNED,
        key="never-called",
    ),
    Mistake(
        1,
        collectives.early_break,
        "stuck",
        "hang",
        near_their_target,
        ("dist.all_reduce(gradient)",),
        RETURNED,
        key="fewer-steps",
    ),
    Mistake(
        1,
        collectives.uneven_batches,
        "stuck",
        "hang",
        all_but_rank_0,
        ("dist.all_reduce(loss)",),
        RETURNED,
        key="fewer-steps",
    ),
    Mistake(
        2,
        collectives.different_collectives,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.broadcast(scores, src=0)", "dist.all_reduce(scores)"),
        ("mismatched collectives",),
        key="order-mismatch",
    ),
    Mistake(
        2,
        collectives.different_order,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.broadcast(weights, src=0)", "dist.all_reduce(loss)"),
        ("mismatched collectives",),
        key="order-mismatch",
    ),
    Mistake(
        2,
        collectives.different_order_of_groups,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.all_reduce(loss, group=for_losses)", "dist.all_reduce(gradient, group=for_gradients)"),
        ("deadlock", "in the same order"),
        key="deadlock-of-collectives",
    ),
    Mistake(
        2,
        collectives.different_roots,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.broadcast(weights, src=rank)",),
        ("root mismatch",),
        key="root-mismatch",
    ),
    Mistake(
        2,
        collectives.different_reduce_ops,
        "failed",
        "wrong answer",
        only(0, 1),
        ("dist.all_reduce(loss)", "dist.all_reduce(loss, op=dist.ReduceOp.MAX)"),
        ("reduce op mismatch", "sum", "max"),
        key="op-mismatch",
    ),
    Mistake(
        3,
        collectives.different_shapes,
        "stuck",
        "hang",
        first_and_last,
        ("dist.all_reduce(losses)",),
        ("shape mismatch", "[4]", "[3]"),
        key="tensor-mismatch",
    ),
    Mistake(
        3,
        collectives.different_dtypes,
        "failed",
        "abort",
        first_and_last,
        ("dist.all_reduce(total)",),
        ("dtype mismatch", "float32", "int64"),
        key="tensor-mismatch",
    ),
    Mistake(
        3,
        messages.smaller_buffer,
        "failed",
        "abort",
        first_and_last,
        ("dist.send(weights, dst=other)", "dist.recv(buffer, src=0)"),
        ("shape mismatch", "[4]", "[2]"),
        key="message-mismatch",
    ),
    Mistake(
        3,
        messages.larger_buffer,
        "failed",
        "wrong answer",
        first_and_last,
        ("dist.send(weights, dst=other)", "dist.recv(buffer, src=0)"),
        ("shape mismatch", "[2]", "[4]"),
        key="message-mismatch",
    ),
    Mistake(
        3,
        messages.message_of_other_dtype,
        "failed",
        "wrong answer",
        only(0),
        ("dist.send(digits, dst=other)", "dist.recv(buffer, src=0)"),
        ("dtype mismatch", "int32", "float32"),
        key="message-mismatch",
    ),
    Mistake(
        4,
        messages.both_send_first,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.send(mine, dst=partner)",),
        ("for the other to receive",),
        key="deadlock-of-two",
    ),
    Mistake(
        4,
        messages.both_receive_first,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.recv(theirs, src=partner)",),
        ("for the other to send",),
        key="deadlock-of-two",
    ),
    Mistake(
        4,
        messages.circle,
        "stuck",
        "hang",
        everybody,
        ("dist.send(mine, dst=(rank + 1) % world_size)",),
        ("circle",),
        world_sizes=THREE_OR_MORE,
        key="deadlock-of-messages",
    ),
    Mistake(
        4,
        messages.sender_never_sends,
        "stuck",
        "hang",
        first_and_last,
        ("dist.recv(part, src=0)",),
        RETURNED,
        key="no-counterpart",
    ),
    Mistake(
        4,
        messages.nobody_receives,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.send(part, dst=0)",),
        RETURNED,
        key="no-counterpart",
    ),
    Mistake(
        4,
        messages.wrong_peer,
        "stuck",
        "hang",
        only(0, 1, 2),
        ("dist.recv(part, src=rank - 1)",),
        ("wrong rank",),
        world_sizes=THREE_OR_MORE,
        key="wrong-peer",
    ),
    Mistake(
        4,
        messages.wrong_tag,
        "stuck",
        "hang",
        only(0, 1),
        ("dist.send(torch.tensor([float(step)]), dst=other, tag=step)", "dist.recv(part, src=0, tag=step)"),
        ("tag mismatch", "tag 0", "tag 1"),
        key="tag-mismatch",
    ),
    Mistake(
        4,
        messages.to_itself,
        "failed",
        "error",
        only(0),
        ("dist.send(part, dst=other)",),
        ("send to itself",),
        key="raised",
    ),
    Mistake(
        5,
        messages.never_waited_for,
        "failed",
        "wrong answer",
        only(0, 1),
        ("dist.all_reduce(gradient, async_op=True)",),
        ("wait() was never called",),
        key="missing-wait",
    ),
    Mistake(
        5,
        messages.changed_before_wait,
        "failed",
        "wrong answer",
        only(0),
        ("sendings = [dist.isend(weights, dst=other) for other in range(1, world_size)]",),
        ("changed before its wait",),
        key="changed-before-wait",
    ),
    Mistake(
        6,
        groups.group_made_by_some,
        "stuck",
        "hang",
        only(1),
        ("of_all = dist.new_group()",),
        ("Group mismatch in new_group",),
        key="group-mismatch",
    ),
    Mistake(
        6,
        groups.groups_in_different_order,
        "either",
        "hang",
        only(0, 1),
        ("group = dist.new_group(mine)",),
        ("Group mismatch in new_group",),
        world_sizes=THREE_OR_MORE,
        key="group-mismatch",
    ),
    Mistake(
        6,
        groups.outside_the_group,
        "warned",
        "warning",
        last,
        ("dist.all_reduce(total, group=group)",),
        ("does not belong to the given group",),
    ),
    Mistake(
        7, groups.barrier_on_rank_0, "either", "hang", all_but_rank_0, ("dist.barrier()",), RETURNED, key="never-called"
    ),
    Mistake(
        7,
        groups.one_never_joins,
        "stuck",
        "hang",
        only(0),
        ('dist.init_process_group("gloo")',),
        ("init_process_group", "returned"),
        join=False,
        key="never-called",
    ),
    Mistake(
        7,
        groups.wrong_world_size,
        "stuck",
        "hang",
        nobody,
        ('dist.init_process_group("gloo", rank=rank, world_size=world_size + 1)',),
        ("world size mismatch", "world_size"),
        join=False,
        key="world-size-too-large",
    ),
    Mistake(
        8,
        replicas.ddp_unused_parameter,
        "failed",
        "error",
        only(0),
        ("loss = model(torch.ones(2, 4), has_sign=rank > 0)",),
        ("find_unused_parameters",),
        is_slow=True,
        key="raised",
    ),
    Mistake(
        8,
        replicas.ddp_fewer_forwards,
        "stuck",
        "hang",
        only(1),
        ("model(batch).sum().backward()",),
        ("returned", "model.join()"),
        is_slow=True,
        key="uneven-batches",
    ),
    Mistake(
        8,
        replicas.ddp_shapes_differ,
        "failed",
        "error",
        last,
        ("model = DistributedDataParallel(nn.Linear(4, len(digits.unique())))",),
        ("sizes", "same model"),
        is_slow=True,
        key="raised",
    ),
    Mistake(
        8,
        replicas.ddp_uneven_inputs,
        "stuck",
        "hang",
        all_but_rank_0,
        ("model(batch).sum().backward()",),
        ("returned", "model.join()"),
        is_slow=True,
        key="uneven-batches",
    ),
    Mistake(
        8,
        replicas.ddp_model_on_rank_0_only,
        "stuck",
        "hang",
        all_but_rank_0,
        ("score: Tensor = model(torch.ones(8, 4)).mean()",),
        ("returned", "model.module"),
        is_slow=True,
        key="ddp-left-alone",
    ),
)
