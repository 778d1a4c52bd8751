"""The commands of an author: `python -m authoring notebooks`, `new-lesson`, `sample` and others."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from authoring import beginning, hosted, samples


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m authoring", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    store = commands.add_parser("notebooks", help="run lessons and store their outputs with the smallest diff")
    store.add_argument("lessons", nargs="*", metavar="LESSON", help="a number or a part of a name (default: all)")
    store.add_argument("--twice", action="store_true", help="run each twice, and name the cells that differ")
    store.add_argument("--pictures", action="store_true", help="also store all new pictures")
    lesson = commands.add_parser("new-lesson", help="create a lesson: notebook, questions, page for instructors")
    lesson.add_argument("title", help="its title; it gets the next number")
    sample = commands.add_parser("sample", help="draw paragraphs or messages at random, to judge their English")
    sample.add_argument("kind", choices=samples.KINDS)
    sample.add_argument("--count", type=int, default=60)
    sample.add_argument("--seed", type=int, help="the seed that an earlier sample printed")
    jobs = commands.add_parser("clinic", help="run the broken jobs of the clinic and keep what they leave behind")
    jobs.add_argument("cases", nargs="*", type=int, metavar="CASE", help="the number of a case (default: all)")
    commands.add_parser("hosted", help="write the lessons for Colab and Kaggle")
    options = parser.parse_args(arguments)
    try:
        if options.command == "notebooks":
            from authoring import notebooks  # imports what runs kernels, which takes a second

            return notebooks.store_all(Path.cwd(), options.lessons, options.twice, options.pictures)
        if options.command == "clinic":
            from authoring import clinic  # imports what starts jobs

            print("\n".join(clinic.make_all(options.cases)))
        elif options.command == "hosted":
            print("\n".join(hosted.write_all(Path.cwd())))
        elif options.command == "sample":
            print("\n".join(samples.drawn(Path.cwd(), options.kind, options.count, options.seed)))
        else:
            print("\n".join(beginning.lesson(Path.cwd(), options.title)))
    except ValueError as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
