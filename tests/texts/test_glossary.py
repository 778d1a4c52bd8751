"""One word, one meaning: each is in the glossary, leads there where a lesson first uses it, and is explained before."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

from every import every
from glossary_words import (
    GLOSSARY,
    LINK,
    NOTEBOOKS,
    Entry,
    Lesson,
    Use,
    anchor_of,
    anchors,
    entries,
    explaining_use,
    lessons,
    read,
    uses,
)

EVERYDAY = ("message",)  # an error has one, and lesson 0 shows it before anything is sent
every_entry = every(entries(), lambda entry: entry.word)
every_lesson = every(lessons(), lambda lesson: lesson.path.stem)


def not_linked(lesson: Lesson) -> list[str]:
    """What is wrong with the links of a lesson to the glossary: the first use of a word has to be one, and no other."""
    wrong = []
    for entry in entries():
        found = [use for use in uses(lesson) if use.word == entry.word]
        if entry.explained[0].notebook == lesson.name:  # what it announces, it need not have explained yet
            found = [use for use in found if use.is_link or not is_before(use, explaining_use(entry))]
            found.sort(key=lambda use: not use.is_emphasized)
        if found and entry.word not in EVERYDAY and not found[0].is_link:
            wrong.append(f"{seen(lesson, found[0])}: write [{found[0].form}]({entry.link})")
        wrong += [f"{seen(lesson, use)}: has a link already" for use in [use for use in found if use.is_link][1:]]
    return wrong


def too_early(lesson: Lesson) -> list[str]:
    """The words that a lesson uses before they are explained, in it or in a later one."""
    names, wrong = [known.name for known in lessons()], []
    for entry in entries():
        home = entry.explained[0].notebook
        if entry.word in EVERYDAY or names.index(home) < names.index(lesson.name):
            continue
        explained = explaining_use(entry) if home == lesson.name else None
        early = [use for use in uses(lesson) if use.word == entry.word and is_before(use, explained)]
        early = [use for use in early if not (use.is_announced and home == lesson.name)]
        wrong += [f"{seen(lesson, use)}: {entry.word} is explained in {home}" for use in early]
    return wrong


def is_before(use: Use, explained: Use | None) -> bool:
    return explained is None or (use.cell, use.paragraph) < (explained.cell, explained.paragraph)


def seen(lesson: Lesson, use: Use) -> str:
    source = dict(lesson.cells)[use.cell]
    return f"{lesson.name}, cell {use.cell}, ...{source[max(0, use.at - 40) : use.at + 40]!r}..."


def test_the_words_stand_in_the_order_of_the_alphabet_and_no_form_belongs_to_two() -> None:
    words = [entry.word.lower() for entry in entries()]
    assert len(words) > 60
    assert [f"{after} stands behind {before}" for before, after in pairwise(words) if after <= before] == []
    forms = [(form.lower(), entry.word) for entry in entries() for form in set(entry.forms)]
    assert len({form for form, _ in forms}) == len(forms)


@every_entry
def test_a_word_is_explained_in_short_and_where_the_glossary_says(entry: Entry) -> None:
    assert 5 <= len(re.sub(LINK, r"\1", entry.text.strip().split("\n\n")[0]).split()) <= 60
    assert entry.explained, "its last line has to begin with: Explained in [lesson ...](...#section)"
    explained = explaining_use(entry)
    assert explained is not None, f"*{entry.word}* is not emphasized in {entry.explained[0]}"
    for label, target in LINK.findall(entry.text):
        assert not label.startswith("lesson ") or target.startswith(f"{int(label.split()[1]):02}_")


@every_entry
def test_beside_each_link_to_a_lesson_stands_the_heading_that_it_leads_to(entry: Entry) -> None:
    """JupyterLab opens a lesson that was closed at its top, whatever the link names."""
    line = next(line for line in entry.text.splitlines() if "Explained in" in line).partition("Explained in")[2]
    shown = re.findall(r"\[lesson \d+\]\([^)]*\), \*([^*]+)\*", line)
    assert [anchor_of(heading) for heading in shown] == [place.anchor for place in entry.explained]


@every_lesson
def test_the_first_use_of_a_word_in_a_lesson_leads_to_the_glossary_and_no_other_does(lesson: Lesson) -> None:
    assert not_linked(lesson) == []


@every_lesson
def test_no_lesson_uses_a_word_before_it_is_explained(lesson: Lesson) -> None:
    assert too_early(lesson) == []


@every([*(lesson.path for lesson in lessons()), GLOSSARY], lambda path: path.stem)
def test_every_link_from_a_notebook_to_a_file_leads_somewhere(path: Path) -> None:
    for _, source in read(path).cells:
        for label, target in LINK.findall(source):
            file, _, anchor = target.partition("#")
            if re.match(r"\w+:", target):
                continue  # elsewhere
            assert (NOTEBOOKS / file).is_file(), f"[{label}]({target})"
            assert not anchor or unquote(anchor) in anchors(NOTEBOOKS / (file or path.name)), f"[{label}]({target})"


@every_lesson
def test_the_text_of_a_link_is_the_word_that_it_leads_to(lesson: Lesson) -> None:
    forms = {(entry.word, re.sub("[_ ]", "-", form.lower())) for entry in entries() for form in entry.forms}
    links = [use for use in uses(lesson) if use.is_link]
    assert [use for use in links if (use.word, re.sub("[_ ]", "-", use.form.lower())) not in forms] == []
