"""Broken solutions, made from right ones: the part that has to fail, and the words of its message."""

from __future__ import annotations

from dataclasses import dataclass

from right_styles import BACKWARD, BY_HAND, CLIP, MODEL, RIGHT, changed

HAND = RIGHT["gradients added up by hand"]
NUMBER = "(tags[batch] != PADDING).sum()  # of all ranks: each token has the same weight"
SHARD = "parts = batch[rank::world_size].split(MICRO_BATCH)"
SAVE = 'torch.save({"epoch": epoch + 1, **states}, f"{asked.checkpoint}.new")'
REPLACE = 'os.replace(f"{asked.checkpoint}.new", asked.checkpoint)'
SAVING = "            if asked.checkpoint:\n"
SUMS = "    dist.all_reduce(sums)\n    loss, correct, tested = sums.tolist()\n"
INIT = '    dist.init_process_group("gloo")\n'
OUT = "    if asked.out and dist.get_rank() == 0:\n"
SEED = "    torch.manual_seed(0)\n"


@dataclass(frozen=True)
class Broken:
    source: str
    part: str
    said: str  # a part of the message
    advice: str = ""
    limit: float = 200.0  # seconds for a run
    lines: tuple[str, ...] = ()  # parts of the lines after the message


BROKEN = {
    "every rank trains on the whole batch": Broken(
        changed((SHARD, "parts = batch.split(MICRO_BATCH)"), (BACKWARD, "loss.backward()")),
        "the same as one process",
        "every rank trains on every sample, so the ranks share no work.",
        "batch[rank::world_size]",
    ),
    "a mean of means over tokens": Broken(
        changed((NUMBER, "(tags[batch[rank::world_size]] != PADDING).sum()"), (BACKWARD, "loss.backward()")),
        "the same as one process",
        "on 2 ranks the gradients differ at step 0.",
    ),
    "DDP's division is forgotten": Broken(
        changed((BACKWARD, "loss.backward()")),
        "the same as one process",
        "on 2 ranks the gradients differ at step 0.",
        "DDP divides by world_size: multiply the loss by world_size",
    ),
    "clipping before the gradients are added up": Broken(
        changed((BY_HAND + CLIP, CLIP + BY_HAND), source=HAND),
        "the same as one process",
        "on 2 ranks the gradients differ at step 0.",
    ),
    "the learning rate grows with the ranks": Broken(
        changed(("lr=1.0", "lr=1.0 * dist.get_world_size()")),
        "the same as one process",
        "on 2 ranks the weights differ after step 0.",
        "use the same learning rate and schedule",
    ),
    "an optimizer that never steps": Broken(
        changed(("        optimizer.step()\n", "")),
        "the same as one process",
        "Could not tell whether it is the same training: no optimizer of torch.optim made a step",
    ),
    "the epoch is not resumed": Broken(
        changed(('        first = saved["epoch"]\n', "")),
        "killed and resumed",
        "it trains finished epochs again.",
        "start at its epoch",
    ),
    "no optimizer state in the checkpoint": Broken(
        changed(
            ('{"model": net, "optimizer": optimizer, "schedule": schedule}', '{"model": net, "schedule": schedule}')
        ),
        "killed and resumed",
        "after the resume the final weights differ by",
        "the checkpoint holds no optimizer state, such as momentum: save and restore model, optimizer, schedule and",
    ),
    "all ranks write the checkpoint": Broken(
        changed(
            ("        if dist.get_rank() == 0:\n            print", "        if True:\n            print"),
            (SAVE, SAVE.replace(".new", ".{dist.get_rank()}")),
            (REPLACE, REPLACE.replace(".new", ".{dist.get_rank()}")),
        ),
        "killed and resumed",
        "2 ranks write the checkpoint",
        "save on rank 0 only",
    ),
    "the checkpoint is overwritten in place": Broken(
        changed((SAVE, SAVE.replace(', f"{asked.checkpoint}.new"', ", asked.checkpoint")), (REPLACE, "pass")),
        "killed and resumed",
        "a kill during the write leaves a broken file.",
        "os.replace",
    ),
    "all ranks write the same file": Broken(
        changed(
            ("        if dist.get_rank() == 0:\n            print", "        if True:\n            print"),
            (REPLACE, "time.sleep(0.2)\n                " + REPLACE),
            ("import os\n", "import os\nimport time\n"),
        ),
        "killed and resumed",
        "on 2 ranks the script failed: FileNotFoundError: [Errno 2] No such file or directory: 'FILE.pt.new'",
        "let only rank 0 save",
    ),
    "no checkpoint": Broken(
        changed((SAVING, "            if False:\n")), "killed and resumed", "no file was written to --checkpoint."
    ),
    "test samples repeated so that all ranks have as many": Broken(
        changed(
            (
                "torch.arange(dist.get_rank(), TEST, dist.get_world_size())",
                "(torch.arange(dist.get_rank(), TEST + TEST % dist.get_world_size(), dist.get_world_size()) % TEST)",
            )
        ),
        "uneven data",
        "on 2 ranks, `tested` is 302 instead of 301: some samples are counted twice.",
        "without padding",
    ),
    "a mean of means in the test loss": Broken(
        changed(
            (SUMS, "    sums[0] /= (tags[dist.get_rank() :: dist.get_world_size()] != PADDING).sum()\n" + SUMS),
            ('"test_loss": loss / (tags != PADDING).sum().item()', '"test_loss": loss / dist.get_world_size() * 1.01'),
        ),
        "uneven data",
        "test_loss is",
        "divide once at the end",
    ),
    "results of rank 0 only": Broken(
        changed(("    dist.all_reduce(total)\n", ""), ("    dist.all_reduce(sums)\n", "")),
        "uneven data",
        "on 2 ranks, `tested` is 151 instead of 301: it is the share of one rank.",
        "sums and counts on each rank, all_reduce them",
        lines=("train_loss is", "test_loss is", "correct is"),
    ),
    "train loss of rank 0 only": Broken(
        changed(("    dist.all_reduce(total)\n", "")), "uneven data", "on 2 ranks, train_loss is"
    ),
    "the smaller last batch is dropped": Broken(
        changed(("in order.split(BATCH)", "in order[: TRAIN // BATCH * BATCH].split(BATCH)")),
        "uneven data",
        "on 2 ranks, 58 training samples are lost in two epochs.",
    ),
    "the last checkpoint is read again before rank 0 has written it": Broken(
        changed(
            (
                OUT,
                "    if asked.checkpoint and dist.get_rank() == 1:\n"
                "        time.sleep(0.5)\n"
                '        net.load_state_dict(torch.load(asked.checkpoint, weights_only=True)["model"])\n' + OUT,
            ),
            ("import os\n", "import os\nimport time\n"),
        ),
        "a slow rank",
        "with a late and a slow rank, the final weights differ by",
        "dist.barrier()",
    ),
    "a collective call on rank 0 only": Broken(
        changed(
            (OUT, "    if dist.get_rank() == 0:\n        dist.barrier()\n    time.sleep(600)\n" + OUT),
            ("import os\n", "import os\nimport time\n"),
        ),
        "killed and resumed",
        "hang or timeout: on 2 ranks the script did not end within",
        "python -m ddp_lessons explain --nproc-per-node 2",
        limit=40.0,
    ),
    "an exception on the second rank": Broken(
        changed((SEED, SEED + "    if dist.get_rank() == 1:\n        raise ValueError('no data')\n")),
        "killed and resumed",
        "on 2 ranks the script failed: ValueError: no data",
        "python -m ddp_lessons explain --nproc-per-node 2",
    ),
    "no --out": Broken(
        changed(("if asked.out and dist.get_rank() == 0:", "if False:")),
        "killed and resumed",
        "on 2 ranks the script ended without writing the file given by --out.",
    ),
    "garbage in --out": Broken(
        changed(("json.dump(result, file)", "file.write('loss: 0.1')")),
        "killed and resumed",
        "holds no JSON object of numbers.",
    ),
    "a result without a number": Broken(
        changed(('"tested": tested}', '"seen": tested}')),
        "killed and resumed",
        "the file given by --out has no number 'tested'.",
    ),
    "unknown arguments": Broken(
        changed(('    parser.add_argument("--out")\n', "")).replace("asked.out", "None"),
        "killed and resumed",
        "unrecognized arguments: --out",
    ),
    "endless output": Broken(
        changed((INIT, INIT + "    while True:\n        print('x' * 100_000)\n")),
        "killed and resumed",
        "printed more than 20 MB.",
    ),
}
assert MODEL not in [one.source for one in BROKEN.values()]
