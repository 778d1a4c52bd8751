"""The pages of the reference: one for each part of the package, with the docstrings of its public names."""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module
from pathlib import Path

import ddp_lessons
from ddp_lessons.check.exercise import Exercise

# title, a sentence for new readers, and types that users get from functions instead of constructing them
PARTS = {
    "run": (
        "Run",
        "Run functions on many ranks, from a notebook cell: `from ddp_lessons import ...`.",
        ["run.launcher.rank_states.Account"],
    ),
    "train": ("Train", "What the lessons build, in plain PyTorch, including the solutions of the exercises.", []),
    "show": ("Show", "Figures of what the ranks did: `from ddp_lessons import show`.", []),
    "check": (
        "Check",
        "The checks of the exercises, one for each: `from ddp_lessons import check`.",
        ["check.dashboard.Progress", "check.progress_file.Entry"],
    ),
    "machines": (
        "Several machines",
        "Several nodes simulated on one machine, for lessons and tests, also with Slurm.",
        ["machines.jobs.Job"],
    ),
    "backends": (
        "Backends",
        "Which backends work on this machine, and programs under mpirun.",
        ["backends.backend_trials.Trial"],
    ),
    "quiz": ("Quizzes", "The questions at the end of a lesson.", ["quiz.asking.Questions", "quiz.asking.Verdict"]),
}
INDEX = """\
# The package

The package has four main parts: **run** a function on many ranks, **train** a model, **show** what the ranks did, and \
**check** what you wrote. Each of the other parts supports one lesson.

"""


def api_pages() -> dict[str, str]:
    """Return the text of every page, by name."""
    rows = "\n".join(f"- [{title}]({part}.md): {sentence}" for part, (title, sentence, _) in PARTS.items())
    listed = "\n".join(["```{toctree}", ":hidden:", "", *(f"{part}.md" for part in PARTS), "```", ""])
    return {"api/index.md": f"{INDEX}{rows}\n\n{listed}", **{f"api/{part}.md": page_of(part) for part in PARTS}}


def page_of(part: str) -> str:
    title, sentence, handed_out = PARTS[part]
    home = "ddp_lessons" if part == "run" else f"ddp_lessons.{part}"
    module = import_module(home)
    if part == "train":  # its public names are modules
        names = [f"{home}.{file.stem}" for file in sorted(Path(str(module.__file__)).parent.glob("[a-z]*.py"))]
    else:  # functions first, because readers call them
        names = [f"{home}.{name}" for name in sorted(module.__all__, key=lambda name: (name[0].isupper(), name))]
    names += [f"{ddp_lessons.__name__}.{name}" for name in handed_out]
    return "\n".join([f"# {title}", "", sentence, "", *map(section, names)])


def section(name: str) -> str:
    home, _, last = name.rpartition(".")
    thing = getattr(import_module(home), last, None)
    if isinstance(thing, Exercise):  # a declaration whose task says what to write
        body = f".. py:function:: {name}(answer, *, on=None)\n\n{textwrap.indent(inspect.cleandoc(thing.task), '   ')}"
    else:
        if isinstance(thing, type):
            kind = "exception" if issubclass(thing, Exception) else "class"
        else:
            kind = "function" if callable(thing) else "module"
        body = f".. auto{kind}:: {name}" + "\n   :members:" * (kind != "function")
    title = last if thing else f"train.{last}"
    return f"## `{title}`\n\n```{{eval-rst}}\n{body}\n```\n"
