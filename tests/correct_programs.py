"""Correct programs, on the ranks of a launch that records, and of one in which torch is as it came: is it the same?

How many, and of how many of them something was said:  python tests/correct_programs.py --programs 2000
"""

from __future__ import annotations

import argparse
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from correct_collectives import calls
from correct_features import features
from torchs_own import SUITES_OF_RPC, torchs_tests

from ddp_lessons import WorkerFailed, Workers, WorkersStuck

WORLD_SIZE = 4
SECONDS_FOR_ONE = 60.0


class Program(NamedTuple):
    kind: str
    name: str
    function: Callable[..., Any]
    given: tuple[Any, ...]


class Outcome(NamedTuple):
    answers: list[Any]
    complaint: str  # of the launch; "" if it said nothing


class Verdict(NamedTuple):
    program: Program
    plain: Outcome
    recorded: Outcome

    @property
    def is_correct(self) -> bool:
        """By itself, without us. What is not, or was skipped, proves nothing here."""
        return not self.plain.complaint and "skipped" not in self.plain.answers

    @property
    def is_false_alarm(self) -> bool:
        return self.is_correct and bool(self.recorded.complaint)

    @property
    def is_changed(self) -> bool:
        return self.is_correct and not self.recorded.complaint and self.plain.answers != self.recorded.answers


def all_programs() -> list[Program]:
    sources = {"collective": calls, "feature": features, "torch's own": torchs_tests}
    programs = [Program(kind, *one) for kind, source in sources.items() for one in source()]
    return sorted(programs, key=_is_for_the_end)


def some_programs(count: int, seed: int = 0) -> list[Program]:
    """As many as asked for, of each kind its share and of each at least a few."""
    everything = all_programs()
    if count >= len(everything):
        return everything
    random, kinds = Random(seed), sorted({program.kind for program in everything})
    by_kind = [random.sample(of, len(of)) for kind in kinds if (of := [p for p in everything if p.kind == kind])]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*by_kind))
    return sorted(itertools.islice((program for program in turns if program is not None), count), key=_is_for_the_end)


def _is_for_the_end(program: Program) -> bool:
    """Torch names groups by counting them. Whose members alone have made one, they count further than the others, and
    a later init_device_mesh waits for ever, also in plain torch."""
    return " in local" in program.name


def outcomes(programs: Sequence[Program], record: bool) -> Iterator[Outcome]:
    """One after the other on the same ranks, as the cells of a notebook run; after a failure on fresh ones."""
    workers = _fresh(record)
    try:
        for program in programs:
            try:
                results = workers.run(program.function, *program.given, quiet=True)
                yield Outcome(list(results), "")
                # once a rank has compiled, nothing is concluded of it any more; and a second RPC on the same ranks may
                # wait for ever, for which torch's own tests each have processes of their own
                if results.events.is_out_of_sight or program.name.startswith(SUITES_OF_RPC):
                    workers.close()
                    workers = _fresh(record)
            except (WorkerFailed, WorkersStuck) as error:
                yield Outcome([], str(error))
                workers.close()
                workers = _fresh(record)
    finally:
        workers.close()


def _fresh(record: bool) -> Workers:
    return Workers(WORLD_SIZE, record=record, timeout_seconds=SECONDS_FOR_ONE).__enter__()


def verdicts_on(programs: Sequence[Program]) -> Iterator[Verdict]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder  # what the ranks write
        yield from map(Verdict, programs, outcomes(programs, record=False), outcomes(programs, record=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000, help="how many at most, evenly of each kind")
    parser.add_argument("--seed", type=int, default=0, help="which, if not all")
    parser.add_argument("--kind", help="only these: collective, feature, torch's own")
    parser.add_argument("--name", help="only those whose name has this in it")
    given = parser.parse_args()
    begin, verdicts = time.monotonic(), []
    chosen = [p for p in some_programs(given.programs, given.seed) if given.kind in (None, p.kind)]
    for verdict in verdicts_on([p for p in chosen if (given.name or "") in p.name]):
        verdicts.append(verdict)
        if verdict.is_false_alarm or verdict.is_changed:
            print(f"--- {verdict.program.kind}: {verdict.program.name}\n{verdict.recorded.complaint}", flush=True)
            if verdict.is_changed:
                print(f"plain:    {verdict.plain.answers}\nrecorded: {verdict.recorded.answers}", flush=True)
    correct = [verdict for verdict in verdicts if verdict.is_correct]
    alarms, changed = sum(v.is_false_alarm for v in correct), sum(v.is_changed for v in correct)
    print(f"{len(verdicts)} programs in {time.monotonic() - begin:.0f} s, {len(correct)} of them correct by themselves")
    print(f"false alarms: {alarms}; other answers: {changed}")
    for kind in sorted({verdict.program.kind for verdict in correct}):
        of = [verdict for verdict in correct if verdict.program.kind == kind]
        print(f"  {kind}: {len(of)}, of these false alarms {sum(verdict.is_false_alarm for verdict in of)}")
    for verdict in verdicts:
        if not verdict.is_correct:
            print(
                f"not correct by itself: {verdict.program.name}: {verdict.plain.complaint.partition(chr(10))[0]:.150}"
            )


if __name__ == "__main__":
    main()
