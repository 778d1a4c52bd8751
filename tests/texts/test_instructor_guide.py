"""The instructor guide, held: pages are current, plans fill their time, and what it names is there."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from every import every
from glossary_words import anchor_of, entries, lessons as lessons_with_words, uses
from lesson_cells import blocks

PROJECT = Path(__file__).parents[2]
GUIDE = PROJECT / "docs" / "instructor"
PAGES = sorted(GUIDE.rglob("*.md"))
LESSON_PAGES = sorted((GUIDE / "lessons").glob("*.md"))
WRITTEN_BY_HAND = [*PAGES, PROJECT / "docs" / "participants.md"]
NOT_CHECKED = {
    "Exercise: processes that do not know their rank",  # of lesson 17: its page has the line
    "Exercise (advanced): all_reduce over MPI",  # of lesson 17, which names the file
    "Exercise: write my_train.py",  # of lesson 12: a script, judged from outside; its page has the lines
    "Exercise: share the images",  # of lesson 9: functions of scripts/training.py, as the next three
    "Exercise: evaluate on all ranks",
    "Exercise: save and resume",
    "Exercise: accumulate gradients with `no_sync`",
}
QUIZ = "Do you know it?"  # planned for in every lesson, at its end
every_lesson_page = every(LESSON_PAGES, lambda page: page.stem)


def load_write() -> Any:
    """docs/ is no package: the program is loaded as it is run, from its own folder."""
    sys.path.insert(0, str(GUIDE))
    try:
        found = importlib.util.spec_from_file_location("write_the_guide", GUIDE / "write.py")
        assert found is not None
        assert found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules["write_the_guide"] = module  # dataclasses look for their module there
        found.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(GUIDE))


write = load_write()
LESSONS = write.read_lessons()
DAYS = [write.filled(day, LESSONS) for days in write.PLANS.values() for day in days]
every_lesson = every(LESSONS, lambda lesson: lesson.file.stem)
every_day = every(DAYS, lambda day: day.name)


def test_the_pages_are_current_and_the_command_says_so() -> None:
    ended = subprocess.run([sys.executable, GUIDE / "write.py", "--check"], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, ""), ended.stdout + ended.stderr


def test_a_page_that_was_changed_between_its_marks_is_not_current() -> None:
    page, make = next(iter(write.pages().items()))
    text = page.read_text(encoding="utf-8")
    assert make(text.replace("Start four ranks", "Start five ranks")) == text


# --- lessons --------------------------------------------------------------------------------------------------------


@every_lesson
def test_a_lesson_says_the_minutes_that_its_sections_add_up_to(lesson: Any) -> None:
    said = re.search(r"\*\*Time:\*\* (\d+) minutes", lesson.opening)
    assert said
    assert int(said[1]) == lesson.spent("teach") + lesson.spent("exercise")


@every_lesson
def test_every_section_of_a_lesson_has_minutes_and_no_other_has(lesson: Any) -> None:
    planned = set(lesson.sections) - {write.OPENING}
    assert planned - {QUIZ} == set(lesson.headings) - {QUIZ}
    assert all(minutes > 0 for kind in lesson.minutes.values() for minutes in kind.values())


@every_lesson
def test_a_section_with_an_exercise_leaves_time_for_it_and_the_quiz_has_five_minutes(lesson: Any) -> None:
    exercises = {heading for heading in lesson.headings if heading.startswith("Exercise")}
    assert set(lesson.minutes["exercise"]) >= {*exercises, QUIZ}
    assert lesson.minutes["exercise"][QUIZ] == 5


@every_lesson
def test_a_lesson_has_a_few_objectives_and_key_points_and_something_to_leave_out(lesson: Any) -> None:
    assert 3 <= len(lesson.objectives) <= 5
    assert 3 <= len(lesson.key_points) <= 5
    assert lesson.cut
    assert set(lesson.cut) <= set(lesson.headings)


@every_lesson
def test_a_plan_is_stored_as_jupyter_stores_it(lesson: Any) -> None:
    text = lesson.file.read_text(encoding="utf-8")
    read: Any = nbformat
    assert read.writes(read.reads(text, as_version=4)) + "\n" == text  # so saving a lesson does not move a line of it


@every_lesson
def test_every_exercise_that_is_checked_has_a_solution_that_is_there(lesson: Any) -> None:
    exercises = {heading for heading in lesson.headings if heading.startswith("Exercise")}
    assert {section for section, _ in lesson.exercises} == exercises - NOT_CHECKED
    for section, name in lesson.exercises:
        (file,) = re.findall(r"\[(\w+)\.py\]", write.solution(section, name))
        assert hasattr(importlib.import_module(f"ddp_lessons.train.{file}"), name)


def test_every_lesson_has_its_page() -> None:
    assert [page.stem for page in LESSON_PAGES] == [lesson.file.stem for lesson in LESSONS]


@every_lesson_page
def test_a_page_has_questions_with_answers_heard_and_what_goes_wrong(page: Path) -> None:
    _, asked, wrong = re.split(r"^## (?:Ask the room|What will go wrong here)$", page.read_text("utf-8"), flags=re.M)
    questions = re.split(r"^\*\*", asked, flags=re.M)[1:]
    assert len(questions) >= 3
    for question in questions:
        assert "?" in question.partition("**")[0]
        assert re.search(r"^- Right: .*Say: ", question, re.M), question
        assert re.search(r"^- Wrong: .*Say: ", question, re.M), question
    assert len(re.findall(r"\bSay[: ]", wrong)) >= 4


# --- plans ----------------------------------------------------------------------------------------------------------


@every_day
def test_a_plan_names_real_sections_and_fills_its_time(day: Any) -> None:
    lines = [write.line_of(part, LESSONS) for part in day.parts]  # refuses a section that is not there
    assert sum(line.minutes for line in lines) == day.minutes


@every_day
def test_a_plan_keeps_the_order_of_a_lesson_and_takes_no_section_twice(day: Any) -> None:
    taken: dict[int, list[str]] = {}
    for part in day.parts:
        if hasattr(part, "lesson"):
            taken.setdefault(part.lesson, []).extend(part.sections)
    for number, sections in taken.items():
        order = [LESSONS[number].sections.index(section) for section in sections]
        assert order == sorted(set(order))


@every_day
def test_nobody_sits_for_more_than_two_hours_and_a_plan_has_time_in_hand(day: Any) -> None:
    stretches = [0]
    for line in [write.line_of(part, LESSONS) for part in day.parts]:
        stretches = [*stretches, 0] if line.pause else [*stretches[:-1], stretches[-1] + line.minutes]
    assert max(stretches) <= 120, stretches
    assert any("in hand" in getattr(part, "text", "") for part in day.parts)


def late_rows(page: str) -> list[list[tuple[str, int, int]]]:
    """The lists of a page for who is late, as one reads them: what, minutes, minutes in all."""
    late = (GUIDE / page).read_text(encoding="utf-8").partition("## When you are late")[2]
    tables = re.findall(r"(?:^\|.*\n)+", late, re.M)
    cells = [[line.split(" | ") for line in table.splitlines()[2:]] for table in tables]
    return [[(row[1], int(row[2]), int(row[3])) for row in rows] for rows in cells]


@every(write.PLANS)
def test_who_is_late_has_minutes_added_up_and_exercises_last(page: str) -> None:
    halves = late_rows(page)
    assert len(halves) == sum(2 if write.LUNCH in day.parts else 1 for day in write.PLANS[page])
    for rows in halves:
        names, saves, in_all = zip(*rows, strict=True)
        assert names[0] == write.HAND
        assert list(in_all) == [sum(saves[: place + 1]) for place in range(len(saves))]
        assert in_all[-1] >= 25, "for who is half an hour late"
        are_exercises = ["Exercise" in name for name in names]
        assert are_exercises == sorted(are_exercises)


def test_a_plan_says_where_cells_that_are_left_out_have_to_be_run() -> None:
    (half_a_day,) = write.PLANS["half_day.md"]
    stops = write.left_out_before(half_a_day, LESSONS)
    assert "lesson 5, *Compare replicas by fingerprint*" in stops  # the proof, above it, is not in the plan
    assert not [stop for stop in stops if stop.startswith("lesson 0") or stop.endswith("*Keep replicas equal*")]


@every(write.PLANS)
def test_a_plan_has_a_sentence_for_each_word_whose_section_it_leaves_out(page: str) -> None:
    taken: dict[str, set[str]] = {}
    for part in [part for day in write.PLANS[page] for part in day.parts if hasattr(part, "lesson")]:
        lesson = LESSONS[part.lesson]
        named = {lesson.title, *(part.sections or lesson.sections)}  # an opening is always read
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
    instead = (GUIDE / page).read_text(encoding="utf-8").partition("## Say instead")[2].partition("\n## ")[0]
    assert used - known <= set(re.findall(r"(?<!\*)\*([^*`]+)\*", instead))


def test_a_section_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="lesson 2 has no section A ring"):
        write.line_of(type(DAYS[0].parts[1])(2, "A ring"), LESSONS)


# --- links and commands ---------------------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings}


LINKS = sorted(
    {
        (page, link)
        for page in WRITTEN_BY_HAND
        for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
        if not link.startswith("http")
    }
)


def test_what_the_guide_links_to_is_there() -> None:
    broken = []
    for page, link in LINKS:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.relative_to(PROJECT)}: {link}")
    assert len(LINKS) > 50
    assert not broken


def test_sections_that_a_page_names_for_leaving_out_are_sections() -> None:
    headings = {heading for lesson in LESSONS for heading in [*lesson.headings, "Try next", "Predict"]}
    for page in ("half_day.md", "one_day.md", "two_days.md"):
        late = (GUIDE / page).read_text(encoding="utf-8").partition("## When you are late")[2]
        named = [" ".join(name.split()) for name in re.findall(r"\*([^*]+)\*", late)]
        assert named
        assert set(named) <= headings


@every_lesson_page
def test_a_page_shows_some_messages(page: Path) -> None:
    kinds = [kind for kind, _ in blocks(page)]
    assert kinds.count("text") >= 2
