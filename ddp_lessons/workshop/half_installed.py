"""Forget packages that are only half installed: python -m ddp_lessons.workshop.half_installed

After an interrupted installation, pip and uv treat a package with half of its files as complete. Without its entry it
is installed again. (A name with ~ is the old version, put aside during an upgrade.)
"""

from __future__ import annotations

import csv
import pathlib
import shutil
import sysconfig


def forget() -> None:
    site = pathlib.Path(sysconfig.get_path("purelib"))
    for info in [*site.glob("*.dist-info"), *site.glob("~*")]:
        record = info / "RECORD"
        rows = csv.reader(record.read_text(encoding="utf-8").splitlines()) if record.is_file() else [["nothing", "0"]]
        sizes = {site / row[0]: row[-1] for row in rows if row and row[-1]}
        if not all(file.is_file() and str(file.stat().st_size) == size for file, size in sizes.items()):
            print("The last set-up was cut off, so this is installed again:", info.name)
            shutil.rmtree(info)


if __name__ == "__main__":
    forget()
