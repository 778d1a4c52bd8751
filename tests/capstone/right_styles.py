"""Right solutions of another style than the model solution, made from it by changing some lines."""

from __future__ import annotations

from pathlib import Path

MODEL = (Path(__file__).parent / "right" / "ddp.py").read_text(encoding="utf-8")


def changed(*changes: tuple[str, str], source: str = MODEL) -> str:
    """The model solution with these pieces replaced, each of which is in it once."""
    for old, new in changes:
        assert source.count(old) == 1, f"{source.count(old)} times: {old}"
        source = source.replace(old, new)
    return source


NO_SYNC = "with nullcontext() if part is parts[-1] else model.no_sync():"
BACKWARD = "(loss * world_size).backward()  # DDP divides by world_size"
CLIP = "        nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.2)\n"
BY_HAND = "        for parameter in model.parameters():\n            dist.all_reduce(parameter.grad)\n"
LOSS = (
    "                loss = nn.functional.cross_entropy"
    '(model(tokens[part]), tags[part], reduction="sum") / token_count\n'
)

RIGHT = {
    "DDP with no_sync": MODEL,
    "gradients added up by hand": changed(
        (NO_SYNC, "with nullcontext():"),
        (BACKWARD, "loss.backward()"),
        (CLIP, BY_HAND + CLIP),
        ("model = DistributedDataParallel(net)", "model = net"),
    ),
    "DDP without accumulation, tokens counted by all_reduce": changed(
        (
            "        token_count = (tags[batch] != PADDING).sum()  # of all ranks: each token has the same weight\n",
            "        mine = batch.tensor_split(world_size)[rank]\n"
            "        token_count = (tags[mine] != PADDING).sum()\n"
            "        dist.all_reduce(token_count)\n",
        ),
        ("parts = batch[rank::world_size].split(MICRO_BATCH)", "parts = [mine]"),
    ),
}
