"""Inside a rank of a script: run it as Python would, watched, and write down what was seen of it.

torchrun starts it: `python -m ddp_lessons.sameness.watched_script FOLDER SETTINGS script.py its arguments`.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

from ddp_lessons.sameness.rank_watch import watching
from ddp_lessons.sameness.run_records import failure_in, file_of, write_record


def main() -> None:
    folder, watch, script = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    del sys.argv[:3]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    rank = int(os.environ["RANK"])
    with watching(rank, (), **watch) as watcher:
        try:
            runpy.run_path(script, run_name="__main__")
        except Exception:
            failure_in(folder).write_text(traceback.format_exc(), encoding="utf-8")
            raise
        finally:
            write_record(watcher.record(), file_of(folder, rank))


if __name__ == "__main__":
    main()
