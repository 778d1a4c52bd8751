"""The templates for a new lesson's quiz and instructor page; `__TITLE__` is replaced by its title."""

QUIZ = '''\
# Lesson __NUMBER__: WRITE.

[[questions]]
text = "WRITE: what does this return on rank 0?"
program = """
def f(rank, world_size):
    return rank
"""
holds = "str(results[0]) == right.strip('`')"  # a test runs it
ranks = 3
section = "WRITE: the section of the lesson that answers it"
right = "b"

[questions.a]
choice = "`1`"
why = "WRITE: twelve words or more: the misconception behind this choice, and what is true instead."

[questions.b]
choice = "`0`"
why = "WRITE: eight words or more."

[questions.c]
choice = "`3`"
why = "WRITE: the same for this one."
__MORE__'''

QUESTION = """
[[questions]]
text = "WRITE"
section = "WRITE"
right = "__LETTER__"

[questions.a]
choice = "WRITE"
why = "WRITE"

[questions.b]
choice = "WRITE"
why = "WRITE"

[questions.c]
choice = "WRITE"
why = "WRITE"
"""

PAGE = """\
# Teaching lesson __NUMBER__: __TITLE__

[The lesson](../../../notebooks/__STEM__.ipynb) | [all lessons](../index.md#the-lessons)

WRITE: what kind of lesson it is, and what fast participants can do.

## Ask the room

- **WRITE: a question?** WRITE: the answer. To "WRITE: a common wrong one": WRITE: what you reply.
- **WRITE: another?** WRITE. To "WRITE": WRITE.
- **WRITE: a third?** WRITE. To "WRITE": WRITE.

## What will go wrong

- WRITE: what you see. Say: WRITE.
- WRITE. Say: WRITE.
- WRITE. Say: WRITE.

## When you are late

| leave out | saves | what they miss |
| --- | --: | --- |
| Do you know it? | 5 | the questions; ask one of them to the whole room instead |
"""
