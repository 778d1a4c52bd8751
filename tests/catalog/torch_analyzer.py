"""What torch's own analyzer of Flight Recorder dumps prints about a folder of them."""

import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ddp_lessons.dumps.aligned_calls import Groups
from ddp_lessons.dumps.dump_files import Unreadable, find_dumps, read_dump
from ddp_lessons.dumps.dumped_calls import CallReader

DEFAULT = "default_pg"


def ask_torch(folder: Path) -> str:
    """All that it logs; its exception, if it ends with one."""
    from torch.distributed.flight_recorder.components.fr_logger import FlightRecorderLogger
    from torch.distributed.flight_recorder.fr_trace import main

    said: list[str] = []
    listener = logging.Handler()
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = FlightRecorderLogger().logger
    shown, logger.handlers, logger.propagate = logger.handlers, [listener], False
    try:
        main([str(folder), "--prefix", "rank_", "--allow-incomplete-ranks"])
    except (Exception, SystemExit) as error:
        said.append(f"{type(error).__name__}: {error}")
    finally:
        logger.handlers = shown
    return "\n".join(said)


def with_groups(folder: Path, copy: Path) -> Path:
    """Fill in the groups, as far as calls show them: gloo leaves them out, and torch's analyzer needs them."""
    contents: dict[int, Mapping[str, Any]] = {}
    for rank, path in find_dumps(str(folder / "rank_"))[0].items():
        try:
            contents[rank] = read_dump(path)
        except Unreadable:
            continue
    reader = CallReader()
    groups = Groups({rank: reader.read(rank, content, 0.0) for rank, content in contents.items()})
    copy.mkdir()
    for rank, content in contents.items():
        named = dict(entry["process_group"] for entry in content.get("entries") or [])
        config = {
            name: {"name": name, "desc": said, "ranks": str(list(groups.members(rank, name)))}
            for name, said in named.items()
        }
        (copy / f"rank_{rank}").write_bytes(pickle.dumps({**content, "pg_config": config}))
    return copy
