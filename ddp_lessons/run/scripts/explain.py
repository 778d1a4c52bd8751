"""Run a plain script and explain its hang or failure, as `launch` does for a cell: `python -m ddp_lessons explain`.

The script runs under torchrun (or alone, where it starts its ranks by itself). Each rank reports over a socket in a
private folder; its output goes where it always went.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

import psutil

from ddp_lessons.run.launcher.follow import Ending
from ddp_lessons.run.launcher.patience import OwnTime
from ddp_lessons.run.launcher.private_folders import short_private_folder
from ddp_lessons.run.output.terminal_text import message_on_terminal
from ddp_lessons.run.scripts.script_worlds import ScriptWorld
from ddp_lessons.run.scripts.torchrun_here import torchrun_here
from ddp_lessons.run.wire.channel import Channel
from ddp_lessons.run.wire.messages import WITNESSED, Present

SIGNALLED = 128  # a shell adds the signal number to this for the exit status
_TICK_SECONDS = 0.05


def explain(script: Sequence[str], ranks: int | None, timeout_seconds: float | None) -> int:
    """Run `script` (its path and arguments) and return its exit status; 1 if its ranks hang or fail."""
    if not os.path.isfile(script[0]):
        print(f"no such script: {script[0]}", file=sys.stderr)
        return 2
    if is_refused_in_each_task():
        return 2
    witness = ["-m", "ddp_lessons.run.rank.script_rank", *script]
    with contextlib.ExitStack() as stack:
        try:
            folder = short_private_folder("ddp-lessons-", len("/ranks"))
        except (OSError, ValueError) as refusal:
            print(f"explain cannot start: {refusal}", file=sys.stderr)
            return 2
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        door = stack.enter_context(socket.socket(socket.AF_UNIX))
        address = os.path.join(folder, "ranks")
        door.bind(address)
        door.listen(64)
        command = [sys.executable, *(torchrun_here(ranks, folder) if ranks else []), *witness]
        # torchrun would choose one thread, too, but with a long warning
        environment = {"OMP_NUM_THREADS": "1", **os.environ} if ranks else dict(os.environ)
        process = subprocess.Popen(command, env={**environment, WITNESSED: address})
        vigil = _Vigil(door, process, timeout_seconds, OwnTime(ranks or 1))
        signal.signal(signal.SIGTERM, end_by_signal)
        try:
            return vigil.keep()
        except KeyboardInterrupt:
            return vigil.give_up()
        except SystemExit:
            vigil.end()
            raise


def is_refused_in_each_task() -> bool:
    """Did srun start several of us? Each would see only its own ranks. In a shell of `srun --pty` we are alone."""
    if os.environ.get("SLURM_STEP_NUM_TASKS", "1") == "1" or "SLURM_PTY_PORT" in os.environ:
        return False
    if os.environ.get("SLURM_PROCID") == "0":
        print(
            "explain cannot start: srun has started it in several tasks, each of which sees only its own ranks.\n"
            "  Next: run it once in the job, without srun: `python -m ddp_lessons explain --on slurm "
            "--nproc-per-node N SCRIPT` starts N ranks on each node.",
            file=sys.stderr,
        )
    return True


def end_by_signal(number: int, _: object) -> None:
    sys.exit(SIGNALLED + number)


@dataclass
class _Vigil:
    """One run of a script, and the worlds that its ranks make."""

    door: socket.socket
    process: subprocess.Popen[bytes]
    timeout_seconds: float | None
    time: OwnTime
    worlds: list[ScriptWorld] = field(default_factory=list)  # not over yet
    lost: list[ScriptWorld] = field(default_factory=list)  # over, but a rank exited without a last message
    number_of_worlds: int = 0

    def keep(self) -> int:
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.door, selectors.EVENT_READ)
        faults = 0
        while self.process.poll() is None:
            self._look()
            for world in self.worlds:
                world.note_aborts()
            if told := self._what_went_wrong():
                say(told)
                return self.end()
            faults += self._let_go_who_is_done()
        while self._look():  # the last messages of the ranks
            pass
        faults += self._let_go_who_is_done()
        status = self.process.returncode
        if status and (failed := next((one for one in [*self.lost, *self.worlds] if one.has_lost_ranks), None)):
            say(failed.tell_failure())
        if status and not self.number_of_worlds:
            print(
                "\nno rank joined a process group\n  Next: if the script needs torchrun, add --nproc-per-node N.",
                file=sys.stderr,
                flush=True,
            )
        return SIGNALLED - status if status < 0 else status or min(faults, 1)

    def give_up(self) -> int:
        """The user pressed Ctrl+C."""
        told = []
        for world in self.worlds:
            world.ask_all()
            told += world.tell_where_each_is()
        print("\n".join(["\nyou stopped the ranks", *told]), file=sys.stderr, flush=True)
        self.end()
        return SIGNALLED + signal.SIGINT

    def end(self) -> int:
        """Stop first the process that starts ranks, which would log their deaths at length, then all others."""
        with contextlib.suppress(psutil.NoSuchProcess):
            begun = psutil.Process(self.process.pid).children(recursive=True)
            self.process.kill()
            for process in begun:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        self.process.wait()
        return 1

    def _what_went_wrong(self) -> str:
        for world in self.worlds:
            if (ending := world.ending()) not in (None, Ending.RETURNED):
                world.ask_all()
                return world.tell(ending)
        return self._who_did_not_come() if self.time.exceeds(self.timeout_seconds) else ""

    def _who_did_not_come(self) -> str:
        within = f"within {self.timeout_seconds:g} seconds"
        if self.number_of_worlds and not self.worlds:
            return f"WorkersStuck: timeout, all ranks returned, but the script did not end {within}"
        came, expected = (len(self.worlds[0].channels), self.worlds[0].world_size) if self.worlds else (0, 0)
        joined = f"{f'only {came} of {expected} ranks' if expected else 'no rank'} joined a process group"
        return f"WorkersStuck: timeout, {joined} {within} (including the import of torch)"

    def _let_go_who_is_done(self) -> int:
        """Release worlds in which all ranks returned, and return in how many of them calls did not match."""
        faults = 0
        for world in [world for world in self.worlds if world.is_over and not world.ended]:
            world.let_go()
            self.worlds.remove(world)
            if world.gone:
                self.lost.append(world)
            elif told := world.tell_what_did_not_fit():
                say(told)
                faults += 1
        return faults

    def _look(self, seconds: float = _TICK_SECONDS) -> bool:
        """Read messages for a moment. True if there were any."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fileobj is self.door:
                channel = Channel(self.door.accept()[0])
                self._selector.register(channel, selectors.EVENT_READ, None)
            else:
                self._hear(key.fileobj, key.data)  # type: ignore[arg-type]
        return bool(ready)

    def _hear(self, channel: Channel, whose: tuple[ScriptWorld, int] | None) -> None:
        try:
            whole = channel.receive_some()
        except EOFError:
            self._selector.unregister(channel)
            channel.close()
            if whose is not None:
                whose[0].note_end(whose[1])
            return
        if whole is None:
            return
        if isinstance(whole[0], Present):
            self._welcome(channel, whole[0])
        elif whose is not None:
            whose[0].heard(whose[1], whole[0])

    def _welcome(self, channel: Channel, present: Present) -> None:
        """If this rank already exists, it belongs to a new world, even at the same address."""
        fitting = (one for one in self.worlds if one.meets_at == present.meets_at and present.rank not in one.channels)
        world = next(fitting, None)
        if world is None:
            world = ScriptWorld(present.meets_at, present.world_size, self.timeout_seconds, self._look, self.time)
            self.worlds.append(world)
            self.number_of_worlds += 1
        self._selector.modify(channel, selectors.EVENT_READ, (world, present.rank))
        world.welcome(channel, present)


def say(told: str) -> None:
    print(f"\n{message_on_terminal(told, 'wrong', sys.stderr)}\n", file=sys.stderr, flush=True)
