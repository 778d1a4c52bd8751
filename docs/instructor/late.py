"""The sections that a plan skips when it is late, in this order. After a change, run write.py, as for plans.py.

The least important sections come first and exercises last, because learners remember what they typed. Each half of a
day has its own list, so that a late morning does not shorten the afternoon.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    lesson: int
    section: str  # empty: everything that the plan teaches of the lesson
    instead: str


LATE: dict[str, tuple[Cut, ...]] = {
    "half a day": (
        Cut(8, "Train with DDP: the complete program", "show the figure in `notebooks/08_mnist_with_ddp.ipynb`"),
        Cut(5, "Sum or mean, and the learning rate", "say: a sum over N ranks is N times the learning rate"),
        Cut(7, "", "say: DDP broadcasts rank 0's weights once, and averages gradients in `backward()`"),
        Cut(3, "Exercise: the mean over all ranks", "ask: which two numbers does a rank have to send?"),
    ),
    "one day": (
        Cut(3, "Mismatched shapes: a wrong result without an error", "nothing; it is lesson 11 in short"),
        Cut(2, "Measure latency and bandwidth", "say: seconds = latency + bytes / bandwidth"),
        Cut(5, "Unequal batch sizes", "say: weight unequal batches by their numbers of samples"),
        Cut(1, "", "say: each rank gets its number and an address, and joining waits for all ranks"),
        Cut(3, "Exercise: the mean over all ranks", "ask: which two numbers does a rank have to send?"),
        Cut(6, "Load MNIST", "nothing; run its cells, lesson 8 loads it again"),
        Cut(7, "Group gradients into buckets", "say: one call for many gradients, the last layers' first"),
        Cut(11, "Mismatched collectives: a different order", "say: all ranks make the same calls in the same order"),
        Cut(8, "Exercise: exact accuracy over all ranks", "say: add up two counts, divide once; homework"),
    ),
    "first day": (
        Cut(2, "Tags, and recv from any rank", "nothing"),
        Cut(0, "Do you know it?", "ask one of the questions to the whole room"),
        Cut(1, "All of it in one file: `mp.spawn`", "nothing; lesson 12 has scripts"),
        Cut(
            1,
            "When the port is taken: `EADDRINUSE`",
            "say: `EADDRINUSE` means that the port is taken; use a free one",
        ),
        Cut(2, "Exercise: pass a token around a ring", "say: in a ring, each rank sends to the next one"),
        Cut(5, "Explore: sum or mean, learning rate, batch sizes", "nothing; learners can play with it in the break"),
        Cut(
            4,
            "Tree: add up in pairs",
            "draw it on the board, but run its cells: *Cost model: latency and bandwidth* compares it",
        ),
        Cut(4, "Simulate a link for every rank", "nothing"),
        Cut(6, "shuffle=True in a DataLoader", "say: without a sampler, it gives every rank all the data"),
        Cut(5, "Put many gradients into one bucket", "say: a bucket is many gradients in one call; lesson 7 has more"),
        Cut(5, "Exercise: weight the gradients by batch size", "show the next section instead, with `scale_the_loss`"),
        Cut(6, "Exercise: a partitioner that loses no sample", "nothing; the notebook uses the package's partitioner"),
    ),
    "second day": (
        Cut(7, "`device_ids` does not move the model", "say: move the model first, then wrap it"),
        Cut(7, "Group gradients into buckets", "say: one call for many gradients, the last layers' first"),
        Cut(8, "Measure strong scaling", "say: more ranks than cores don't help"),
        Cut(9, "Exercise: repair a training step", "nothing; homework"),
        Cut(13, "Pull the network cable", "say: a pulled cable closes no connection; only a timeout ends the wait"),
        Cut(11, "What PyTorch reports: timeouts and TORCH_DISTRIBUTED_DEBUG", "say: `TORCH_DISTRIBUTED_DEBUG=DETAIL`"),
        Cut(10, "Mean of means: unequal numbers of tokens", "say: add up losses and counts of all ranks, divide once"),
    ),
}
