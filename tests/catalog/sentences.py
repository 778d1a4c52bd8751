"""What the messages of the catalog say, in one file: `python tests/catalog/sentences.py` rewrites it.

Each begins with the name of its program and the key of the failure. What each rank was doing is left out, as a failure
finds the other ranks at one of several lines.
"""

import re
import sys
from pathlib import Path

SENTENCES = Path(__file__).with_suffix(".txt")
_OF_EACH_RANK = re.compile(
    r"    rank \d   |        called|  Nodes: |  torchrun would|  Ranks? \d.*(stopped|lost the connection|killed by)"
)


def cause(message: str) -> list[str]:
    return [line for line in message.splitlines() if not _OF_EACH_RANK.match(line)]


def stored() -> dict[str, list[str]]:
    """By the name of the program."""
    blocks = SENTENCES.read_text(encoding="utf-8").split("\n\n")
    return {block.partition(":")[0]: block.strip().splitlines() for block in blocks}


def main() -> None:
    from catalog.failures_on_nodes import cases, outcome

    told = [outcome(case).sentences(case) for case in cases() if case.is_stored]
    SENTENCES.write_text("\n\n".join("\n".join(lines) for lines in told) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
