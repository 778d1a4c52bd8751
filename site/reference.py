"""The pages of the reference, one for each part of the package, from its docstrings.

The names of a part are read from its `__all__`, so nothing is imported here and no list is written by hand.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

FRONT_DOOR = "run"
# title, and a sentence for new readers
PARTS = {
    FRONT_DOOR: ("Run", "From a cell to many ranks and back. All of these come `from ddp_lessons import ...`."),
    "train": ("Train", "What the lessons build, in plain PyTorch: also the solutions of the exercises."),
    "show": ("Show", "Pictures of what the ranks did: `from ddp_lessons import show`."),
    "check": ("Check", "One name for each exercise: `from ddp_lessons import check`."),
    "machines": ("Several machines", "Machines made out of one, for lessons and tests, with a Slurm on them."),
    "backends": ("Backends", "Which backends work here, and programs under mpirun."),
    "quiz": ("Quizzes", "The questions at the end of a lesson."),
}
# types that users don't construct but get from a part's functions
HANDED_OUT = {
    FRONT_DOOR: ["run.launcher.rank_states.Account"],
    "check": ["check.dashboard.Progress", "check.progress_file.Entry"],
    "machines": ["machines.jobs.Job"],
    "backends": ["backends.backend_trials.Trial"],
    "quiz": ["quiz.asking.Questions", "quiz.asking.Verdict"],
}


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def api_pages(package: Path) -> dict[str, str]:
    """The text of every page of the reference, by name."""
    parts = [part for part in PARTS if (package / part).is_dir()]
    pages = {f"api/{part}.md": page_of(part, package) for part in parts}
    return {"api/index.md": index(parts), **pages}


def index(parts: list[str]) -> str:
    rows = [f"- [{PARTS[part][0]}]({part}.md): {PARTS[part][1]}" for part in parts]
    text = [
        "# The package",
        "A learner meets four verbs: **run** a function on many ranks, **train** with it, have it **shown**, "
        "and have what you wrote **checked**. They are the package's four parts; the others carry a lesson each.",
        "\n".join(rows),
        "\n".join(["```{toctree}", ":hidden:", "", *(f"{part}.md" for part in parts), "```"]),
    ]
    return "\n\n".join(text) + "\n"


def page_of(part: str, package: Path) -> str:
    title, sentence = PARTS[part]
    names = offered(package / ("" if part == FRONT_DOOR else part) / "__init__.py")
    home = "ddp_lessons" if part == FRONT_DOOR else f"ddp_lessons.{part}"
    body = named(home, names) if names else by_module(part, package)
    if part == "check":
        body = "\n".join([exercises(package / "check" / "exercises"), body])
    handed_out = [line for name in HANDED_OUT.get(part, []) for line in type_handed_out(name)]
    return "\n".join([f"# {title}", "", sentence, "", body, *handed_out])


def type_handed_out(name: str) -> list[str]:
    home, _, type_name = name.rpartition(".")
    return section(f"`{type_name}`", directive(f"ddp_lessons.{home}", type_name))


def offered(file: Path) -> list[str]:
    """The names in a module's `__all__`, functions first, because readers call them."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    lists = {ast.unparse(node.targets[0]): node.value for node in body if isinstance(node, ast.Assign)}
    names = lists.get("__all__", ast.List([]))
    if ast.unparse(names) == "list(_HOME)":
        names = lists["_HOME"]
    if isinstance(others := lists.get("_OTHERS"), ast.Dict):  # what check/ offers besides its exercises
        names = ast.List([key for key in others.keys if key is not None])
    return sorted(ast.literal_eval(names), key=lambda name: (name[0].isupper(), name))


def named(home: str, names: list[str]) -> str:
    return "\n".join(part for name in names for part in section(f"`{name}`", directive(home, name)))


def exercises(folder: Path) -> str:
    """Each declaration `name = Exercise(task, ...)`, with its task."""
    nodes = [node for file in folder.glob("[a-z]*.py") for node in ast.parse(file.read_text(encoding="utf-8")).body]
    calls = {ast.unparse(node.targets[0]): node.value for node in nodes if isinstance(node, ast.Assign)}
    lines: list[str] = []
    for name, call in sorted(calls.items()):
        if isinstance(call, ast.Call) and any(word.arg == "solution" for word in call.keywords):
            task = inspect.cleandoc(ast.literal_eval(call.args[0]))
            head = f".. py:function:: ddp_lessons.check.{name}(answer, *, on=None)"
            lines += section(f"`{name}`", [head, "", *(f"   {line}".rstrip() for line in task.splitlines())])
    return "\n".join(lines)


def directive(home: str, name: str) -> list[str]:
    if not name[0].isupper():
        return [f".. autofunction:: {home}.{name}"]
    kind = "autoexception" if name.startswith(("Worker", "No")) and name != "Workers" else "autoclass"
    return [f".. {kind}:: {home}.{name}", "   :members:"]


def by_module(part: str, package: Path) -> str:
    """For a part that offers modules rather than names."""
    modules = sorted(path.stem for path in (package / part).glob("[a-z]*.py"))
    home = f"ddp_lessons.{part}"
    lines = [(f"`{part}.{module}`", [f".. automodule:: {home}.{module}", "   :members:"]) for module in modules]
    return "\n".join(part for title, lines_of_it in lines for part in section(title, lines_of_it))


def section(title: str, lines: list[str]) -> list[str]:
    return [f"## {title}", "", "```{eval-rst}", *lines, "```", ""]
