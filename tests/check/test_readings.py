"""Messages to read are the true ones, and the right line of each is the one that mends it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from notebook_session import NotebookSession

from ddp_lessons import check
from ddp_lessons.check.readings import READINGS

NUMBERS = pytest.mark.parametrize("number", range(1, len(READINGS) + 1))
MENDED = {
    1: {6: "        torch.save(mean, os.devnull)", 7: "    dist.barrier()"},
    2: {3: "    mine = batches[:6][rank::world_size]"},
    3: {3: "    mine = torch.zeros(4)"},
    4: {3: "    left = (rank - 1) % world_size"},
    5: {7: "    except ZeroDivisionError:"},
}


@pytest.fixture(scope="module")
def notebook() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        session.run("import os, torch, torch.distributed as dist\nfrom ddp_lessons import launch")
        yield session


@NUMBERS
def test_the_message_is_what_launch_says_of_the_program(notebook: NotebookSession, number: int) -> None:
    one = READINGS[number - 1]
    assert notebook.run(one.program).error == one.message


@NUMBERS
def test_with_that_line_mended_the_program_ends_well_or_names_the_cause(notebook: NotebookSession, number: int) -> None:
    lines = READINGS[number - 1].program.split("\n")
    for place, mended in MENDED[number].items():
        lines[place - 1] = mended
    cell = notebook.run("\n".join(lines))
    if number == 5:  # nothing is swallowed any more
        assert "rank 0 of 2 raised TypeError" in cell.error
        assert "cell line 6" in cell.error
    else:
        assert not cell.error
        assert cell.value.startswith("Results(")
    assert any(place in READINGS[number - 1].wrong for place in MENDED[number])


@NUMBERS
def test_a_reading_shows_its_program_with_numbers_and_what_it_said(number: int) -> None:
    report, one = check.reading(number), READINGS[number - 1]
    assert not report.passed
    lines = report.text.split("\n")
    assert lines[0] == f"check.reading({number}): which line is wrong?"
    for place, text in enumerate(one.program.split("\n"), 1):
        assert lines[place] == f"    {place:>2}  {text}".rstrip()
    assert all(f"    {text}" in lines for text in one.message.split("\n"))
    assert lines[-1].endswith(f"Answer with check.reading({number}, line=...).")


@NUMBERS
def test_only_the_wrong_lines_pass_and_each_other_gets_a_hint_that_does_not_tell(number: int) -> None:
    one = READINGS[number - 1]
    places = range(1, one.program.count("\n") + 2)
    assert [place for place in places if check.reading(number, line=place).passed] == list(one.wrong)
    assert one.why in check.reading(number, one.wrong[0]).text
    assert set(one.hints) <= set(places) - set(one.wrong)
    for place in set(places) - set(one.wrong):
        mistake = check.reading(number, line=place).mistake
        assert mistake.startswith(f"It isn't line {place}. ")
        assert one.why not in mistake
        assert not set(map(int, re.findall(r"line (\d+)", mistake))) & set(one.wrong)


@pytest.mark.parametrize("line", [0, "3"])
def test_what_is_no_line_of_it_is_said(line: int) -> None:
    report = check.reading(2, line=line)
    assert report.mistake == f"The program has lines 1 to 11, so {line!r} is not one of them."


@pytest.mark.parametrize("number", [0, "1"])
def test_a_reading_that_there_is_not_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"no reading {number!r}: choose a number from 1 to 5"):
        check.reading(number)
