"""Causes of a difference in the samples that entered the model: what the counts of the samples say."""

from __future__ import annotations

from collections import Counter

from ddp_lessons.run.diagnosis.wording import count, ranks_named
from ddp_lessons.sameness.cause_table import Finding, finding
from ddp_lessons.sameness.first_difference import Comparison
from ddp_lessons.sameness.run_records import Run


def sample_cause(comparison: Comparison) -> Finding | None:
    """Why other samples entered, or None where they did not, or the samples do not tell."""
    step, one, many = comparison.other_samples_at, comparison.one, comparison.many
    if step is None:
        return None
    ranks = many.world_size
    whole, parts = one.samples(step)[0], many.samples(step)  # of this step, on one rank and on each of several
    together: Counter[int] = sum(parts, Counter())
    lost, doubled = whole - together, together - whole
    unknown = Counter({sample: number for sample, number in doubled.items() if sample not in one.all_samples})
    more, fewer = many.all_samples - one.all_samples, one.all_samples - many.all_samples  # over the run
    is_made = all(steps > step for steps in many.steps)  # by every rank
    passes = [len(record.samples) for record in many.at(step)] if is_made else [0]
    late = [rank for rank, number in enumerate(passes) if number > min(passes)]
    have_same = ranks > 1 and bool(together) and all(part == parts[0] for part in parts)
    have_all = ranks > 1 and all(samples == one.all_samples for samples in many.samples_of_ranks)
    same, all_of_one = (count(samples.total(), "sample") for samples in (parts[0], one.all_samples))

    # a table: the first row that holds
    rows = {
        "extra_step": is_made and bool(whole) and not together,
        "skipped_step": bool(late) and all(many.steps[rank] < max(many.steps) for rank in late),
        "not_sharded": have_same or have_all,
        "global_batch": _is_of_another_size(whole, together, ranks, step > 0, many),
        "other_inputs": unknown.total() * 2 > doubled.total(),
        "padded_samples": bool(doubled) and not (lost or doubled - one.all_samples),
        "lost_samples": bool(lost) and not doubled,
        "overlapping_shards": bool(lost and doubled and more and fewer),
        "sample_order": bool(lost and doubled and not fewer) and whole.total() == together.total(),
    }
    key = next((key for key, holds in rows.items() if holds), None)
    if key is None:
        return None
    return finding(
        key,
        step=step,
        ranks=count(ranks, "rank"),
        late=ranks_named(late) if late else "",
        Late=ranks_named(late).capitalize() if late else "",
        most=max(passes),
        fewest=min(passes),
        gets=f"gets the same {same}" if have_same else f"goes through all {all_of_one} in its own order",
        entered=count(together.total(), "sample"),
        whole=f"{whole.total():,}",
        share=f"{whole.total() // ranks:,}" if whole.total() % ranks == 0 else f"{whole.total():,} // {ranks}",
        unknown=unknown.total(),
        Doubled=count(doubled.total(), "sample"),
        Lost=count(lost.total(), "sample"),
        more=count(more.total(), "sample"),
        fewer=count(fewer.total(), "sample"),
    )


def _is_of_another_size(whole: Counter[int], together: Counter[int], ranks: int, is_later: bool, many: Run) -> bool:
    """The ranks have some of the samples of one rank, and as many more or fewer as a batch size explains."""
    lost, doubled, size = whole - together, together - whole, together.total()
    if size == whole.total() or not whole & together:
        return False
    is_larger = not lost and len(doubled) >= ranks and not doubled & whole
    drops_remainder = is_later and size == whole.total() - whole.total() % ranks  # of a last batch, say
    is_smaller = not (doubled or drops_remainder or lost - many.all_samples)
    return size == ranks * whole.total() or is_larger or is_smaller
