"""The last part: the script hangs because of a fault that is injected into a copy, and the learner says what is wrong.

A case is a kind of fault on a rank. Each has letters of its own, and a wrong letter uses it up: the next question is
about another case. What a letter means depends only on the script's text, so it stays the same from one judgment to the
next.
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from dataclasses import dataclass
from pathlib import Path

from ddp_lessons.capstone.capstone_parts import Part
from ddp_lessons.capstone.capstone_trials import STEPS_PER_EPOCH, NotJudged, Trials
from ddp_lessons.capstone.observed_rank import ALONE, LEAVES

NAME = "a hang, explained"
CASES = ((LEAVES, 0), (LEAVES, 1), (ALONE, 0), (ALONE, 1))  # the fault, and the rank
LETTERS = ("ABCD", "EFGH", "IJKL", "MNOP")  # by case
INJECTED = (
    "  The fault is in a copy, not in your file. If a line above doesn't make the call named before it, "
    "an extra call was injected at that line."
)
_WAITING = re.compile(r"^ *rank (\d+) +waits in (.+?)(?: of | \(|$)", re.MULTILINE)


@dataclass(frozen=True)
class HangQuestion:
    """What `explain` said about the hang, and four sentences, one of which is right."""

    explanation: tuple[str, ...]
    choices: dict[str, str]
    right: str

    def part(self, diagnosis: str) -> Part:
        """Judge a letter; with "" the part waits for one."""
        choices = (f"{letter}) {sentence}" for letter, sentence in self.choices.items())
        asked = (*self.explanation, INJECTED, "", *choices)
        if not diagnosis:
            advice = 'read the explanation, choose a sentence, and add its letter: diagnosis="LETTER".'
            return Part(
                NAME, None, "one fault was injected into a copy, which hangs; your diagnosis is missing", advice, asked
            )
        if diagnosis != self.right:
            said = f"{diagnosis}) is wrong. The explanation shows {self.right}) {self.choices[self.right]}"
            advice = "call the check again without a diagnosis; it injects another fault into a copy, and asks again."
            return Part(NAME, False, said, advice, asked)
        return Part(NAME, True, f"{diagnosis}) is right: {self.choices[diagnosis]}", lines=self.explanation)


def choice_for(script: Path, case: int = 0) -> random.Random:
    return random.Random(f"{hashlib.sha256(script.read_bytes()).hexdigest()} {case}")


def ask_about_a_hang(trials: Trials, case: int) -> HangQuestion:
    """Run a copy with a fault under `explain`, and make the question from its message."""
    _ = trials.reference_result  #  without a fault the script has to work
    first, choice = choice_for(trials.script).randrange(len(CASES)), choice_for(trials.script, case)
    kind, rank = CASES[(first + case) % len(CASES)]
    step = STEPS_PER_EPOCH + choice.randrange(1, 9)
    program = trials.program(2, f"hang-{case}", settings={"fault": [kind, rank, step]}, explains=True)
    outcome = trials.run("a copy with a fault, under explain", program)
    _, found, explanation = outcome.printed.partition("WorkersStuck: ")
    waits = {int(number): call for number, call in _WAITING.findall(explanation)}
    if not found or 1 - rank not in waits:
        said = "with a fault injected into a copy, `explain` reported no hang."
        advice = "do not catch exceptions around collective calls, and set no short timeouts; torchrun ends the ranks."
        raise NotJudged(said, advice)
    sentences = _sentences(rank, waits[1 - rank], waits.get(rank, "barrier"))
    right = sentences[0] if kind == LEAVES else sentences[1]
    choice.shuffle(sentences)
    choices = dict(zip(LETTERS[case], sentences, strict=True))
    letter = next(letter for letter, sentence in choices.items() if sentence == right)
    return HangQuestion(tuple(where_ranks_are(f"{found}{explanation}")), choices, letter)


def where_ranks_are(explanation: str) -> list[str]:
    """Without the sentences after it: they look for the mistake in the learner's file, which has none."""
    first, *lines = explanation.splitlines()
    return [first, *itertools.takewhile(lambda line: line.startswith("    "), lines)]


def _sentences(rank: int, call: str, own: str) -> list[str]:
    """The two faults that may have been injected, and two other readings of the same lines."""
    other = 1 - rank
    return [
        f"Rank {rank} left the training loop early, and rank {other} waits in {call} for a call of rank {rank}.",
        f"Rank {rank} makes a call of {own} that rank {other} doesn't make: mismatched collectives.",
        f"Rank {other} left the training loop early, and rank {rank} waits for its next call.",
        f"Both ranks call {call}, and rank {rank} is only slow: a straggler.",
    ]
