"""Broken solutions, made from right ones: the part that has to fail, and words of its message and of its advice."""

from __future__ import annotations

from right_styles import BACKWARD, BY_HAND, CLIP, RIGHT, changed

HAND = RIGHT["gradients added up by hand"]
NUMBER = "(tags[batch] != PADDING).sum()  # of all ranks: each token has the same weight"
SHARD = "parts = batch[rank::world_size].split(MICRO_BATCH)"
SAVE = 'torch.save({"epoch": epoch + 1, **states}, f"{args.checkpoint}.new")'
REPLACE = 'os.replace(f"{args.checkpoint}.new", args.checkpoint)'
SUMS = "    dist.all_reduce(sums)\n    loss, correct, tested = sums.tolist()\n"
INIT = '    dist.init_process_group("gloo")\n'
IMPORT = ("import os\n", "import os\nimport time\n")
ALL_PRINT = ("        if dist.get_rank() == 0:\n            print", "        if True:\n            print")
OUT = "    if args.out and dist.get_rank() == 0:\n"
DESTROY = "    dist.destroy_process_group()\n"
SEED = "    torch.manual_seed(0)\n"


SAME, KILLED, UNEVEN, SLOW = "the same as one process", "killed and resumed", "uneven data", "a slow rank"
BROKEN = {
    "every rank trains on the whole batch": (
        changed((SHARD, "parts = batch.split(MICRO_BATCH)"), (BACKWARD, "loss.backward()")),
        (SAME, "Every rank trains on every sample, so the ranks share no work.", "batch[rank::world_size]"),
    ),
    "a mean of means over tokens": (
        changed((NUMBER, "(tags[batch[rank::world_size]] != PADDING).sum()"), (BACKWARD, "loss.backward()")),
        (SAME, "on 2 ranks, the gradients differ at step 0.", ""),
    ),
    "DDP's division is forgotten": (
        changed((BACKWARD, "loss.backward()")),
        (SAME, "on 2 ranks, the gradients differ at step 0.", "DDP divides by world_size: multiply the loss by"),
    ),
    "clipping before the gradients are added up": (
        changed((BY_HAND + CLIP, CLIP + BY_HAND), source=HAND),
        (SAME, "on 2 ranks, the gradients differ at step 0.", ""),
    ),
    "the learning rate grows with the ranks": (
        changed(("lr=1.0", "lr=1.0 * dist.get_world_size()")),
        (SAME, "on 2 ranks, the weights differ after step 0.", "use the same learning rate and schedule"),
    ),
    "an optimizer that never steps": (
        changed(("        optimizer.step()\n", "")),
        (SAME, "Could not tell whether it is the same training: no optimizer from torch.optim took a step", ""),
    ),
    "a rank that ends before Python does": (
        changed((DESTROY, DESTROY + "    os._exit(0)\n")),
        (SAME, "or ended before its steps could be recorded.", "end the script by returning from main()"),
    ),
    "the epoch is not resumed": (
        changed(('        first_epoch = saved["epoch"]\n', "")),
        (KILLED, "it repeats finished epochs.", "start at its epoch"),
    ),
    "no optimizer state in the checkpoint": (
        changed(
            ('{"model": net, "optimizer": optimizer, "schedule": schedule}', '{"model": net, "schedule": schedule}')
        ),
        (KILLED, "After resuming, the final weights are off by", "the optimizer (whose state holds the momentum)"),
    ),
    "all ranks write the checkpoint": (
        changed(
            ALL_PRINT,
            (SAVE, SAVE.replace(".new", ".{dist.get_rank()}")),
            (REPLACE, REPLACE.replace(".new", ".{dist.get_rank()}")),
        ),
        (KILLED, "2 ranks write the checkpoint", "save on rank 0 only"),
    ),
    "the checkpoint is overwritten in place": (
        changed((SAVE, SAVE.replace(', f"{args.checkpoint}.new"', ", args.checkpoint")), (REPLACE, "pass")),
        (KILLED, "a kill during the write leaves a broken file.", "os.replace"),
    ),
    "all ranks write the same file": (
        changed(ALL_PRINT, (REPLACE, "time.sleep(0.2)\n                " + REPLACE), IMPORT),
        (
            KILLED,
            "On 2 ranks, the script failed: FileNotFoundError: [Errno 2] No such file or directory: 'FILE.pt.new'",
            "let only rank 0 save",
        ),
    ),
    "no checkpoint": (
        changed(("            if args.checkpoint:\n", "            if False:\n")),
        (KILLED, "The script did not write the file given by --checkpoint.", ""),
    ),
    "test samples repeated so that all ranks have as many": (
        changed(
            (
                "torch.arange(dist.get_rank(), TEST, dist.get_world_size())",
                "(torch.arange(dist.get_rank(), TEST + TEST % dist.get_world_size(), dist.get_world_size()) % TEST)",
            )
        ),
        (UNEVEN, "On 2 ranks, `tested` is 302 instead of 301: some samples are counted twice.", "without padding"),
    ),
    "the last test sample is left out": (
        changed(("torch.arange(dist.get_rank(), TEST,", "torch.arange(dist.get_rank(), TEST // 2 * 2,")),
        (UNEVEN, "`tested` is 300 instead of 301: some samples are left out.", "without padding"),
    ),
    "a mean of means in the test loss": (
        changed(
            (SUMS, "    sums[0] /= (tags[dist.get_rank() :: dist.get_world_size()] != PADDING).sum()\n" + SUMS),
            ('"test_loss": loss / (tags != PADDING).sum().item()', '"test_loss": loss / dist.get_world_size() * 1.01'),
        ),
        (UNEVEN, "test_loss is", "divide once at the end"),
    ),
    "results of rank 0 only": (
        changed(("    dist.all_reduce(total)\n", ""), ("    dist.all_reduce(sums)\n", "")),
        (
            UNEVEN,
            "On 2 ranks, `tested` is 151 instead of 301: only one rank's share is counted.",
            "sums and counts on each rank, all_reduce them",
        ),
    ),
    "train loss of rank 0 only": (
        changed(("    dist.all_reduce(total)\n", "")),
        (UNEVEN, "On 2 ranks, train_loss is", "divide once at the end"),
    ),
    "the smaller last batch is dropped": (
        changed(("in order.split(BATCH)", "in order[: TRAIN // BATCH * BATCH].split(BATCH)")),
        (UNEVEN, "On 2 ranks, 0 extra training samples enter the model and 58 are lost in two epochs.", ""),
    ),
    "the last checkpoint is read again before rank 0 has written it": (
        changed(
            (
                OUT,
                "    if args.checkpoint and dist.get_rank() == 1:\n"
                "        time.sleep(0.5)\n"
                '        net.load_state_dict(torch.load(args.checkpoint, weights_only=True)["model"])\n' + OUT,
            ),
            IMPORT,
        ),
        (SLOW, "With a late and a slow rank, the final weights are off by", "dist.barrier()"),
    ),
    "a collective call on rank 0 only": (
        changed((OUT, "    if dist.get_rank() == 0:\n        dist.barrier()\n    time.sleep(600)\n" + OUT), IMPORT),
        (
            KILLED,
            "Hang or timeout: on 2 ranks, the script did not end within",
            "explain --nproc-per-node 2 my_train.py --epochs 3 --checkpoint FILE.pt --out FILE.json`",
        ),
    ),
    "an exception on the second rank": (
        changed((SEED, SEED + "    if dist.get_rank() == 1:\n        raise ValueError('no data')\n")),
        (KILLED, "On 2 ranks, the script failed: ValueError: no data.", "python -m ddp_lessons explain"),
    ),
    "no --out": (
        changed(("if args.out and dist.get_rank() == 0:", "if False:")),
        (KILLED, "to the file given by --out (FileNotFoundError:", "let rank 0 write train_loss, test_loss, correct"),
    ),
    "garbage in --out": (
        changed(("json.dump(result, file)", "file.write('loss: 0.1')")),
        (
            KILLED,
            "the script does not write a JSON object of numbers to the file given by --out (JSONDecodeError:",
            "",
        ),
    ),
    "a result without a number": (
        changed(('"tested": tested}', '"seen": tested}')),
        (KILLED, "write a JSON object of numbers to the file given by --out (KeyError: 'tested').", ""),
    ),
    "unknown arguments": (
        changed(('    parser.add_argument("--out")\n', "")).replace("args.out", "None"),
        (KILLED, "unrecognized arguments: --out", ""),
    ),
    "endless output": (
        changed((INIT, INIT + "    while True:\n        print('x' * 100_000)\n")),
        (KILLED, "printed more than 20 MB.", "print one line per epoch"),
    ),
}
