"""The six cases: what each job was, what is right, a sentence for each likely wrong answer, and the repair.

`cases/N` has what a real run of the job left behind; `python -m authoring clinic N` makes these files again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

RULES = {
    "uneven steps": "a rank has fewer steps than the others, and leaves a loop of collectives early",
    "only some ranks": "a collective under an `if` that not every rank enters",
    "different order": "the ranks make the same collectives, but not in the same order",
    "different shapes": "the ranks bring tensors of different shapes to one collective",
    "group of members": "only the members of a group call `new_group`, which every rank must call",
    "first failure": "one rank raised an exception or was killed, and the others failed because of it",
    "late rank": "no hang: the other ranks wait for a rank that still computes",
}


@dataclass(frozen=True)
class Case:
    """`lines`, `repair` and the keys of the hints are about the job's train.py."""

    title: str
    symptom: str
    command: str
    world_size: int
    leaves: Literal["dumps", "log", "stacks"]
    rank: int
    lines: tuple[int, ...]
    rule: str
    why: str
    repair: Mapping[int, str]  # the new text of lines
    other_ranks: str  # about a rank that is not the one
    hints: Mapping[int, str]  # about other lines
    other_rules: Mapping[str, str] = field(default_factory=dict)
    looks: int = 1  # how often the stacks were taken
    waiting: int = 0  # how many ranks are in a collective each time


CASES = (
    Case(
        title="Reading times",
        symptom="The job prints nothing. Its ranks wrote dumps after ten seconds without a call.",
        command="torchrun --standalone --nproc-per-node 3 -m ddp_lessons record --to dumps/rank_ train.py",
        world_size=3,
        leaves="dumps",
        rank=2,
        lines=(11, 12),
        rule="uneven steps",
        why="Each rank leaves out long reviews after the reviews were divided, so the ranks have 4, 4 and 1 batches. "
        "Rank 2 leaves the loop first and waits in the barrier, and the others wait for its gradients. First leave "
        "out the long reviews, then divide the other nine: three for each rank.",
        repair={11: "words = words[words <= 6.4]", 12: "mine = words[rank::world_size]"},
        other_ranks="It waits in line 24 for a gradient of another rank. Which rank has made this call less often?",
        hints={
            19: "The loop is the same on every rank. Where is it decided how many batches a rank has?",
            24: "Ranks 0 and 1 wait here, and this call is right. Why does the other rank not come back to it?",
            28: "The rank that waits here has finished its loop. Why sooner than the others?",
        },
        other_rules={
            "different order": "That is how it looks: two ranks are in all_reduce and one is in barrier. But line 28 "
            "comes after line 24 on every rank. How often did each rank call all_reduce?",
            "only some ranks": "No collective of this program is under an `if`.",
        },
    ),
    Case(
        title="A model that is saved",
        symptom="The job made some steps, and wrote model_3.pt. Since then, nothing happens: the same ranks wait.",
        command="torchrun --standalone --nproc-per-node 3 train.py",
        world_size=3,
        leaves="stacks",
        rank=0,
        lines=(22, 23, 36, 37),
        rule="only some ranks",
        why="`save` contains a barrier, but only rank 0 calls `save`. The others have gone on to the gradients of the "
        "next step. Call `save` on every rank, and write the file on rank 0 only.",
        repair={
            22: '    if rank == 0:\n        torch.save(model.state_dict(), f"model_{step}.pt")',
            36: "    if step % 4 == 3:",
        },
        other_ranks="It is in line 17, like another rank. Which rank is somewhere else?",
        hints={
            17: "Ranks 1 and 2 wait here for the third rank. Where is that rank?",
            34: "Every rank calls this line in every step. Which rank does not come to it, and why?",
        },
        other_rules={
            "uneven steps": "Every rank makes 20 steps. Which call is made by one rank only?",
            "different order": "Rank 0 makes a call that the others never make, not now and not later.",
            "late rank": "All three ranks are in a collective, and none of them computes.",
        },
        waiting=3,
    ),
    Case(
        title="An embedding and a head",
        symptom="After 20 seconds, the ranks raised a timeout and wrote their dumps.",
        command="TORCH_FR_BUFFER_SIZE=2000 TORCH_FR_DUMP_TEMP_FILE=dumps/rank_ torchrun --standalone "
        "--nproc-per-node 3 train.py",
        world_size=3,
        leaves="dumps",
        rank=2,
        lines=(27,),
        rule="different order",
        why="Each rank sorts by the size of its own gradients. In the third step, rank 2 has a smaller gradient of "
        "the embedding, so it begins with the head. Use an order that does not depend on the data.",
        repair={27: "        order = list(gradients)  # the same on every rank"},
        other_ranks="Its fifth call is all_gather, like that of another rank. Which rank made another call?",
        hints={
            14: "The call of ranks 0 and 1. Which line decides what each rank calls first?",
            19: "The call of rank 2. Which line decides what each rank calls first?",
            24: "Ranks have different data, and so different gradients. Which line makes calls depend on them?",
            26: "Ranks have different data, and so different gradients. Which line makes calls depend on them?",
            28: "The loop calls what the list has. Which line puts the list in order?",
            29: "This line makes the call. Which line decides what is called first?",
        },
        other_rules={
            "uneven steps": "Every rank makes three steps with two calls each. Compare the fifth call of all ranks.",
            "only some ranks": "No collective of this program is under an `if`.",
            "different shapes": "The shapes differ because the calls differ: all_gather and all_reduce.",
        },
    ),
    Case(
        title="Tokens of all ranks",
        symptom="The job failed at once. It was run again with TORCH_DISTRIBUTED_DEBUG=DETAIL.",
        command="TORCH_DISTRIBUTED_DEBUG=DETAIL torchrun --standalone --nproc-per-node 3 train.py",
        world_size=3,
        leaves="log",
        rank=2,
        lines=(11, 14, 15, 16, 17),
        rule="different shapes",
        why="all_gather needs the same shape on every rank. In its last batch, rank 2 has one token, and the others "
        "have two. Pad the tokens to one length, or divide the words so that every rank has as many.",
        repair={
            15: "    tokens = torch.tensor([vocabulary[word] for word in words] + [len(vocabulary)] * (3 - len(words)))"
        },
        other_ranks="Its tensor has the shape [2]. Which rank has another one? torchrun only names a rank that failed.",
        hints={
            9: "14 words cannot be divided equally by 3. Where do the ranks get different numbers of them?",
        },
        other_rules={
            "first failure": "All ranks raised the same exception, and none because of another. What does it compare?",
            "uneven steps": "Every rank makes two steps: the log says SequenceNumber=1, the second call, for all.",
        },
    ),
    Case(
        title="Scores of documents",
        symptom="The job died after the first document.",
        command="torchrun --standalone --nproc-per-node 4 --tee 3 --log-dir logs train.py",
        world_size=4,
        leaves="log",
        rank=1,
        lines=(14,),
        rule="first failure",
        why="Rank 1 has a document of 16 million words, and a table of all pairs would take 1.1 PB. The others only "
        "lost the connection to it. The mean needs no table.",
        repair={14: "    scores = words.mean() ** 2  # the mean of all products"},
        other_ranks="It lost its connection in line 20, or was stopped by torchrun. Which rank failed before it?",
        hints={
            9: "The data is what it is. Which line cannot work with a long document?",
            13: "16 million floats take 64 MB. Which line makes a much larger tensor?",
            19: "Go on to the next frame of the traceback, in the function that this line calls.",
            20: "Other ranks fail here with a lost connection. That is a consequence. What failed before?",
        },
        other_rules={
            "uneven steps": "Every rank has two documents. Why did one rank not come to its second all_reduce?",
            "late rank": "No rank computes any more: the log ends with a table of exit codes.",
        },
    ),
    Case(
        title="Letters and pairs",
        symptom="After some time without output, the stacks of all ranks were taken twice.",
        command="torchrun --standalone --nproc-per-node 3 train.py",
        world_size=3,
        leaves="stacks",
        rank=1,
        lines=(15, *range(20, 25), *range(28, 33), 35, 36),
        rule="late rank",
        why="Rank 1 is in another function the second time, so it makes progress. Its file has 30,000 documents, and "
        "those of the others have 20 and 30. Nothing hangs. Divide the documents equally.",
        repair={15: "FILES = [10016, 10017, 10017]  # documents of each rank"},
        other_ranks="It waits in line 39 both times. Which rank does it wait for?",
        hints={
            38: "The other ranks have passed this line. Where is the rank that they wait for?",
            39: "Ranks 0 and 2 wait here, and this call is right. Where is the rank that they wait for?",
        },
        other_rules={
            "uneven steps": "There is one collective and no loop around it. What does rank 1 do in the second listing?",
            "only some ranks": "Every rank will make the call. What does rank 1 do in the second listing?",
            "first failure": "No rank has failed: all three have a stack.",
        },
        looks=2,
        waiting=2,
    ),
)
FOLDER = Path(__file__).with_name("cases")


def folder_of(number: int) -> Path:
    """Where the files of a case are; its train.py is called train.py.txt there, so that no tool takes it for ours."""
    return FOLDER / str(number)


def how_to_answer(number: int) -> str:
    return f"Answer with check.diagnosis({number}, rank=..., line=..., rule=...)."


def case_of(number: int) -> Case:
    """Raises ValueError where there is no such case."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(CASES):
        raise ValueError(f"there is no case {number!r}: choose a number from 1 to {len(CASES)}")
    return CASES[number - 1]
