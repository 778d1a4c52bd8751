"""`python -m ddp_lessons explain`: of a script that is run now, of a job's dumps, or of its log."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeAlias

if TYPE_CHECKING:
    from ddp_lessons.run.output.cards import Kind

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]

_ENDINGS_OF_LOGS = (".log", ".txt", ".out", ".err", ".stdout", ".stderr")
_UNREADABLE = 2
_NEXT = "pass the folder with the dumps, or the prefix of their names (the value of TORCH_NCCL_DEBUG_INFO_TEMP_FILE)."


def add_explain(commands: Commands) -> None:
    after = argparse.ArgumentParser(add_help=False)  # these may follow DUMPS or LOG
    after.add_argument("--json", action="store_true", help="for dumps or a log: print the diagnosis as JSON")
    after.add_argument("--timeline", metavar="FILE", help="for dumps: also draw the calls of all ranks (.png or .svg)")
    after.add_argument("--trace", metavar="FILE", help="for dumps: also write a trace for Perfetto (ui.perfetto.dev)")
    tell = commands.add_parser(
        "explain",
        parents=[after],
        help="explain why a script, or a job that left dumps or a log, hangs: which rank waits for which",
        usage=f"{commands._prog_prefix} explain [options] SCRIPT ... | DUMPS | LOG",
        description="Run an unchanged script with torchrun, here or on the nodes of --on, and if it hangs or fails, "
        "show the same message as launch(). Without --nproc-per-node, the script must start its ranks itself. "
        "Exit status: the script's own; 1 if it hung or failed. Given a folder with dumps of torch's Flight Recorder, "
        "the prefix of their names, or a log of torchrun (.log, .txt, .out, .err), show the message for that job. Exit "
        "status: 0 if nothing hangs; 1 if something does; 2 if the files do not show it.",
    )
    tell.add_argument(
        "--nproc-per-node",
        type=int,
        metavar="N",
        help="start N ranks with torchrun; with --on: N on each node (default: 1)",
    )
    tell.add_argument(
        "--on",
        metavar="NODES",
        help="run on machines that you can reach with ssh (alpha,beta), or on all nodes of the current Slurm job "
        "(slurm); the script must have the same path there",
    )
    tell.add_argument(
        "--python", metavar="PATH", help="with --on: the path of Python on the nodes (default: the same as here)"
    )
    tell.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="stop the script after this time, and show where each rank is"
    )
    tell.add_argument("script", metavar="SCRIPT | DUMPS | LOG", help="the script, dumps or log")
    tell.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's arguments")
    tell.set_defaults(run=lambda chosen: _explain(chosen, after))


def add_record(commands: Commands) -> None:
    keep = commands.add_parser(
        "record",
        help="under torchrun: run a script, and write dumps of its calls when a rank makes no progress",
        usage="torchrun ... -m ddp_lessons record --to PREFIX SCRIPT ...",
        description="Run a script as a rank of torchrun, and record its calls. When the rank ends, or makes no call "
        "for a while, it writes them to the file PREFIX plus its rank, in the format of torch's Flight Recorder, for "
        "`explain PREFIX` to read. Unlike gloo's own dumps, these files contain send and recv.",
    )
    keep.add_argument(
        "--to", required=True, metavar="PREFIX", help="the prefix of the files' names, such as DUMPS/rank_"
    )
    keep.add_argument(
        "--after",
        type=float,
        default=10.0,
        metavar="SECONDS",
        help="seconds without a call before the dump (default: 10)",
    )
    keep.add_argument("script", help="the script")
    keep.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    keep.set_defaults(run=_record)


def _record(chosen: argparse.Namespace) -> int:
    from ddp_lessons.run.rank.dumping_rank import run_recorded

    return run_recorded(chosen.to, [chosen.script, *chosen.arguments], chosen.after)


def _explain(chosen: argparse.Namespace, after: argparse.ArgumentParser) -> int:
    place = chosen.script
    if chosen.on is not None:
        from ddp_lessons.run.scripts.explain_on import explain_on

        ranks = 1 if chosen.nproc_per_node is None else chosen.nproc_per_node
        return explain_on(chosen.on, chosen.python, [place, *chosen.arguments], ranks, chosen.timeout)
    if is_dumps(place):
        after.parse_args(chosen.arguments, namespace=chosen)
        return explain_dumps(place, chosen.json, chosen.timeline, chosen.trace)
    if os.path.isfile(place) and place.endswith(_ENDINGS_OF_LOGS):
        after.parse_args(chosen.arguments, namespace=chosen)
        return explain_log(place, chosen.json)
    from ddp_lessons.run.scripts.explain import explain

    return explain([place, *chosen.arguments], chosen.nproc_per_node, chosen.timeout)


def is_dumps(place: str) -> bool:
    """A folder, or the beginning of the names of files that end in a rank."""
    if os.path.isdir(place):
        return True
    from ddp_lessons.dumps.dump_files import find_dumps

    return not os.path.isfile(place) and bool(find_dumps(place)[0])


def explain_dumps(place: str, is_json: bool = False, timeline: str | None = None, trace: str | None = None) -> int:
    """Print what is wrong and return the exit status: 0 if nothing hangs, 1 for a hang, 2 if it cannot be told."""
    from ddp_lessons.dumps.dump_files import Unreadable
    from ddp_lessons.dumps.dump_report import Verdict, find_fault
    from ddp_lessons.dumps.left_behind import read_left_behind

    try:
        finding = find_fault(read_left_behind(place))
    except Unreadable as reason:
        _say(f"no dump could be read: {reason}\n  Next: {_NEXT}", "wrong", sys.stderr)
        return _UNREADABLE
    if is_json:
        print(json.dumps(finding.as_json(), indent=1))
    else:
        _say(finding.in_words(), "passed" if finding.verdict is Verdict.NOTHING else "wrong", sys.stdout)
    try:
        if trace is not None:
            finding.events.to_chrome_trace(trace)
        if timeline is not None:
            from ddp_lessons.show.timelines.timeline_figure import timeline as draw

            draw(finding.events).save(Path(timeline))
    except (OSError, ValueError) as reason:
        print(f"the timeline or trace was not written: {reason}", file=sys.stderr)
        return _UNREADABLE
    return finding.verdict.status


def explain_log(path: str, is_json: bool = False) -> int:
    """Print what happened. Exit status: 0 if the log shows no failure, 1 if it does, 2 if it cannot be read."""
    from ddp_lessons.dumps.job_log import read_log
    from ddp_lessons.dumps.log_report import find_in_log

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            log = read_log(file)
    except OSError as error:
        print(f"{path} could not be read ({error.strerror})", file=sys.stderr)
        return _UNREADABLE
    rank, message = find_in_log(log)
    if is_json:
        about = {"first_rank": rank, "torchrun_names": log.root_cause, "message": message, "status": int(bool(message))}
        print(json.dumps(about, indent=1))
    elif message:
        _say(message, "wrong", sys.stdout)
    else:
        print(f"{path} shows no failure: no exception of a rank, no timeout and no error report of torchrun.")
    return int(bool(message))


def _say(message: str, kind: Kind, stream: TextIO) -> None:
    from ddp_lessons.run.output.terminal_text import message_on_terminal

    print(message_on_terminal(message, kind, stream), file=stream)
