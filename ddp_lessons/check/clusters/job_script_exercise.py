"""The exercise of a job script with four mistakes: what the script would start counts, not how it is written."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ddp_lessons.check.judging.report import Report, not_right, not_started
from ddp_lessons.check.judging.report_lines import table
from ddp_lessons.check.trials import slurm_stand_ins
from ddp_lessons.check.trials.direct_starts import mistakes_of, program_of
from ddp_lessons.check.trials.rehearsal import NoRehearsal, Rehearsal, Start, rehearse
from ddp_lessons.run.diagnosis.wording import joined

NAME = "job_script"
MACHINES, GPUS = 2, 4
PROGRAM = "digits.py --epochs 10"
TO_BE_REPAIRED = """\
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=16
torchrun --nnodes=2 --nproc-per-node=1 digits.py --epochs 10
"""
_OPTION = re.compile(r"--(nnodes|nproc[-_]per[-_]node|node[-_]rank|rdzv[-_]\w+|master[-_]\w+)\b")
_ONE_TASK = "Start one task per node (--ntasks-per-node=1)."
_MEETS_ANYWHERE = ("c10d", "etcd", "etcd-v2")


def job_script(script: object, program: str = PROGRAM) -> Report:
    """Check the text of a Slurm job script: it must start eight ranks on two nodes with four GPUs each.

    Every rank must run `program`, a file name followed by its arguments.

    The check does a dry run: bash runs the script, with stand-ins for sbatch, srun and torchrun that only record what
    would start where. So you can write it in many ways, also without torchrun if each rank gets its RANK, WORLD_SIZE,
    MASTER_ADDR and MASTER_PORT.
    """
    if not isinstance(script, str):
        return not_right(NAME, f"The check got an object of type {type(script).__name__}. Pass the text of the script.")
    if script.strip() in (TO_BE_REPAIRED.strip(), ""):
        return not_started(NAME)
    try:
        rehearsal = rehearse(script)
        torchruns = [(start, _arguments_of(start)) for start in rehearsal.starts if start.kind == "torchrun"]
    except NoRehearsal as reason:
        return not_right(NAME, str(reason))
    name, *given = program.split()
    pythons = [(start, *program_of(start)) for start in rehearsal.starts if start.kind == "python"]
    ranks = [start for start, found, _ in pythons if found == name] if not torchruns else []
    details = tuple(_what_starts_where(rehearsal, torchruns, ranks))
    if ranks:
        mistakes = [_wrong_machines(rehearsal, torchruns), *mistakes_of(rehearsal, ranks, GPUS)]
        mistakes += [_left_alone(rehearsal), *(_lost(given, behind) for _, found, behind in pythons if found == name)]
    else:
        mistakes = [look(rehearsal, torchruns) for look in _LOOKS]
        mistakes += [_wrong_program(torchruns, name), _left_alone(rehearsal)]
        mistakes += [_lost(given, arguments.training_script_args) for _, arguments in torchruns]
    if mistakes := list(dict.fromkeys(mistake for mistake in mistakes if mistake)):
        rest = len(mistakes) - 1
        more = [f"  {rest} more {'mistake' if rest == 1 else 'mistakes'}."] if rest else []
        return not_right(NAME, mistakes[0], (*more, *details))
    return Report(NAME, True, "passed", "", details)


Torchruns = Sequence[tuple[Start, argparse.Namespace]]


def _wrong_machines(rehearsal: Rehearsal, torchruns: Torchruns) -> str:
    if rehearsal.too_late:
        line = rehearsal.too_late[0]
        return (
            f"sbatch ignores #SBATCH in line {line}, because it comes after the first command. Move it above all "
            "commands."
        )
    if rehearsal.machines != MACHINES:
        return f"The job asks for {rehearsal.machines} of the {MACHINES} nodes. Set --nodes={MACHINES}."
    if rehearsal.gpus != GPUS:
        return f"The job asks for {rehearsal.gpus} of the {GPUS} GPUs per node. Set --gpus-per-node={GPUS}."
    return ""


def _nothing_started(rehearsal: Rehearsal, torchruns: Torchruns) -> str:
    if torchruns:
        return ""
    if rehearsal.status:
        last = rehearsal.words.splitlines()[-1] if rehearsal.words else f"status {rehearsal.status}"
        return f"The script fails before it starts anything: {last.removesuffix('.')[:150]}. Fix that command."
    return "The script never starts torchrun, so no rank starts. Launch torchrun with srun."


def _not_everywhere(rehearsal: Rehearsal, torchruns: Torchruns) -> str:
    idle = [place for place in range(rehearsal.machines) if place not in {start.machine for start, _ in torchruns}]
    if not torchruns or not idle:
        return ""
    if not any(start.step for start, _ in torchruns):
        return (
            "No torchrun runs on the second node, because Slurm runs a job script on the first node only. Launch "
            "torchrun with srun."
        )
    return f"srun starts no torchrun on {slurm_stand_ins.NAME.format(idle[0] + 1)}. {_ONE_TASK}"


def _too_many(rehearsal: Rehearsal, torchruns: Torchruns) -> str:
    most = max(Counter(start.machine for start, _ in torchruns).values(), default=1)
    asked = int(rehearsal.options.get("ntasks-per-node", "1"))
    if most > 1:
        return f"The job starts torchrun {most} times on one node, and each torchrun starts its own ranks. {_ONE_TASK}"
    if asked > 1 and not any(start.step for start, _ in torchruns):
        return (
            f"The job asks for {asked} tasks per node, so srun starts {asked} torchruns on each node. Ask for one "
            f"task per node."
        )
    return ""


def _no_meeting(rehearsal: Rehearsal, torchruns: Torchruns) -> str:
    for _, arguments in torchruns:
        if arguments.standalone:
            return "With --standalone each torchrun stays on its own node. Replace it with --nnodes and a rendezvous."
        if str(arguments.nnodes) in ("1", "1:1"):
            return (
                _behind_the_script(torchruns)
                or "This torchrun runs on one node only. Set --nnodes to the number of nodes."
            )
        if ":" not in str(arguments.nnodes) and str(arguments.nnodes) != str(rehearsal.machines):
            return (
                f"torchrun waits for {arguments.nnodes} nodes, but the job has {rehearsal.machines}. Set "
                f"--nnodes={rehearsal.machines}."
            )
    backends = {arguments.rdzv_backend for _, arguments in torchruns}
    if not torchruns:
        return ""
    if backends <= set(_MEETS_ANYWHERE):
        return _wrong_place({arguments.rdzv_endpoint for _, arguments in torchruns}, "--rdzv-endpoint") or (
            "The torchrun commands have different --rdzv-id values, so they never join the same rendezvous. Pass the "
            "same --rdzv-id to all of them."
            if len({arguments.rdzv_id for _, arguments in torchruns}) > 1
            else ""
        )
    places = {arguments.rdzv_endpoint or arguments.master_addr for _, arguments in torchruns}
    numbers = sorted(arguments.node_rank for _, arguments in torchruns)
    if places == {"127.0.0.1"}:
        return (
            _behind_the_script(torchruns)
            or "There is no rendezvous, so each torchrun waits alone. Give all of them the same --rdzv-endpoint."
        )
    if numbers != list(range(rehearsal.machines)):
        return (
            f"Without --rdzv-backend=c10d each node needs its own --node-rank, but here they are {joined(numbers)}. "
            "Number the nodes from 0."
        )
    return _wrong_place(places, "--master-addr")


def _behind_the_script(torchruns: Torchruns) -> str:
    """A sentence if options of torchrun end up as arguments of the script."""
    for _, arguments in torchruns:
        stray = [word.partition("=")[0] for word in map(str, arguments.training_script_args) if _OPTION.match(word)]
        if stray:
            script = _program_of(arguments)
            goes, them = ("goes", "it") if len(stray) == 1 else ("go", "them")
            return f"{' and '.join(stray)} {goes} to {script} instead of torchrun. Put {them} before its name."
    return ""


def _wrong_place(places: set[str], option: str) -> str:
    if places <= {""}:
        return (
            "torchrun gets no rendezvous address. Set --rdzv-endpoint to the first node and a port, for example "
            "gpu1:29500."
        )
    if len(places) > 1:
        return (
            f"The torchruns have different rendezvous addresses ({', '.join(sorted(places))}). Give all of them the "
            f"same {option}."
        )
    (place,) = places
    host = place.rpartition(":")[0] if ":" in place else place
    known = {
        pattern.format(number + 1)
        for pattern in (slurm_stand_ins.NAME, slurm_stand_ins.ADDRESS)
        for number in range(MACHINES)
    }
    if not host:
        return f"{option} has no host before the port. Check that the variable with the host name is set."
    if host in ("localhost", "127.0.0.1"):
        return (
            f"On every node, {host} is that node itself, so the torchrun agents never find each other. Set {option} to "
            "the name of the first node."
        )
    if host not in known:
        return f"{option} names {host!r}, which is not a node of this job. List the names with scontrol show hostnames."
    return ""


def _wrong_ranks(rehearsal: Rehearsal, torchruns: Torchruns) -> str:
    for _, arguments in torchruns:
        ranks = _ranks(arguments)
        if ranks != GPUS:
            which = "GPUs have no rank" if ranks < GPUS else "ranks have no GPU"
            started = "1 rank" if ranks == 1 else f"{ranks} ranks"
            idle = (
                f"{abs(GPUS - ranks)} {which} on each node, because torchrun starts {started} there. Set "
                f"--nproc-per-node={GPUS}."
            )
            return _behind_the_script(torchruns) or idle
    return ""


def _wrong_program(torchruns: Torchruns, program: str) -> str:
    for start, arguments in torchruns:
        found = _program_of(arguments)
        if found == program:
            continue
        sentence = f"torchrun takes {found[:40]!r} as its script instead of {program!r}."
        behind = [str(word) for word in arguments.training_script_args]
        if program in map(os.path.basename, behind):
            return sentence + _why_before(found, start.words)
        return f"{sentence} Put {program!r} there."
    return ""


def _left_alone(rehearsal: Rehearsal) -> str:
    """The script ends before srun, or waits for one srun while another one has to run."""
    if any(start.kind == "left behind" for start in rehearsal.starts):
        return "The script ends while a background srun is still running, so Slurm ends the job. After an &, call wait."
    steps = list(dict.fromkeys(start.step for start in rehearsal.starts if start.step))
    waited_for = [start.step for start in rehearsal.starts if start.is_waited_for]
    if any(step in waited_for for step in steps[:-1]):
        return (
            "Deadlock: the first srun waits for the ranks of the second, which starts only when the first is done. "
            "Use one srun for all nodes, or end each with & and call wait."
        )
    return ""


def _lost(given: Sequence[str], behind: Sequence[object]) -> str:
    """A sentence if the program does not get its arguments; `--name=value` counts as well."""
    wanted, found = (" ".join(map(str, words)).replace("=", " ").split() for words in (given, behind))
    places = range(len(found) - len(wanted) + 1)
    if any(found[place : place + len(wanted)] == wanted for place in places):
        return ""
    got = f"gets {' '.join(found)[:60]!r}" if found else "gets nothing"
    return f"The program should get {' '.join(given)!r} but {got}. Put the arguments after the script name."


def _program_of(arguments: argparse.Namespace) -> str:
    """The name of the file that every rank runs."""
    script = str(arguments.training_script)
    if arguments.module:
        return f"{script.replace('.', '/').rpartition('/')[2]}.py"
    if arguments.no_python and re.fullmatch(r"python[\d.]*", os.path.basename(script)):
        script = next((word for word in map(str, arguments.training_script_args) if not word.startswith("-")), script)
    return os.path.basename(script)


def _why_before(found: str, words: Sequence[str]) -> str:
    """Explain which word makes torchrun take the wrong script."""
    before = words[list(words).index(found) - 1] if found in words[1:] else ""
    host = found.partition(":")[0]
    if host in (slurm_stand_ins.NAME.format(number + 1) for number in range(MACHINES)):
        return (
            f" The option before it got the names of all nodes, so the second name, {found!r}, became the script. "
            "Pass only the first name."
        )
    return (
        f" The script is the first word that belongs to no option. Check the word before it, {before!r}."
        if before
        else ""
    )


_LOOKS: tuple[Callable[[Rehearsal, Torchruns], str], ...] = (
    _wrong_machines,
    _nothing_started,
    _not_everywhere,
    _too_many,
    _no_meeting,
    _wrong_ranks,
)


def _ranks(arguments: argparse.Namespace) -> int:
    asked = str(arguments.nproc_per_node)
    return int(asked) if asked.isdigit() else GPUS if asked in ("gpu", "auto") else 0


def _arguments_of(start: Start) -> argparse.Namespace:
    """The arguments as torchrun itself parses them, some of them from environment variables.

    Raises:
        NoRehearsal: torchrun rejects them.
    """
    from torch.distributed.run import parse_args

    words = io.StringIO()
    try:
        with _variables(dict(start.variables)), contextlib.redirect_stderr(words):
            arguments: argparse.Namespace = parse_args(list(start.words))
    except SystemExit:
        reason = words.getvalue().strip().splitlines()
        said = reason[-1].partition("error: ")[2] if reason else "no reason is given"
        raise NoRehearsal(f"torchrun rejects its arguments: {said}. Fix them in the script.") from None
    return arguments


@contextlib.contextmanager
def _variables(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _what_starts_where(rehearsal: Rehearsal, torchruns: Torchruns, ranks: Sequence[Start]) -> list[str]:
    rows = [["machine", "torchruns", "ranks"]]
    for machine in range(rehearsal.machines):
        here = [arguments for start, arguments in torchruns if start.machine == machine]
        count = sum(map(_ranks, here)) + sum(rank.machine == machine for rank in ranks)
        rows.append([slurm_stand_ins.NAME.format(machine + 1), str(len(here)), str(count)])
    return ["  What it starts in a dry run:", *table(rows)]
