"""Fetch the digits ahead of a workshop, look whether they are whole, and say where they lie."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from pathlib import Path

from ddp_lessons.workshop.remedies import python_as_typed


def prepare(folder: str | None = None, only_made: bool = False) -> int:
    """Have the digits ready, say what there is, and return the exit status: 1 if what was asked for is not there."""
    from ddp_lessons.train import digits, mnist
    from ddp_lessons.train.fetching import NotFetched

    asked = folder or os.environ.get("DDP_LESSONS_MNIST")
    if not folder and asked == "made":
        print("The variable DDP_LESSONS_MNIST says: digits made on the spot.")
        only_made = True
    failure = ""
    try:
        if only_made:
            _say_where("Digits made on the spot", [digits.made_file(train) for train in (True, False)])
        elif asked:
            with digits.named_by_the_variable() if not folder else contextlib.nullcontext():
                given = Path(asked).expanduser().absolute()
                files = [digits.mnist_file_from(given, train) for train in (True, False)]
            print(f"MNIST in {asked}: all four files have the right sums.")
            _say_where("MNIST, ready for the lessons", files)
        else:
            try:
                digits.fetch_mnist()
            except (NotFetched, OSError) as error:
                failure = f"MNIST is not here: {error}."
                _say_where("Digits made on the spot", [digits.made_file(train) for train in (True, False)])
            else:
                files = [file for train in (True, False) if (file := digits.mnist_file(train)) is not None]
                print("MNIST: the sums are right.")
                _say_where("MNIST, ready for the lessons", files)
    except (mnist.NotMnist, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(_which_the_lessons_use(folder, digits.has_mnist()))
    if failure:
        print(failure, file=sys.stderr)
        print(
            "Try again where there is a network; or copy a folder with MNIST/raw to this machine and type: "
            f"{python_as_typed()} -m ddp_lessons data --folder FOLDER",
            file=sys.stderr,
        )
    return int(bool(failure))


def _say_where(what: str, files: list[Path]) -> None:
    size = sum(file.stat().st_size for file in files)
    free = shutil.disk_usage(files[0].parent).free
    print(f"{what}: {size / 1e6:.0f} MB in {files[0].parent} ({free / 1e9:.1f} GB free)")
    for file in files:
        print(f"  {file.name}")


def _which_the_lessons_use(folder: str | None, has_mnist: bool) -> str:
    variable = os.environ.get("DDP_LESSONS_MNIST")
    if variable == "made":
        return "The lessons use: digits made on the spot, as the variable DDP_LESSONS_MNIST says."
    if variable:
        other = f" (not {folder}: the variable comes first)" if folder and folder != variable else ""
        return f"The lessons use: MNIST from {variable}, as the variable DDP_LESSONS_MNIST says{other}."
    if has_mnist:
        return "The lessons use: MNIST."
    return (
        "The lessons use: digits made on the spot. If there is a network when a lesson needs them, it fetches MNIST "
        "and uses that."
    )
