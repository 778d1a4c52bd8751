"""Make every mistake of the catalog: how soon is it reported, is the message right, and what does it leave behind?"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from statistics import median

from catalog.findings import Finding, make, next_is_right
from catalog.mistakes import MISTAKES, Mistake

from .comparison import EIGHT, WORLD_SIZE, compare
from .load import busy_cores
from .measurement import Target, at_most
from .tables import table, target_table


def standstill_table(findings: Sequence[Finding], markdown: bool) -> str:
    rows = []
    for mistake in dict.fromkeys(finding.mistake for finding in findings):
        made = [finding for finding in findings if finding.mistake is mistake]
        sizes = ", ".join(str(size) for size in sorted({finding.world_size for finding in made}))
        right = sum(not finding.missing for finding in made)
        rows.append(
            (
                f"{mistake.kind} {mistake.name}",
                mistake.alone,
                sizes,
                f"{median(finding.seconds for finding in made):.2f}",
                f"{max(finding.seconds for finding in made):.2f}",
                f"{right} of {len(made)}",
                "yes" if all(finding.is_alive for finding in made) else "NO",
                str(sum(finding.left for finding in made)),
            )
        )
    header = ("mistake", "torch alone", "ranks", "median s", "worst s", "said right", "next right", "left over")
    return table(header, rows, markdown)


def promises(findings: Sequence[Finding]) -> list[Target]:
    seconds = [finding.seconds for finding in findings]
    wrong = sum(bool(finding.missing) for finding in findings)
    return [
        at_most("from standstill to exception, median", median(seconds), 1.0),
        at_most("from standstill to exception, worst", max(seconds), 2.0),
        at_most("not said right", wrong, 0, ""),
        at_most("next launches that were not right", sum(not finding.is_alive for finding in findings), 0, ""),
        at_most("processes left over", sum(finding.left for finding in findings), 0, ""),
    ]


def complaints(findings: Sequence[Finding]) -> list[str]:
    return [
        f"{finding.mistake.name}, {finding.world_size} ranks: {'; '.join(finding.missing)}"
        for finding in findings
        if finding.missing
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.standstills", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these mistakes (all)")
    parser.add_argument("--ranks", type=int, nargs="+", help="only these world sizes (all that make sense)")
    parser.add_argument("--times", type=int, default=1, help="runs of each (1)")
    parser.add_argument("--load", action="store_true", help="keep one core busy at the same time")
    parser.add_argument("--compare", action="store_true", help="compare eight of them with torch's own tools instead")
    parser.add_argument("--show", action="store_true", help="also print each message")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    asked = parser.parse_args()
    if not any(wanted(asked)):
        parser.error("no mistake has this name and this world size")
    return asked


def wanted(asked: argparse.Namespace) -> Iterator[tuple[Mistake, int]]:
    for mistake in MISTAKES:
        if not asked.names or mistake.name in asked.names:
            for world_size in mistake.world_sizes:
                if not asked.ranks or world_size in asked.ranks:
                    yield mistake, world_size


def made_by_request(asked: argparse.Namespace) -> Iterator[Finding]:
    for mistake, world_size in wanted(asked):
        for _ in range(asked.times):
            finding = make(mistake, world_size)
            said = f"{mistake.name}, {world_size} ranks: {finding.seconds:.2f} s {'; '.join(finding.missing)}"
            print(said, file=sys.stderr, flush=True)
            if asked.show:
                print(finding.ended, end="\n\n")
            yield finding


def seconds_and_message(mistake: Mistake) -> tuple[float, str]:
    finding = make(mistake, WORLD_SIZE)
    return finding.seconds, str(finding.ended)


def main() -> int:
    asked = arguments()
    next_is_right()  # torch is imported, and the first processes exist
    if asked.compare:
        print(compare(seconds_and_message, asked.names or EIGHT, asked.markdown))
        return 0
    with busy_cores(int(asked.load)):
        findings = list(made_by_request(asked))
    targets = promises(findings)
    print(standstill_table(findings, asked.markdown), target_table(targets, asked.markdown), sep="\n\n")
    print(*complaints(findings), sep="\n")
    return int(asked.strict and not all(target.met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
