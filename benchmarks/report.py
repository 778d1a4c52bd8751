"""The tables of what was measured."""

from collections.abc import Mapping, Sequence

from .beginnings import MANY, Beginnings
from .measurement import Series
from .memory import IdleRanks
from .promises import Contestants, ratio, references
from .tables import table
from .tools import Tool


def seconds_or_trouble(series: Series) -> str:
    seconds = [] if series.median is None else [f"{series.median:.3f}"]
    return ", ".join([*seconds, *filter(None, [series.trouble])]) or "-"


def spread(series: Series) -> str:
    return "" if series.median is None else f"{min(series.seconds):.3f}-{max(series.seconds):.3f}"


def launch_table(launches: Mapping[int, Contestants], markdown: bool) -> str:
    """One row per tool; the ratios are those of the larger world size."""
    header = ["cell to answer, seconds"]
    for world_size in launches:
        header += [f"{world_size} ranks, first", "later"]
    header += ["min-max", "/ floor", "/ best peer", "/ mp.spawn", "launches"]
    return table(header, [launch_row(launches, tool) for tool in launches[max(launches)]], markdown)


def launch_row(launches: Mapping[int, Contestants], tool: Tool) -> list[str]:
    row = [tool.title]
    for contestants in launches.values():
        first = seconds_or_trouble(contestants[tool].first) if tool.has_pauses else ""
        row += [first, seconds_or_trouble(contestants[tool].later)]
    larger = launches[max(launches)]
    later = larger[tool].later
    ratios = [ratio(later.median, reference) for reference in references(larger)]
    row += [spread(later), *("" if number is None else f"{number:.3g}" for number in ratios), str(len(later.seconds))]
    return row


def beginning_table(found: Beginnings, markdown: bool) -> str:
    launch = f"launch of {found.world_size}"
    named: list[tuple[str, Series]] = [
        ("import torch, fresh process", found.import_torch),
        ("from ddp_lessons import launch, fresh process", found.import_ours),
        (f"a whole first cell: both imports and a {launch}", found.whole_first_cell),
        (f"first {launch}, right after the import", found.at_once),
        (f"first {launch}, after 5 s of reading", found.after_reading),
        (f"later {launch} in the same kernel", found.later),
        (f"a cell of {found.world_size} standing ranks with an all_reduce", found.standing),
        (f"launch of {MANY}", found.many),
    ]
    rows = [(title, seconds_or_trouble(series), spread(series), str(len(series.seconds))) for title, series in named]
    return table(("the beginning of a notebook, seconds", "median", "min-max", "times"), rows, markdown)


def memory_table(idle: Sequence[IdleRanks], markdown: bool) -> str:
    counts = sorted({count for ranks in idle for count in ranks.megabytes})
    rows = [[ranks.title, *(weight(ranks, count) for count in counts), slope(ranks)] for ranks in idle]
    header = ["kernel and all its processes, MB", *(f"{count} idle" for count in counts), "each further rank"]
    return table(header, rows, markdown)


def weight(ranks: IdleRanks, count: int) -> str:
    if ranks.trouble:
        return "failed"
    return f"{ranks.megabytes[count]:.0f}" if count in ranks.megabytes else ""


def slope(ranks: IdleRanks) -> str:
    return "" if ranks.per_further_rank is None else f"{ranks.per_further_rank:.1f}"
