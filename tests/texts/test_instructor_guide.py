"""The instructor guide agrees with the lessons: minutes, sections, plans and their clocks, solutions and links."""

from __future__ import annotations

import importlib
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from every import every
from glossary_words import anchor_of, entries, lessons as lessons_with_words, uses
from lesson_cells import exercises_of

from docs.lesson_table import EXERCISES, Lesson, exercise_lists, lesson_table, read_lessons

PROJECT = Path(__file__).parents[2]
GUIDE = PROJECT / "docs" / "instructor"
PAGES = [*sorted(GUIDE.rglob("*.md")), PROJECT / "docs" / "participants.md"]
PLANS = ("half_day.md", "one_day.md", "two_days.md")
QUIZ, CLOSING, OPENING = "Quiz", "Summary", "opening"
LESSONS = read_lessons()
every_lesson = every(LESSONS, lambda lesson: lesson.file.stem)
every_plan = every(PLANS)
Row = list[str]


def page_of(lesson: Lesson) -> str:
    return (GUIDE / "lessons" / f"{lesson.file.stem}.md").read_text(encoding="utf-8")


def plan(page: str) -> str:
    return (GUIDE / page).read_text(encoding="utf-8")


def below(text: str, heading: str) -> str:
    """The section with this heading; empty if there is none."""
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def tables(text: str) -> list[list[Row]]:
    """The rows of each table, without its header."""
    found = re.findall(r"(?:^\|.*\n)+", text, re.M)
    return [[[cell.strip() for cell in line[1:-1].split(" | ")] for line in one.splitlines()[2:]] for one in found]


def headings(lesson: Lesson) -> list[str]:
    prose = "\n".join(source for kind, source, _ in lesson.cells if kind == "markdown")
    return [heading.strip() for heading in re.findall(r"^## (.*)$", prose, re.M)]


def minutes(text: str) -> int:
    return int(text or 0)


def test_the_table_of_lessons_and_the_list_of_exercises_are_current() -> None:
    """After a change: `.venv/bin/python docs/lesson_table.py`."""
    measured = [row[:-1] for row in tables(below(plan("index.md"), "The lessons"))[0]]
    assert measured == [row[:-1] for row in tables(lesson_table(LESSONS, {}) + "\n")[0]]
    assert EXERCISES.read_text(encoding="utf-8") == exercise_lists(LESSONS)


@every_lesson
def test_a_lesson_and_readme_say_the_minutes_that_its_sections_add_up_to(lesson: Lesson) -> None:
    said = re.search(r"\*\*Time:\*\* (\d+) minutes", lesson.opening)
    assert said
    assert int(said[1]) == sum(lesson.minutes)
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    (in_readme,) = re.findall(rf"^\| {lesson.number} \| \[[^\]]*\]\([^)]*\) \| (\d+) \|", readme, re.M)
    assert int(in_readme) == sum(lesson.minutes)


@every_lesson
def test_every_section_of_a_lesson_has_minutes_and_an_exercise_has_time(lesson: Lesson) -> None:
    assert {*lesson.teach, *lesson.exercise} - {OPENING, QUIZ} == set(headings(lesson)) - {QUIZ}
    assert all(spent > 0 for spent in [*lesson.teach.values(), *lesson.exercise.values()])
    assert set(lesson.exercise) >= {QUIZ, *(one for one in headings(lesson) if one.startswith("Exercise"))}
    assert lesson.exercise[QUIZ] == 5


@every_lesson
def test_a_page_fits_on_a_screen_and_says_what_to_ask_what_goes_wrong_and_what_to_leave_out(lesson: Lesson) -> None:
    text = page_of(lesson)
    assert len(re.findall(r"[\w`']+", text)) <= 450
    questions = below(text, "Ask the room").strip().splitlines()
    assert len(questions) >= 3
    for question in questions:
        assert re.match(r'- \*\*.*\?\*\* .*[.?!] To ".*": .*[.?)]$', question), question
    troubles = below(text, "What will go wrong").strip().splitlines()
    assert len(troubles) >= 3
    assert all(re.match(r"- .* Say: .*[.?)]$", trouble) for trouble in troubles)
    for section, saves, missed in tables(below(text, "When you are late"))[0]:
        assert int(saves) == lesson.teach.get(section, 0) + lesson.exercise.get(section, 0) > 0
        assert missed


@every_lesson
def test_a_page_names_the_solution_of_every_exercise_that_is_checked(lesson: Lesson) -> None:
    said = page_of(lesson).partition("Solutions: ")[2]
    solutions = {
        (name, module)
        for names, module in re.findall(r"((?:`\w+`(?: and )?)+) in \[(\w+)\.py\]\(\S*/train/", said)
        for name in re.findall(r"\w+", names.replace(" and ", " "))
    }
    assert {name for name, _ in solutions} == {name for name, _ in exercises_of(lesson.file)}
    for name, module in solutions:
        assert hasattr(importlib.import_module(f"ddp_lessons.train.{module}"), name)


@every_lesson
def test_a_lesson_is_stored_as_jupyter_stores_it(lesson: Lesson) -> None:
    text = lesson.file.read_text(encoding="utf-8")
    read: Any = nbformat
    assert read.writes(read.reads(text, as_version=4)) + "\n" == text  # so saving a lesson does not move a line of it


# plans


@dataclass(frozen=True)
class Part:
    """One line of a plan."""

    row: Row
    lesson: Lesson | None
    sections: list[str]  # in the plan's order; all of them where the lesson is taught whole

    @property
    def spent(self) -> tuple[int, int, int]:
        return minutes(self.row[1]), minutes(self.row[2]), minutes(self.row[3])


def days(page: str) -> list[list[Part]]:
    """The lines of each day; the last one is the end."""
    schedule = plan(page).partition("## How to give it")[0]
    return [[part_of(row) for row in rows] for rows in tables(schedule)]


def part_of(row: Row) -> Part:
    named = re.match(r"\[Lesson (\d+), (.*?)\]\(lessons/(\w+)\.md\): (.*)", row[4])
    if not named:
        return Part(row, None, [])
    lesson = LESSONS[int(named[1])]
    assert (lesson.title, lesson.file.stem) == (named[2], named[3])
    if named[4] == "all of it":
        return Part(row, lesson, [OPENING, *headings(lesson)])
    sections = re.findall(r"\*(.*?)\*(?:; |$)", named[4])
    # the plan has no name for the text before the first section, only its minutes
    with_opening = minutes(row[1]) > sum(lesson.teach.get(section, 0) for section in sections)
    return Part(row, lesson, [OPENING] * with_opening + sections)


def parts(page: str) -> Iterator[tuple[Lesson, Part]]:
    for part in itertools.chain.from_iterable(days(page)):
        if part.lesson:
            yield part.lesson, part


@every_plan
def test_a_line_of_a_plan_has_the_minutes_of_its_sections_in_the_lesson_s_order(page: str) -> None:
    for lesson, part in parts(page):
        assert part.sections == [one for one in [OPENING, *headings(lesson)] if one in part.sections], part.row
        teach, exercise = (sum(kind.get(one, 0) for one in part.sections) for kind in (lesson.teach, lesson.exercise))
        assert part.spent[:2] == (teach, exercise), part.row


@every_plan
def test_the_clock_and_the_sums_of_a_plan_are_right(page: str) -> None:
    for day in days(page):
        *lines, end = day
        clocks = [60 * int(hour) + int(minute) for hour, minute in (part.row[0].split(":") for part in day)]
        steps = [sum(part.spent) for part in lines]
        assert clocks == list(itertools.accumulate(steps, initial=clocks[0]))
        assert end.spent == tuple(map(sum, zip(*(part.spent for part in lines), strict=True)))
        assert end.row[4] == f"the end, after {sum(steps)} minutes"


@every_plan
def test_a_plan_has_time_in_hand_and_a_break_after_two_hours_at_most(page: str) -> None:
    for day in days(page):
        stretches = [0]
        for part in day[:-1]:
            stretches = [*stretches, 0] if part.spent[2] else [*stretches[:-1], stretches[-1] + sum(part.spent)]
        assert max(stretches) <= 120, stretches
        assert any(part.row[4].startswith("Buffer") and part.spent[0] >= 10 for part in day)


@every_plan
def test_a_plan_says_where_cells_that_are_left_out_have_to_be_run(page: str) -> None:
    """Before each section that follows one which the plan leaves out. Quiz and closing have no cells that need any."""
    said = re.findall(r"lesson (\d+), \*(.*?)\*(?=[;.])", "".join(re.findall(r"^\*Run > Run All.*$", plan(page), re.M)))
    needed = list[tuple[str, str]]()
    for lesson, part in parts(page):
        order = [OPENING, *headings(lesson)] if OPENING in lesson.teach else headings(lesson)
        for section in (one for one in order if one in part.sections and one not in (OPENING, QUIZ, CLOSING)):
            before = order[: order.index(section)][-1:]
            if before and before[0] not in part.sections:
                needed.append((str(lesson.number), section))
    assert said == needed


@every_plan
def test_a_late_instructor_finds_minutes_added_up_and_exercises_last(page: str) -> None:
    late = tables(plan(page).partition("## When you are late")[2])
    assert len(late) == sum(2 if any("Lunch" in part.row[4] for part in day) else 1 for day in days(page))
    spent = {f"*{one}* of lesson {lesson.number}": lesson.teach.get(one, 0) + lesson.exercise.get(one, 0)
             for lesson, part in parts(page) for one in part.sections}  # fmt: skip
    in_hand = {part.row[0]: part.spent[0] for day in days(page) for part in day}
    for rows in late:
        names = [row[1] for row in rows]
        saves = [int(row[2]) for row in rows]
        assert names[0] == "the buffer"
        assert saves == [in_hand[rows[0][0]], *(spent[name] for name in names[1:])]
        assert [int(row[3]) for row in rows] == list(itertools.accumulate(saves))
        assert sum(saves) >= 25, "for half an hour"
        assert names == sorted(names, key=lambda name: "Exercise" in name)


@every_plan
def test_a_plan_has_a_sentence_for_each_word_whose_section_it_leaves_out(page: str) -> None:
    taken: dict[str, set[str]] = {}
    for lesson, part in parts(page):
        named = {lesson.title, *part.sections}  # an opening is always read
        taken.setdefault(lesson.file.name, set()).update(anchor_of(section) for section in named)
    known = {
        entry.word for entry in entries() for place in entry.explained if place.anchor in taken.get(place.notebook, ())
    }
    used = {
        use.word
        for lesson in lessons_with_words()
        for use in uses(lesson)
        if use.section in taken.get(lesson.name, ()) and not use.is_announced
    }
    assert used - known <= set(re.findall(r"(?<!\*)\*([^*`]+)\*", below(plan(page), "Say instead")))


# links


def anchors(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in found}


def test_what_the_guide_links_to_is_there() -> None:
    links = sorted({(page, link) for page in PAGES for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))})
    links = [(page, link) for page, link in links if not link.startswith("http")]
    broken = []
    for page, link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.relative_to(PROJECT)}: {link}")
    assert len(links) > 50
    assert not broken


def test_commands_in_the_guide_have_the_options_that_are_named() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = set(re.findall(r"-m ddp_lessons ([a-z]+)((?: --[a-z-]+| [A-Z]+)*)", text))
    assert len(commands) >= 4
    for name, options in sorted(commands):
        helped = subprocess.run([sys.executable, "-m", "ddp_lessons", name, "--help"], capture_output=True, text=True)
        assert helped.returncode == 0, name
        assert not [option for option in re.findall(r"--[a-z-]+", options) if option not in helped.stdout], name
