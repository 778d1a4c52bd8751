"""The sections that each workshop plan teaches. After a change: `.venv/bin/python docs/instructor/write.py`.

The minutes of a section come from the notebook. A lesson without named sections is taught whole. Each day has time in
hand; without it, the first question would make the plan late.
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
IN_HAND = "Time in hand: a late start, questions, an exercise that takes longer"


def in_hand(minutes: int) -> Say:
    return Say(IN_HAND, teach=minutes)


PLANS: dict[str, tuple[Day, ...]] = {
    "half_day.md": (
        Day(
            "half a day",
            "9:00",
            210,
            (
                WELCOME,
                Take(0),
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
                Take(
                    7,
                    "opening / Wrap a model: rank 0 broadcasts its weights / `backward()` averages the gradients",
                ),
                Take(
                    8,
                    "Load MNIST / Train with DDP: the complete program",
                ),
                Take(
                    11,
                    "opening / Four symptoms of a broken job / A collective that only some ranks call / "
                    "Exercise: a mean when some ranks have no data",
                ),
                in_hand(23),
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
                    "Join the process group: `init_process_group` / What joining waits for / "
                    "When the port is taken: `EADDRINUSE`",
                ),
                Take(
                    2,
                    "Send one tensor: send and recv / Messages are bytes: shape and dtype mismatches / "
                    "Two ranks that both send first / Exercise: exchange two tensors / "
                    "Measure latency and bandwidth",
                ),
                BREAK,
                Take(
                    3,
                    "opening / Scatter and broadcast: one rank sends to all / Exercise: broadcast by hand / "
                    "Gather and reduce: one rank receives / all_gather and all_reduce: every rank receives / "
                    "Average over ranks: the mean of means / Exercise: the mean over all ranks / "
                    "Mismatched shapes: a wrong result without an error / Do you know it? / What you have now",
                ),
                Take(
                    5,
                    "opening / Average gradients with all_reduce / Keep replicas equal / "
                    "Broadcast the initial weights / Sum or mean, and the learning rate / "
                    "Read gradients from `parameter.grad` / Exercise: average the gradients / "
                    "Prove that four ranks equal one process / Compare replicas by fingerprint / "
                    "Unequal batch sizes / What you have now",
                ),
                in_hand(17),
                LUNCH,
                Take(
                    6,
                    "opening / Partition a dataset / Shuffle with the same seed on all ranks / "
                    "Divide the batch size by the world size / DistributedSampler: padding and drop_last / "
                    "Call set_epoch before every epoch / Exercise: a new order in every epoch / "
                    "Seed each rank differently for dropout / Load MNIST / Train on partitions / "
                    "Uneven numbers of batches cause a hang",
                ),
                BREAK,
                Take(
                    7,
                    "opening / Wrap a model: rank 0 broadcasts its weights / `backward()` averages the gradients / "
                    "Hooks: run code in the backward pass / Exercise: write your own DDP / "
                    "Overlap communication with computation / Group gradients into buckets / "
                    "Gradient accumulation with `no_sync` / Do you know it?",
                ),
                Take(
                    8,
                    "Load MNIST / Train with DDP: the complete program / Exercise: exact accuracy over all ranks / "
                    "Checkpoints: three common mistakes / Exercise: save a checkpoint / What you have now",
                ),
                BREAK,
                Take(
                    11,
                    "opening / Four symptoms of a broken job / A collective that only some ranks call / "
                    "Uneven batches: a hang at the end of an epoch / Exercise: a mean when some ranks have no data / "
                    "Mismatched collectives: a different order / DDP's hidden collectives / "
                    "What PyTorch reports: timeouts and TORCH_DISTRIBUTED_DEBUG / "
                    "Silent errors: compare with one process / Troubleshooting table",
                ),
                in_hand(25),
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
                Take(
                    3,
                    "opening / Scatter and broadcast: one rank sends to all / Exercise: broadcast by hand / "
                    "Gather and reduce: one rank receives / all_gather and all_reduce: every rank receives / "
                    "Exercise: all_gather by hand / Step through the messages / "
                    "reduce_scatter and all_to_all: every rank gets a part / barrier: wait for all ranks / "
                    "Average over ranks: the mean of means / Exercise: the mean over all ranks / Groups: new_group / "
                    "Collectives in the background: async_op / Mismatched shapes: a wrong result without an error / "
                    "Do you know it? / What you have now",
                ),
                in_hand(7),
                LUNCH,
                Take(
                    4,
                    "opening / Star: send everything to rank 0 / Tree: add up in pairs / "
                    "Ring: send chunks to the next rank / Exercise: write the ring all-reduce / "
                    "A correct sum that sends too many bytes / Uneven chunks: tensor_split and chunk / "
                    "Cost model: latency and bandwidth / Simulate a link for every rank / Do you know it? / "
                    "What you have now",
                ),
                BREAK,
                Take(5),
                BREAK,
                Take(
                    6,
                    "opening / Partition a dataset / Shuffle with the same seed on all ranks / "
                    "Exercise: a partitioner that loses no sample / Divide the batch size by the world size / "
                    "DistributedSampler: padding and drop_last / Call set_epoch before every epoch / "
                    "Exercise: a new order in every epoch / shuffle=True in a DataLoader",
                ),
                in_hand(26),
                Say("What to try tonight: the *Try next* of each lesson", teach=5),
            ),
        ),
        Day(
            "second day",
            "9:00",
            450,
            (
                Say("Open questions of yesterday: three quiz questions, asked aloud", teach=10),
                Take(
                    6,
                    "Seed each rank differently for dropout / Load MNIST / Train on partitions / "
                    "Uneven numbers of batches cause a hang / Train on global batches / "
                    "Do you know it? / What you have now",
                ),
                Take(
                    7,
                    "opening / Wrap a model: rank 0 broadcasts its weights / `backward()` averages the gradients / "
                    "Hooks: run code in the backward pass / Exercise: write your own DDP / "
                    "Overlap communication with computation / Group gradients into buckets / "
                    "Gradient accumulation with `no_sync` / Unused parameters: `find_unused_parameters` / "
                    "`device_ids` does not move the model / Do you know it? / What you have now",
                ),
                BREAK,
                Take(
                    8,
                    "Load MNIST / Train with DDP: the complete program / Exercise: exact accuracy over all ranks / "
                    "Checkpoints: three common mistakes / Exercise: save a checkpoint / Resume from a checkpoint / "
                    "Measure strong scaling / Do you know it? / What you have now",
                ),
                Take(
                    9,
                    "opening / Read the arguments, and join the group / Load the data with `DistributedSampler` / "
                    "One step: gradient accumulation, clipping, schedule / Evaluate, save and resume / "
                    "Loop over the epochs / Start the script with torchrun / "
                    "Change one line, and compare with one process / It breaks: a collective on one rank only / "
                    "No error, but wrong / Exercise: repair a training step",
                ),
                in_hand(12),
                LUNCH,
                Take(
                    10,
                    "opening / Global batch and learning rate: linear scaling, warm-up / "
                    "BatchNorm on shards: SyncBatchNorm, GroupNorm / Mean of means: unequal numbers of tokens",
                ),
                Take(
                    11,
                    "opening / Four symptoms of a broken job / A collective that only some ranks call / "
                    "Uneven batches: a hang at the end of an epoch / Exercise: a mean when some ranks have no data / "
                    "Mismatched collectives: a different order / A forgotten wait on an async collective / "
                    "Exercises: fix a send deadlock and a group hang / DDP's hidden collectives / "
                    "Hang or straggler? When only a timeout can tell / "
                    "What PyTorch reports: timeouts and TORCH_DISTRIBUTED_DEBUG / "
                    "NCCL timeouts: watchdog and Flight Recorder / Silent errors: compare with one process / "
                    "Troubleshooting table / Practice reading messages / Debug your own script with explain",
                ),
                BREAK,
                Take(
                    12,
                    "opening / Move a function into a script / Start the script with torchrun / "
                    "Tell `RANK` from `LOCAL_RANK` / When a rank fails: find the root cause / "
                    "Restart after a failure / Exercise: make training restartable / What you have now",
                ),
                Take(
                    13,
                    "opening / Simulate two nodes / Run the same cell on two nodes / "
                    "Start torchrun on every node: the rendezvous / Choose the network interface / "
                    "Which failures are silent / Pull the network cable",
                ),
                in_hand(25),
                Take(15, "opening / The contract"),
                GOODBYE,
            ),
        ),
    ),
}
