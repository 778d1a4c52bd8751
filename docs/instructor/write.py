"""Write what follows from the lessons into other files: `.venv/bin/python docs/instructor/write.py`.

Each lesson has its plan in its notebook (`metadata.ddp_lessons`), and plans.py lists the sections of each workshop.
The text between the marks of the pages, and the minutes in README and after *Time* in a lesson's first cell, come from
these two. So does the package's list of exercises, with the programs that lessons show as wrong. `--check` changes
nothing. Everything else is written by hand.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from plans import IN_HAND, LUNCH, PLANS, Day, Say, Take

from ddp_lessons.check.dashboard import fingerprint

GUIDE = Path(__file__).parent
PROJECT = GUIDE.parent.parent
NOTEBOOKS = PROJECT / "notebooks"
TRAIN = PROJECT / "ddp_lessons" / "train"
EXERCISES = PROJECT / "ddp_lessons" / "check" / "lessons.json"
OPENING = "opening"  # the plan's name for the text before the first section
TEACHING, EXERCISE = "teach", "exercise"
HAND, LEAST_IN_HAND = "the time in hand", 10
CORE = 13  # lessons; the others are electives
NEEDS_NOTHING = {"Do you know it?", "What you have now"}  # they have no cells, or cells that need no earlier ones
ANY_CHECK = re.compile(r"^check\.(?!progress)(\w+)\((\"?\w*\"?)", re.M)
NUMBERED = {"diagnosis", "reading", "training_script"}  # one check for several exercises
JUDGED = re.compile(r"^check\.(?!diagnosis|reading)\w+\((\w+)\)", re.M)  # no functions


@dataclass(frozen=True)
class Lesson:
    file: Path
    opening: str
    headings: tuple[str, ...]
    objectives: list[str]
    key_points: list[str]
    minutes: dict[str, dict[str, int]]
    cut: dict[str, str]
    cells: int  # of code
    words: int  # outside the code cells
    exercises: tuple[tuple[str, str], ...]  # the section, and the name of the function that its check gets

    @property
    def number(self) -> int:
        return int(self.file.stem[:2])

    @property
    def title(self) -> str:
        return self.opening.splitlines()[0].removeprefix("# ")

    @property
    def sections(self) -> list[str]:
        """The sections with minutes, in the lesson's order; one without a heading comes before the last."""
        named = {section for minutes in self.minutes.values() for section in minutes}
        others = sorted(named - {OPENING, *self.headings})
        return [section for section in (OPENING, *self.headings[:-1], *others, *self.headings[-1:]) if section in named]

    def spent(self, kind: str, sections: Collection[str] | None = None) -> int:
        wanted = self.sections if sections is None else sections
        return sum(self.minutes[kind].get(section, 0) for section in wanted)


def read_lesson(file: Path) -> Lesson:
    notebook = json.loads(file.read_text(encoding="utf-8"))
    headings, exercises, words = list[str](), list[tuple[str, str]](), 0
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            words += len(text.split())
            headings += [line[3:].strip() for line in text.splitlines() if line.startswith("## ")]
        else:
            exercises += [(headings[-1], name) for name in JUDGED.findall(text)]
    opening, plan = "".join(notebook["cells"][0]["source"]), notebook["metadata"]["ddp_lessons"]
    cells = sum(cell["cell_type"] == "code" for cell in notebook["cells"])
    return Lesson(file, opening, tuple(headings), **plan, cells=cells, words=words, exercises=tuple(exercises))


def read_lessons() -> list[Lesson]:
    return [read_lesson(file) for file in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))]


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Numbers are right-aligned, and a zero is left blank."""
    numbers = [all(isinstance(row[place], int) for row in rows) for place in range(len(header))]
    rule = ["--:" if number else "---" for number in numbers]
    lines = [header, rule, *([str(cell) if cell != 0 else "" for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def facts(lesson: Lesson) -> str:
    teach, exercise = (lesson.minutes[kind] for kind in (TEACHING, EXERCISE))
    rows = [(section, teach.get(section, 0), exercise.get(section, 0)) for section in lesson.sections]
    rows.append(("**all**", lesson.spent(TEACHING), lesson.spent(EXERCISE)))
    cheap_first = sorted(
        lesson.cut.items(), key=lambda cut: (not cut[1].startswith("nothing"), lesson.sections.index(cut[0]))
    )
    cuts = [(section, teach.get(section, 0) + exercise.get(section, 0), cost) for section, cost in cheap_first]
    parts = [
        "## What they will be able to do",
        "\n".join(f"- {objective}" for objective in lesson.objectives),
        "## Say this at the end",
        "\n".join(f"- {point}" for point in lesson.key_points),
        "## Minutes",
        table(("section", "teaching", "exercises"), rows),
        "## When you are late",
        table(("leave out", "saves", "what they miss"), cuts),
    ]
    if lesson.exercises:
        parts += ["## Solutions", "\n".join(solution(*exercise) for exercise in lesson.exercises)]
    return "\n\n".join(parts)


def solution(section: str, name: str) -> str:
    """The package's own function, which has the same name as the learner's."""
    made = re.compile(rf"^(?:(?:def|class) )?{name}\b", re.M)
    (file,) = [file for file in sorted(TRAIN.glob("*.py")) if made.search(file.read_text(encoding="utf-8"))]
    return f"- *{section}*: `{name}` in [{file.name}](../../../{file.relative_to(PROJECT).as_posix()})"


def lesson_table(lessons: Sequence[Lesson]) -> str:
    rows: list[tuple[object, ...]] = [
        (
            f"{lesson.number}",
            f"[{lesson.title}](lessons/{lesson.file.stem}.md)",
            lesson.spent(TEACHING),
            lesson.spent(EXERCISE),
            lesson.spent(TEACHING) + lesson.spent(EXERCISE),
            lesson.cells,
            round(lesson.words / lesson.cells),
        )
        for lesson in lessons
    ]
    for name, some in ((f"core path, 0 to {CORE - 1}", rows[:CORE]), ("all", rows[:])):
        sums = [sum(int(str(row[place])) for row in some) for place in (2, 3, 4, 5)]
        words = round(sum(lesson.words for lesson in lessons[: len(some)]) / sums[-1])
        rows.append(("", f"**{name}**", *sums, words))
    header = ("", "lesson", "teaching", "exercises", "minutes", "code cells", "words per cell")
    return table(header, rows)


@dataclass(frozen=True)
class Line:
    """One line of a plan."""

    teach: int
    exercise: int
    pause: int
    text: str

    @property
    def minutes(self) -> int:
        return self.teach + self.exercise + self.pause


def line_of(part: Say | Take, lessons: Sequence[Lesson]) -> Line:
    if isinstance(part, Say):
        return Line(part.teach, part.exercise, part.pause, part.text)
    lesson = lessons[part.lesson]
    taken = part.sections or lesson.sections
    if unknown := set(taken) - set(lesson.sections):
        raise ValueError(f"lesson {lesson.number} has no section {', '.join(sorted(unknown))}")
    which = "; ".join(f"*{section}*" for section in part.sections if section != OPENING) or "all of it"
    text = f"[Lesson {lesson.number}, {lesson.title}](lessons/{lesson.file.stem}.md): {which}"
    return Line(lesson.spent(TEACHING, taken), lesson.spent(EXERCISE, taken), 0, text)


def filled(day: Day, lessons: Sequence[Lesson]) -> Day:
    """The day with its time in hand: what the lessons leave of it, in equal parts."""
    left = day.minutes - sum(line_of(part, lessons).minutes for part in day.parts)
    share, rest = divmod(left, day.parts.count(IN_HAND))
    if share < LEAST_IN_HAND:
        raise ValueError(f"{day.name} has {left} minutes in hand: leave out a section in docs/instructor/plans.py")
    last = max(place for place, part in enumerate(day.parts) if part == IN_HAND)
    parts = [
        replace(IN_HAND, teach=share + rest * (place == last)) if part == IN_HAND else part
        for place, part in enumerate(day.parts)
    ]
    return replace(day, parts=tuple(parts))


def day_table(day: Day, lessons: Sequence[Lesson]) -> str:
    lines = [line_of(part, lessons) for part in day.parts]
    rows: list[tuple[object, ...]] = [
        (begin, line.teach, line.exercise, line.pause, line.text)
        for begin, line in zip(clocks(day, lessons), lines, strict=False)
    ]
    sums = [sum(getattr(line, kind) for line in lines) for kind in ("teach", "exercise", "pause")]
    rows.append((clocks(day, lessons)[-1], *sums, f"the end, after {sum(sums)} minutes"))
    made = table(("clock", "teaching", "exercises", "break", "what the room does"), rows)
    return f"{made}\n\n*Run > Run All Above Selected Cell* before: {'; '.join(left_out_before(day, lessons))}."


def left_out_before(day: Day, lessons: Sequence[Lesson]) -> list[str]:
    """The sections below a skipped one, whose cells have to be run too."""
    taken, found = set[tuple[int, str]](), list[str]()
    for part in [part for part in day.parts if isinstance(part, Take)]:
        for section in part.sections:
            order = lessons[part.lesson].sections
            above = order[: order.index(section)][-1:]
            if section not in NEEDS_NOTHING and any((part.lesson, one) not in taken for one in above):
                found.append(f"lesson {part.lesson}, *{section}*")
            taken.add((part.lesson, section))
    return found


def late_tables(day: Day, lessons: Sequence[Lesson]) -> str:
    """For each half of a day: what to leave out, and the minutes added up."""
    parts = list(zip(clocks(day, lessons), day.parts, strict=False))
    noon = day.parts.index(LUNCH) if LUNCH in day.parts else len(parts)
    halves = [late_rows(half, lessons) for half in (parts[:noon], parts[noon:]) if half]
    made = [table(("clock", "leave out", "saves", "in all", "what they miss"), half) for half in halves]
    names = ("Before lunch:", "After lunch:")
    return "\n\n".join(made if len(made) == 1 else [f"{name}\n\n{one}" for name, one in zip(names, made, strict=True)])


def late_rows(parts: Sequence[tuple[str, Say | Take]], lessons: Sequence[Lesson]) -> list[tuple[object, ...]]:
    """The time in hand comes first, because it costs learners nothing; exercises last, because they remember these."""
    found = [(at, HAND, part.teach, "") for at, part in parts if isinstance(part, Say) and part.text == IN_HAND.text]
    cuts = list[tuple[str, str, int, str]]()
    for at, part in parts:
        if isinstance(part, Take):
            lesson = lessons[part.lesson]
            for section in part.sections or lesson.sections:
                if section in lesson.cut:
                    saves = lesson.spent(TEACHING, [section]) + lesson.spent(EXERCISE, [section])
                    cuts.append((at, f"*{section}* of lesson {lesson.number}", saves, lesson.cut[section]))
    found += sorted(cuts, key=lambda cut: "Exercise" in cut[1])
    sums = itertools.accumulate(saves for _, _, saves, _ in found)
    return [(at, name, saves, sum, missed) for (at, name, saves, missed), sum in zip(found, sums, strict=True)]


def clocks(day: Day, lessons: Sequence[Lesson]) -> list[str]:
    """When each part begins, and when the last one ends."""
    hours, minutes = day.begin.split(":")
    spent = (line_of(part, lessons).minutes for part in day.parts)
    return [clock(now) for now in itertools.accumulate(spent, initial=60 * int(hours) + int(minutes))]


def clock(minutes: int) -> str:
    return f"{minutes // 60}:{minutes % 60:02}"


def put_between_marks(text: str, name: str, written: str) -> str:
    begin, end = f"<!-- {name}: written by docs/instructor/write.py -->", f"<!-- end of {name} -->"
    pattern = re.compile(rf"{re.escape(begin)}\n.*?{re.escape(end)}", re.S)
    if len(pattern.findall(text)) != 1:
        raise ValueError(f"the page needs these two lines once: {begin} and {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{written}\n\n{end}", text)


def pages() -> dict[Path, Callable[[str], str]]:
    """For each page, a function that turns its current text into the text that it should have."""
    lessons = read_lessons()
    found: dict[Path, Callable[[str], str]] = {
        GUIDE / "index.md": lambda text: put_between_marks(text, "lessons", lesson_table(lessons))
    }
    for lesson in lessons:
        page = GUIDE / "lessons" / f"{lesson.file.stem}.md"
        found[page] = lambda text, lesson=lesson: put_between_marks(text, "facts", facts(lesson))  # type: ignore[misc]
        found[lesson.file] = lambda text, lesson=lesson: with_time(text, lesson)  # type: ignore[misc]
    found[PROJECT / "README.md"] = lambda text: with_minutes_in_table(text, lessons)
    found[EXERCISES] = lambda text: exercise_lists(lessons)
    for page_name, days in PLANS.items():
        full = [filled(day, lessons) for day in days]
        found[GUIDE / page_name] = lambda text, full=full: with_days(text, full, lessons)  # type: ignore[misc]
    return found


def exercise_lists(lessons: Sequence[Lesson]) -> str:
    """The exercises of each lesson, and the fingerprints of functions that a lesson gives to be repaired."""
    listed, given = list[dict[str, object]](), dict[str, str]()
    for lesson in lessons:
        names, functions = list[str](), dict[str, str]()
        for cell in json.loads(lesson.file.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] != "code" or source.startswith("%%"):
                continue
            functions |= functions_in(source)
            for name, argument in ANY_CHECK.findall(source):
                names.append(f"{name}({argument})" if name in NUMBERED else name)
                if "not right yet" in json.dumps(cell["outputs"]) and argument in functions:
                    given[fingerprint(functions[argument])] = argument
        if names:
            listed.append({"number": lesson.number, "title": lesson.title, "exercises": list(dict.fromkeys(names))})
    return json.dumps({"lessons": listed, "given": given}, indent=1) + "\n"


def functions_in(source: str) -> dict[str, str]:
    tree = ast.parse(re.sub(r"^[%!].*$", "", source, flags=re.M))
    return {
        node.name: ast.get_source_segment(source, node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)
    }


def with_minutes_in_table(text: str, lessons: Sequence[Lesson]) -> str:
    for lesson in lessons:
        minutes = lesson.spent(TEACHING) + lesson.spent(EXERCISE)
        text = re.sub(
            rf"^(\| {lesson.number} \| \[[^\]]*\]\([^)]*\)) \| [^|]* \|", rf"\1 | {minutes} |", text, flags=re.M
        )
    return text


def with_time(text: str, lesson: Lesson) -> str:
    minutes = lesson.spent(TEACHING) + lesson.spent(EXERCISE)
    return re.sub(r"(\*\*Time:\*\*) \d+ minutes", rf"\1 {minutes} minutes", text, count=1)


def with_days(text: str, days: Sequence[Day], lessons: Sequence[Lesson]) -> str:
    for day in days:
        text = put_between_marks(text, day.name, day_table(day, lessons))
        text = put_between_marks(text, f"{day.name}, late", late_tables(day, lessons))
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write tables, totals and lists that follow from the lessons.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 if a page is not current")
    check = parser.parse_args(arguments).check
    stale = []
    for page, make in pages().items():
        text = page.read_text(encoding="utf-8")
        if (made := make(text)) != text:
            stale.append(page)
            if not check:
                page.write_text(made, encoding="utf-8")
    for page in stale:
        print(page.relative_to(PROJECT), "is not current" if check else "written")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
