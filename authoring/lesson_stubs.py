"""What belongs to a lesson beside its notebook, before anybody has written it: `__TITLE__` stands for its title."""

QUIZ = '''\
"""Lesson __NUMBER__: WRITE."""

from __future__ import annotations

from ddp_lessons.quiz.question import Program, Question

QUESTIONS = (
    Question(
        text="WRITE: what does this return on rank 0?",
        program=Program(
            """
def f(rank, world_size):
    return rank
""",
            holds='str(results[0]) == right.strip("`")',  # a test runs it
            ranks=3,
        ),
        right="`0`",
        letter="b",  # where the right choice stands among the wrong ones
        why="WRITE: eight words or more.",
        wrong={
            "`1`": "WRITE: twelve words or more: what somebody thinks who takes it, and what is the case.",
            "`3`": "WRITE: the same for this one.",
        },
        look_at="WRITE: the section of the lesson that answers it",
    ),
__MORE__)
'''

QUESTION = """\
    Question(
        text="WRITE",
        right="WRITE",
        letter="__LETTER__",
        why="WRITE",
        wrong={
            "WRITE: one": "WRITE",
            "WRITE: another": "WRITE",
        },
        look_at="WRITE",
    ),
"""

PAGE = """\
# Teaching lesson __NUMBER__: __TITLE__

[The lesson](../../../notebooks/__STEM__.ipynb) | [all lessons](../index.md#the-lessons)

WRITE: what kind of lesson it is, and what to do with those who are quick.

<!-- facts: written by docs/instructor/write.py -->

<!-- end of facts -->

## Ask the room

**WRITE: a question?** (WRITE: when)

- Right: "WRITE". Say: WRITE.
- Wrong: "WRITE". Say: WRITE.

**WRITE: another?**

- Right: "WRITE". Say: WRITE.
- Wrong: "WRITE". Say: WRITE.

**WRITE: a third?**

- Right: "WRITE". Say: WRITE.
- Wrong: "WRITE". Say: WRITE.

## What will go wrong here

WRITE: four things or more, each with what to *Say:*, and two or more as they are typed and answered:

```python
WRITE
```

```text
WRITE: a line of what is really said; a test types the above, and looks
```

Say: WRITE.
"""
