"""The sections that each workshop plan teaches. After a change: `.venv/bin/python docs/instructor/write.py`.

The minutes of a section come from the notebook. A lesson without named sections is taught whole. What they leave of a
day is time in hand; without it, the first question would make the plan late.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Say:
    text: str
    teach: int = 0
    exercise: int = 0
    pause: int = 0


@dataclass(frozen=True)
class Take:
    lesson: int
    text: str = ""

    @property
    def sections(self) -> list[str]:
        return self.text.split(" / ") if self.text else []


@dataclass(frozen=True)
class Day:
    name: str
    begin: str
    minutes: int
    parts: tuple[Say | Take, ...]


FIRST = "[The first ten minutes](checklist.md#the-first-ten-minutes): the first cell of lesson 0, on every machine"
WELCOME = Say(FIRST, teach=5, exercise=10)
BREAK = Say("Break. If you are stuck, stay with a helper", pause=15)
LUNCH = Say("Lunch. The machines stay on", pause=60)
TOMORROW = "[What to do tomorrow](checklist.md#what-to-do-tomorrow), and [the end](checklist.md#at-the-end)"
GOODBYE = Say(TOMORROW, teach=10, exercise=5)
IN_HAND = Say("Time in hand: a late start, questions, an exercise that takes longer")  # what a day has left


PLANS: dict[str, tuple[Day, ...]] = {
    "half_day.md": (
        Day(
            "half a day",
            "9:00",
            210,
            (
                WELCOME,
                Take(0),
                Take(1, "Move a function into a script / Start the script with torchrun"),
                Take(
                    2,
                    "Send one tensor: send and recv / Two ranks that both send first / Exercise: exchange two tensors",
                ),
                BREAK,
                Take(
                    3,
                    "opening / Scatter and broadcast: one rank sends to all / Exercise: broadcast by hand / "
                    "Gather and reduce: one rank receives / all_gather and all_reduce: every rank receives / "
                    "Average over ranks: the mean of means / Exercise: the mean over all ranks",
                ),
                Take(
                    5,
                    "opening / Average gradients with all_reduce / Keep replicas equal / "
                    "Broadcast the initial weights / Sum or mean, and the learning rate / "
                    "Read gradients from `parameter.grad` / Exercise: average the gradients / "
                    "Compare replicas by fingerprint",
                ),
                BREAK,
                Take(7, "opening / Wrap a model: rank 0 broadcasts its weights / `backward()` averages the gradients"),
                Take(
                    8,
                    "Load MNIST / Exercise: exact accuracy over all ranks / Train with DDP: the complete program",
                ),
                Take(
                    11,
                    "opening / Four symptoms of a broken job / A collective that only some ranks call / "
                    "Exercise: a mean when some ranks have no data",
                ),
                IN_HAND,
                GOODBYE,
            ),
        ),
    ),
    "one_day.md": (
        Day(
            "one day",
            "9:00",
            450,
            (
                WELCOME,
                Take(0),
                Take(
                    1,
                    "What `launch` does for you / Read the four environment variables / "
                    "Join the process group: `init_process_group` / Move a function into a script / "
                    "Start the script with torchrun / Tell `RANK` from `LOCAL_RANK` / "
                    "When a rank fails: find the root cause / What joining waits for / "
                    "When the port is taken: `EADDRINUSE`",
                ),
                BREAK,
                Take(2),
                Take(
                    3,
                    "opening / Scatter and broadcast: one rank sends to all / Exercise: broadcast by hand / "
                    "Gather and reduce: one rank receives / all_gather and all_reduce: every rank receives / "
                    "Average over ranks: the mean of means / Exercise: the mean over all ranks / "
                    "Mismatched shapes: a wrong result without an error / Do you know it? / What you have now",
                ),
                IN_HAND,
                LUNCH,
                Take(5),
                Take(
                    6,
                    "opening / Partition a dataset / Shuffle with the same seed on all ranks / "
                    "DistributedSampler: padding and drop_last / Call set_epoch before every epoch / "
                    "Exercise: write a DistributedSampler / Seed each rank differently for dropout / Load MNIST / "
                    "Train on partitions / Uneven numbers of batches cause a hang",
                ),
                BREAK,
                Take(
                    7,
                    "opening / Wrap a model: rank 0 broadcasts its weights / `backward()` averages the gradients / "
                    "Hooks: run code in the backward pass / Overlap communication with computation / "
                    "Exercise: write your own DDP / Group gradients into buckets / "
                    "Gradient accumulation with `no_sync`",
                ),
                Take(
                    8,
                    "Load MNIST / Exercise: exact accuracy over all ranks / Train with DDP: the complete program / "
                    "Checkpoints: three common mistakes / Exercise: save a checkpoint / What you have now",
                ),
                BREAK,
                Take(
                    11,
                    "opening / Four symptoms of a broken job / A collective that only some ranks call / "
                    "Uneven batches: a hang at the end of an epoch / Exercise: a mean when some ranks have no data / "
                    "Mismatched collectives: a different order / DDP's hidden collectives / "
                    "What PyTorch reports: timeouts and TORCH_DISTRIBUTED_DEBUG / "
                    "NCCL timeouts: watchdog and Flight Recorder / Silent errors: compare with one process / "
                    "Troubleshooting table",
                ),
                IN_HAND,
                GOODBYE,
            ),
        ),
    ),
    "two_days.md": (
        Day(
            "first day",
            "9:00",
            450,
            (
                WELCOME,
                Take(0),
                Take(1),
                BREAK,
                Take(2),
                Take(3),
                IN_HAND,
                LUNCH,
                Take(4),
                BREAK,
                Take(5),
                BREAK,
                Take(6),
                IN_HAND,
                Say("What to try tonight: the *Try next* of each lesson", teach=5),
            ),
        ),
        Day(
            "second day",
            "9:00",
            450,
            (
                Say("Open questions of yesterday: three quiz questions, asked aloud", teach=10),
                Take(7),
                Take(8),
                BREAK,
                Take(9),
                IN_HAND,
                LUNCH,
                Take(10),
                Take(11),
                BREAK,
                Take(
                    14,
                    "opening / Restart after a failure / Exercise: make training restartable / Simulate two nodes / "
                    "Start torchrun on every node: the rendezvous / "
                    "Compute the rank from node and local rank / Exercise: ranks of a node / "
                    "Choose the network interface / Which failures are silent / Submit a job to Slurm",
                ),
                IN_HAND,
                Take(12, "opening / The contract"),
                GOODBYE,
            ),
        ),
    ),
}
