"""The pages of the reference: one for each part of the package, with the docstrings of the names that it offers."""

from __future__ import annotations

import inspect
import textwrap
from importlib import import_module
from pathlib import Path

import ddp_lessons
from ddp_lessons.check.exercise import Exercise

# title, a sentence for new readers, and types that users don't construct but get from the part's functions
PARTS = {
    "run": (
        "Run",
        "From a cell to many ranks and back. All of these come `from ddp_lessons import ...`.",
        ["run.launcher.rank_states.Account"],
    ),
    "train": ("Train", "What the lessons build, in plain PyTorch: also the solutions of the exercises.", []),
    "show": ("Show", "Pictures of what the ranks did: `from ddp_lessons import show`.", []),
    "check": (
        "Check",
        "One name for each exercise: `from ddp_lessons import check`.",
        ["check.dashboard.Progress", "check.progress_file.Entry"],
    ),
    "machines": (
        "Several machines",
        "Machines made out of one, for lessons and tests, with a Slurm on them.",
        ["machines.jobs.Job"],
    ),
    "backends": (
        "Backends",
        "Which backends work here, and programs under mpirun.",
        ["backends.backend_trials.Trial"],
    ),
    "quiz": ("Quizzes", "The questions at the end of a lesson.", ["quiz.asking.Questions", "quiz.asking.Verdict"]),
}
INDEX = """\
# The package

A learner meets four verbs: **run** a function on many ranks, **train** with it, have it **shown**, and have what you \
wrote **checked**. They are the package's four parts; the others carry a lesson each.

"""


def api_pages() -> dict[str, str]:
    """The text of every page, by name."""
    rows = "\n".join(f"- [{title}]({part}.md): {sentence}" for part, (title, sentence, _) in PARTS.items())
    listed = "\n".join(["```{toctree}", ":hidden:", "", *(f"{part}.md" for part in PARTS), "```", ""])
    return {"api/index.md": f"{INDEX}{rows}\n\n{listed}", **{f"api/{part}.md": page_of(part) for part in PARTS}}


def page_of(part: str) -> str:
    title, sentence, handed_out = PARTS[part]
    home = "ddp_lessons" if part == "run" else f"ddp_lessons.{part}"
    module = import_module(home)
    if part == "train":  # it offers modules rather than names
        names = [f"{home}.{file.stem}" for file in sorted(Path(str(module.__file__)).parent.glob("[a-z]*.py"))]
    else:  # functions first, because readers call them
        names = [f"{home}.{name}" for name in sorted(module.__all__, key=lambda name: (name[0].isupper(), name))]
    names += [f"{ddp_lessons.__name__}.{name}" for name in handed_out]
    return "\n".join([f"# {title}", "", sentence, "", *map(section, names)])


def section(name: str) -> str:
    home, _, last = name.rpartition(".")
    thing = getattr(import_module(home), last, None)
    if isinstance(thing, Exercise):  # a declaration, whose task says what to write
        body = f".. py:function:: {name}(answer, *, on=None)\n\n{textwrap.indent(inspect.cleandoc(thing.task), '   ')}"
    else:
        if isinstance(thing, type):
            kind = "exception" if issubclass(thing, Exception) else "class"
        else:
            kind = "function" if callable(thing) else "module"
        body = f".. auto{kind}:: {name}" + "\n   :members:" * (kind != "function")
    title = last if thing else f"train.{last}"
    return f"## `{title}`\n\n```{{eval-rst}}\n{body}\n```\n"
