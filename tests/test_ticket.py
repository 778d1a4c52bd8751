"""A ticket says what the doctor saw and nothing private; many make one table, and what is broken is named."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path

import pytest

from ddp_lessons import __version__
from ddp_lessons.__main__ import main
from ddp_lessons.workshop.doctor import CHECKS, Finding, check_python
from ddp_lessons.workshop.ticket import FACTS, NotWhole, Ticket, read_ticket, ticket
from ddp_lessons.workshop.ticket_table import collect

WELL = {name: Finding("ok", "well") for name in CHECKS} | {
    "cores": Finding("ok", "8 cores, shared by the ranks"),
    "launch": Finding("ok", "0.05 s for 4 ranks, after the first launch"),
    "MNIST": Finding("ok", "complete in /course/data"),
    "GPU": Finding("ok", "none, and none is needed"),
}


def a_ticket(**facts: str) -> Ticket:
    """The same whatever the tests run on, and however much memory is free at that moment."""
    here = {"system": "Linux-x86_64-glibc2.36", "python": "3.11.7", "memory": "7.7of25.3GB"}
    return Ticket({**ticket(WELL).facts, **here, **facts})


def read(text: str) -> Ticket:
    (found,) = filter(None, map(read_ticket, text.splitlines()))
    return found


def test_it_says_what_the_doctor_saw() -> None:
    facts = ticket(WELL).facts
    assert list(facts) == list(FACTS)
    assert (facts["cores"], facts["ranks"], facts["digits"], facts["gpu"]) == ("8", "4in0.05s", "MNIST", "no")
    assert ticket(WELL).is_ready
    folder = Path.home() / "secret folder"
    ill = {
        "gloo": Finding("PROBLEM", f"WorkersStuck: nobody moves in {folder}"),
        "Jupyter": Finding("PROBLEM", "jupyterlab is not installed"),
        "temporary folder": Finding("PROBLEM", f"0.0 GB free in {folder}"),
        "MNIST": Finding("PROBLEM", "MNIST is missing in this copy of the course"),
    }
    said = ticket(WELL | ill)
    assert said.problems == ("gloo(WorkersStuck)", "MNIST", "Jupyter(missing)", "temporary-folder")
    assert (said.facts["ranks"], said.facts["digits"]) == ("no", "none")
    assert not said.is_ready


def test_it_names_no_person_machine_or_folder(capsys: pytest.CaptureFixture[str]) -> None:
    ill = {name: Finding("PROBLEM", f"OSError: {Path.home()} of {getpass.getuser()}") for name in CHECKS}
    facts = ticket(ill).facts.values()
    for private in (socket.gethostname(), str(Path.home()), getpass.getuser(), str(Path.cwd())):
        assert not any(private in fact for fact in facts)


def test_it_is_one_line_and_read_again() -> None:
    line = str(a_ticket())
    assert "\n" not in line
    assert read(f"> Anna: {line} thanks!") == a_ticket()
    assert json.loads(line)["torch"] == a_ticket().facts["torch"]


def test_whatever_is_cut_off_it_is_not_taken_for_a_ticket() -> None:
    line = str(a_ticket())
    for end in range(len('{"ddp-lessons-ticket'), len(line) - 1):
        with pytest.raises(NotWhole):
            read_ticket(line[:end])


def test_the_instructor_gets_one_table_of_files_and_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "anna.json").write_text(f"{a_ticket(system='Linux-x86_64-glibc2.39-WSL', python='3.12.4')}\n")
    no_torch = a_ticket(torch="none", torchvision="none", ranks="no", problems="torch-and-torchvision,gloo(missing)")
    (tmp_path / "list.txt").write_text(
        f"Ben: {no_torch}\nsome words\n- Cem - {a_ticket(memory='0.4of4.0GB', problems='memory')}\n"
    )
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "Dörte Ö.json").write_text(str(a_ticket(system="macOS-x86_64-14.5", digits="none")))
    assert main(["doctor", "--collect", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "4 tickets: 2 ready, 2 not\n" in said.out
    rows = {line.split("  ")[0]: line for line in (line.strip() for line in said.out.splitlines())}
    assert "yes" in rows["anna"]
    assert "yes" in rows["Dörte Ö"]
    assert "Ben: torch is not installed\n" in said.out
    assert "Cem: too little memory is free (0.4of4.0GB)\n" in said.out
    assert "1 without torch" in said.out
    assert "1 on Windows' Linux (WSL)\n" in said.out
    assert 'make offline FOR="linux" PYTHONS="3.11 3.12" TORCH=cpu\n' in said.out
    assert "No wheels are packed for the systems of: Dörte Ö." in said.out
    assert said.err == ""


def test_the_later_ticket_of_a_person_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.txt").write_text(f"Anna: {a_ticket(problems='memory')}\nanna: {a_ticket()}\n")
    assert collect(str(tmp_path / "list.txt")) == 0
    assert "1 ticket: 1 ready, 0 not" in capsys.readouterr().out


def test_a_line_that_a_mail_program_broke_is_named_and_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = str(a_ticket()).replace(", ", ",\n> ")
    (tmp_path / "anna.txt").write_text(broken)
    (tmp_path / "cem.txt").write_text(str(a_ticket()).replace('"', "\u201d"))
    (tmp_path / "dan.txt").write_text(str(a_ticket()).replace(": 1,", ": 7,"))
    (tmp_path / "list.txt").write_text(f"Ben: {a_ticket()}\n")
    assert collect(str(tmp_path)) == 1
    said = capsys.readouterr()
    assert "1 ticket: 1 ready" in said.out
    for who in ("anna", "cem", "dan"):
        assert f"{who}: this ticket is incomplete. Ask for the file ddp-lessons-ticket.json.\n" in said.err


def test_files_that_kept_their_name_are_told_apart_by_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for who, name in (("Anna", "ddp-lessons-ticket.json"), ("Ben", "ddp-lessons-ticket (1).json")):
        (tmp_path / who).mkdir()
        (tmp_path / who / name).write_text(str(a_ticket()))
    assert collect(str(tmp_path)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:4]] == ["Anna", "Ben"]


def test_where_there_is_no_ticket_it_says_what_one_looks_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(str(tmp_path)) == 1
    assert "A ticket is the file ddp-lessons-ticket.json, or the line in it." in capsys.readouterr().err
    assert collect(str(tmp_path / "nowhere")) == 1
    assert "There is no file or folder" in capsys.readouterr().err


def test_the_doctor_ends_with_it_also_where_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ddp_lessons.workshop import doctor

    monkeypatch.chdir(tmp_path)
    assert doctor.report({"gloo": lambda: Finding("PROBLEM", "torch is not installed")}, with_ticket=True) == 1
    said = capsys.readouterr().out
    assert read(said).problems == ("gloo(missing)",)
    assert (tmp_path / "ddp-lessons-ticket.json").read_text(encoding="utf-8").rstrip() == said.splitlines()[-1]
    (tmp_path / "ddp-lessons-ticket.json").unlink()
    (tmp_path / "ddp-lessons-ticket.json").mkdir()
    assert doctor.report({"gloo": lambda: Finding("PROBLEM", "torch is not installed")}, with_ticket=True) == 1
    assert "Your ticket: copy this whole line" in capsys.readouterr().out


def test_whoever_sent_something_else_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were asked to send the doctor's whole answer when the installation fails."""
    (tmp_path / "anna.txt").write_text(f"ok  Python\n{a_ticket()}\n")
    (tmp_path / "ben.txt").write_text("PROBLEM  torch and torchvision: torch is not installed")
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    assert collect(str(tmp_path)) == 1
    said = capsys.readouterr()
    assert "1 ticket: 1 ready, 0 not" in said.out
    assert said.err == "No ticket in: ben.txt, picture.png. Read these: probably failed installations.\n"


def test_the_page_that_tells_of_tickets_has_none() -> None:
    page = (Path(__file__).parent.parent / "docs" / "participants.md").read_text(encoding="utf-8")
    assert not any(map(read_ticket, page.splitlines()))


def test_what_to_bring_names_who_has_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = {
        "Anna": a_ticket(),
        "Fritz Old": a_ticket(course="0.0.9"),
        "Gil": a_ticket(python="3.14.0"),
        "Hed": a_ticket(gpu="yes", course="99.0"),
        "Ina": a_ticket(system="macOS-x86_64-14.5", python="3.10.1", gpu="yes"),
    }
    (tmp_path / "list.txt").write_text("".join(f"{name}: {one}\n" for name, one in people.items()))
    assert collect(str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "5 tickets: 5 ready, 0 not\n" in said
    assert "Fritz Old has course 0.0.9: git pull, or the stick\n" in said
    assert f"Hed has course 99.0: yours is older: {__version__}\n" in said
    assert 'helps 3 of 5:\n    make offline FOR="linux" PYTHONS="3.11"\n' in said
    assert "far smaller with TORCH=cpu, but then torch does not use the GPU of: Hed)" in said
    assert "the Python of: Gil (3.14.0). They can install Python 3.10 to 3.13." in said
    assert "for the systems of: Ina." in said


@pytest.mark.parametrize(("python", "verdict"), [((3, 9), "PROBLEM"), ((3, 13), "ok"), ((3, 14), "note")])
def test_a_python_that_was_not_tried_is_noted(
    python: tuple[int, int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.version_info", (*python, 1))
    assert check_python().verdict == verdict
