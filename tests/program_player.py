"""Plays a rank's steps with torch.distributed, and looks whether the right numbers came."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import program_collectives
import torch
import torch.distributed as dist
from program_steps import (
    WORLD,
    Batch,
    Change,
    Collective,
    Compute,
    Content,
    Hear,
    Leave,
    Message,
    Missed,
    NewGroup,
    Program,
    Sleep,
    Step,
    Tell,
    Wait,
    number_of,
)
from torch import Tensor

Check = Callable[[], str]  # what is wrong with the answer, or ""


@dataclass
class UnderWay:
    """A call that is not waited for yet. Its tensors stay alive until the program ends."""

    works: list[Any]
    tensors: list[Tensor]
    checks: list[Check]


def run(rank: int, world_size: int, program: Program) -> list[str]:
    """Play a rank's part; return what was wrong with its answers."""
    player = Player(rank, program)
    player.play()
    return player.wrong


def run_and_clean_up(rank: int, world_size: int, program: Program) -> list[str]:
    """The same for ranks that are used again."""
    player = Player(rank, program)
    player.play()
    dist.barrier()
    for name, group in player.groups.items():
        if name != WORLD and group is not dist.GroupMember.NON_GROUP_MEMBER:
            dist.destroy_process_group(group)
    return player.wrong


class Player:
    def __init__(self, rank: int, program: Program) -> None:
        self.rank = rank
        self.program = program
        self.groups: dict[str, Any] = {WORLD: dist.group.WORLD}
        self.under_way: dict[int, UnderWay] = {}
        self.wrong: list[str] = []
        self._plays: dict[type[Step], Callable[[Any], None]] = {
            Message: self.message,
            Batch: self.batch,
            Collective: self.collective,
            Wait: self.wait,
            NewGroup: self.new_group,
            Sleep: lambda step: time.sleep(step.seconds),
            Compute: self.compute,
            Tell: lambda step: self.store().set(f"{self.program.seed} {step.key}", "told"),
            Hear: lambda step: self.store().get(f"{self.program.seed} {step.key}"),
            Missed: self.missed,
            Change: self.change,
        }

    def play(self) -> None:
        for step in self.program.steps[self.rank]:
            if isinstance(step, Leave):
                return
            if getattr(step, "group", WORLD) in self.groups:
                self._plays[type(step)](step)

    def message(self, step: Message) -> None:
        """A blocking one is made with the call of that name, which waits by itself."""
        group = self.groups[step.group]
        if step.how == "send":
            tensor = filled(step.content, number_of(step.turn, self.rank))
            dist.send(tensor, step.peer, group, step.tag)
            tensor.zero_()  # which is allowed, now that it has been sent
        elif step.how == "recv":
            tensor = filled(step.content, 0)
            source = dist.recv(tensor, step.peer, group, step.tag)
            self.note(step, check_of(tensor, number_of(step.turn, source)))
        else:
            assert step.handle is not None
            self.under_way[step.handle] = self.started(step)

    def started(self, step: Message) -> UnderWay:
        group = self.groups[step.group]
        if not step.is_send:
            tensor = filled(step.content, 0)
            work: Any = dist.irecv(tensor, step.peer, group, step.tag)

            def check() -> str:
                source = step.peer if step.peer is not None else dist.get_global_rank(group, work._source_rank())
                return check_of(tensor, number_of(step.turn, source))()

            return UnderWay([work], [tensor], [check])
        tensor = filled(step.content, number_of(step.turn, self.rank))
        if step.how == "thread":
            sender = threading.Thread(
                target=send_later, args=(step.delay, tensor, step.peer, group, step.tag), daemon=True
            )
            sender.start()
            return UnderWay([sender], [tensor], [])
        work = dist.isend(tensor, step.peer, group, step.tag)
        if step.content.sliced:
            whole_of(tensor)[0] = 0  # what lies beside it may be changed meanwhile
        return UnderWay([work], [tensor], [])

    def batch(self, step: Batch) -> None:
        calls, tensors, checks = [], [], []
        for part in step.parts:
            assert part.peer is not None
            tensor = filled(part.content, number_of(step.turn, self.rank) if part.is_send else 0)
            call = dist.isend if part.is_send else dist.irecv
            calls.append(dist.P2POp(call, tensor, part.peer, self.groups[part.group], part.tag))
            tensors.append(tensor)
            if not part.is_send:
                checks.append(check_of(tensor, number_of(step.turn, part.peer)))
        self.under_way[step.handle] = UnderWay(list(dist.batch_isend_irecv(calls)), tensors, checks)

    def collective(self, step: Collective) -> None:
        works, check = program_collectives.call(step, self.rank, self.groups[step.group], self.program)
        if step.handle is None:
            self.note(step, check)
        else:
            self.under_way[step.handle] = UnderWay(works, [], [check])

    def wait(self, step: Wait) -> None:
        call = self.under_way.get(step.handle)
        if call is None:  # the step that would have begun it was left out
            return
        for work in call.works:
            if isinstance(work, threading.Thread):
                work.join()
            elif step.how == "poll":
                while not work.is_completed():
                    time.sleep(0.001)
            elif step.how == "future":
                work.get_future().wait()
            else:
                work.wait()
        for check in call.checks:
            self.note(step, check)
        for tensor in call.tensors:
            tensor.zero_()

    def new_group(self, step: NewGroup) -> None:
        self.groups[step.name] = dist.new_group(list(step.ranks), use_local_synchronization=step.local)

    def missed(self, step: Missed) -> None:
        with contextlib.suppress(ZeroDivisionError):
            _ = 1 / (step.turn - step.turn)
            self._plays[type(step.step)](step.step)

    def change(self, step: Change) -> None:
        for tensor in self.under_way[step.handle].tensors:
            tensor.logical_not_()

    def compute(self, step: Compute) -> None:
        torch.ones(step.elements).cumsum(0)
        sum(range(step.elements))  # and this holds Python's lock

    def note(self, step: Step, check: Check) -> None:
        if complaint := check():
            self.wrong.append(f"rank {self.rank}: {complaint} in {step}")

    def store(self) -> Any:
        return dist.distributed_c10d._get_default_store()


def send_later(delay: float, tensor: Tensor, peer: int, group: Any, tag: int) -> None:
    time.sleep(delay)
    dist.send(tensor, peer, group, tag)


def filled(content: Content, number: int) -> Tensor:
    dtype = getattr(torch, content.dtype)
    if not content.sliced:
        return torch.full(content.shape, number, dtype=dtype)
    return torch.full((content.elements + 5,), number, dtype=dtype)[3:-2].view(content.shape)


def whole_of(part: Tensor) -> Tensor:
    assert part._base is not None
    return part._base


def check_of(tensor: Tensor, number: float) -> Check:
    """Every element is that number, as far as its type can tell."""

    def check() -> str:
        expected = torch.tensor(number).to(tensor.dtype)
        if torch.equal(tensor, expected.expand_as(tensor)):
            return ""
        return f"{expected.item()} expected, but {tensor.flatten()[:4].tolist()} came"

    return check
