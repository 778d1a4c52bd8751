"""A ticket survives a mail, notices a changed letter, gives nothing away, and many of them make one table."""

from __future__ import annotations

import getpass
import socket
from email.message import EmailMessage
from pathlib import Path

import pytest

from ddp_lessons import __version__
from ddp_lessons.__main__ import main
from ddp_lessons.workshop.doctor import CHECKS, Finding, check_python
from ddp_lessons.workshop.ticket import FACTS, Ticket, ticket, tickets_in
from ddp_lessons.workshop.ticket_table import collect

WELL = {name: Finding("ok", "well") for name in CHECKS} | {
    "cores": Finding("ok", "8 cores, which the ranks share"),
    "launch": Finding("ok", "0.05 s for 4 ranks, from the second one on"),
    "MNIST": Finding("ok", "complete in /course/data"),
    "GPU": Finding("ok", "none, and none is needed"),
}


def a_ticket(**facts: str) -> Ticket:
    """The same whatever the tests run on, and however much memory is free at that moment."""
    here = {"system": "Linux-x86_64-glibc2.36", "python": "3.11.7", "memory": "7.7of25.3GB"}
    return Ticket({**ticket(WELL).facts, **here, **facts})


def read(text: str) -> Ticket:
    ((_, _, found),) = tickets_in(text)
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
        "MNIST": Finding("PROBLEM", "this copy of the course came without MNIST"),
    }
    said = ticket(WELL | ill)
    assert said.problems == ("gloo(WorkersStuck)", "MNIST", "Jupyter(missing)", "temporary-folder")
    assert (said.facts["ranks"], said.facts["digits"]) == ("no", "none")
    assert not said.is_ready


def test_it_names_no_person_machine_or_folder(capsys: pytest.CaptureFixture[str]) -> None:
    ill = {name: Finding("PROBLEM", f"OSError: {Path.home()} of {getpass.getuser()}") for name in CHECKS}
    line = str(ticket(ill)).split()
    for private in (socket.gethostname(), str(Path.home()), getpass.getuser(), str(Path.cwd())):
        assert not any(private in word.partition(":")[2] for word in line)


def test_a_mail_may_quote_break_and_recapitalise_it() -> None:
    line = str(a_ticket())
    assert read(line) == a_ticket()
    broken = line.replace("; ", ";\n> > ")
    assert read(f"> > {broken}\n> > thanks, Anna") == a_ticket()
    anywhere = "\n> ".join(line[start : start + 40] for start in range(0, len(line), 40))
    assert read(anywhere) == a_ticket()
    assert read(line.upper()).sum_fits


def test_every_changed_lost_or_swapped_letter_is_noticed() -> None:
    line = str(a_ticket())
    begin = line.index("course")
    for place in range(begin, len(line)):
        if line[place] in " ;:":
            continue
        letter = "8" if line[place] != "8" else "3"
        for changed in (line[:place] + letter + line[place + 1 :], line[:place] + line[place + 1 :]):
            assert not any(found.sum_fits for _, _, found in tickets_in(changed)), changed
    assert not any(found.sum_fits for _, _, found in tickets_in(line[: len(line) // 2]))


def test_the_instructor_gets_one_table_of_mails_files_and_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "anna.txt").write_text(f"Dear all,\n\n> {a_ticket(system='Windows-AMD64-11', python='3.12.4')}\n")
    no_torch = a_ticket(torch="none", torchvision="none", ranks="no", problems="torch-and-torchvision,gloo(missing)")
    (tmp_path / "list.txt").write_text(f"Ben: {no_torch}\nCem - {a_ticket(memory='0.4of4.0GB', problems='memory')}\n")
    mail = EmailMessage()
    mail["From"], mail["To"] = "Dörte Ö. <d@example.org>", "me@example.org"
    mail.set_content(f"Grüße!\n{a_ticket(system='macOS-x86_64-14.5', digits='none')}\n", cte="quoted-printable")
    (tmp_path / "mails").mkdir()
    (tmp_path / "mails" / "4.eml").write_bytes(bytes(mail))
    (tmp_path / "utf16.txt").write_bytes(f"From: Eve\n{a_ticket()}".encode("utf-16"))
    assert main(["doctor", "--collect", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "5 tickets: 3 ready, 2 not; in 4 mails or files" in said.out
    rows = {line.split("  ")[0]: line for line in (line.strip() for line in said.out.splitlines())}
    assert "yes" in rows["anna"]
    assert "Windows-AMD64-11" in rows["anna"]
    assert "yes" in rows["Dörte Ö."]
    assert "Ben: torch is not installed\n" in said.out
    assert "Cem: too little memory is free (0.4of4.0GB)\n" in said.out
    assert "1 without torch" in said.out
    assert "1 on Windows\n" in said.out
    assert 'make offline FOR="linux windows" PYTHONS="3.11 3.12" TORCH=cpu\n' in said.out
    assert "No wheels are packed for the systems of: Dörte Ö." in said.out
    assert said.err == ""


def test_the_later_ticket_of_a_person_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, then = a_ticket(problems="memory"), a_ticket()
    (tmp_path / "mails.txt").write_text(f"From: Anna <a@x.org>\n{first}\n\nFrom: Anna <a@x.org>\n{then}\n")
    assert collect(str(tmp_path / "mails.txt")) == 0
    assert "1 ticket: 1 ready, 0 not" in capsys.readouterr().out


def test_a_mistyped_ticket_is_named_and_does_not_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed = str(a_ticket()).replace("cores:8", "cores:9")
    (tmp_path / "list.txt").write_text(f"Anna: {changed}\nBen: {a_ticket()}\n")
    assert collect(str(tmp_path)) == 1
    said = capsys.readouterr()
    assert "1 ticket: 1 ready" in said.out
    assert "Anna: a letter of this ticket was changed, or its end is missing. Ask for it again." in said.err


def test_where_there_is_no_ticket_it_says_what_one_looks_like(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(str(tmp_path)) == 1
    assert "A ticket is a line that begins with ddp-lessons-ticket" in capsys.readouterr().err
    assert collect(str(tmp_path / "nowhere")) == 1
    assert "There is no file or folder" in capsys.readouterr().err


def test_the_doctor_ends_with_it_also_where_nothing_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    from ddp_lessons.workshop import doctor

    assert doctor.report({"gloo": lambda: Finding("PROBLEM", "torch is not installed")}, with_ticket=True) == 1
    assert read(capsys.readouterr().out).problems == ("gloo(missing)",)


def a_mail(sender: str, html: str = "", text: str = "", **brought: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, "me@example.org"
    mail.set_content(html or text, subtype="html" if html else "plain")
    for name, content in brought.items():
        mail.add_attachment(content, filename=f"{name}.txt")
    return bytes(mail)


def test_whoever_wrote_without_a_ticket_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were asked to send the doctor's whole answer when the installation fails."""
    (tmp_path / "1.eml").write_bytes(a_mail("Anna <a@x.org>", text=f"Hi\n{a_ticket()}\n"))
    (tmp_path / "2.eml").write_bytes(a_mail("Anna <a@x.org>", text="Is there coffee?"))
    (tmp_path / "3.eml").write_bytes(a_mail("Ben <b@x.org>", text="make: command not found"))
    (tmp_path / "4.eml").write_bytes(a_mail("Cem <c@x.org>", text="See there", answer=f"ok  Python\n{a_ticket()}\n"))
    (tmp_path / "7.txt").write_text("PROBLEM  torch and torchvision: torch is not installed")
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    assert collect(str(tmp_path)) == 1
    said = capsys.readouterr()
    assert "2 tickets: 2 ready, 0 not; in 6 mails or files" in said.out
    assert said.err == "No ticket in: Ben, 7.txt, picture.png. Read these: probably failed installations.\n"


def test_a_reply_below_the_page_that_tells_of_tickets_has_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parent.parent / "docs" / "participants.md").read_text(encoding="utf-8")
    assert list(tickets_in(page)) == []
    quoted = "".join(f"> {line}\n" for line in page.splitlines())
    wrong = f"> For example: {str(a_ticket()).replace('cores:8', 'cores:9')}"
    (tmp_path / "bottom.txt").write_text(f"{quoted}\n{a_ticket()}\n")
    (tmp_path / "10.txt").write_text(f"{wrong}\n\n`{a_ticket()}`\n")
    below = f"> From: Teacher <t@x.org>\n{wrong}\nHere is mine: {a_ticket()}\n"
    (tmp_path / "11.eml").write_bytes(a_mail("Iris <i@x.org>", text=below))
    assert collect(str(tmp_path)) == 0
    said = capsys.readouterr()
    assert "3 tickets: 3 ready" in said.out
    assert [line.split()[0] for line in said.out.splitlines()[2:5]] == ["10", "bottom", "Iris"]


def test_a_mail_in_html_is_read_by_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = str(a_ticket()).replace("; ", ";&nbsp;")
    html = f"<html><head><style>p {{x: y}}</style></head><body><div>Hello teacher,</div>this is mine<br>{line}</body>"
    (tmp_path / "1.eml").write_bytes(a_mail("Iris <i@x.org>", html=html))
    strange = a_mail("Jan <j@x.org>", text=f"{a_ticket()}\n").replace(b'charset="utf-8"', b'charset="no-such-one"')
    (tmp_path / "2.eml").write_bytes(strange)
    assert collect(str(tmp_path)) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()[2:4]] == ["Iris", "Jan"]


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
    assert "5 tickets: 5 ready, 0 not; in one mail or file" in said
    assert "Fritz Old has course 0.0.9: git pull, or the stick\n" in said
    assert f"Hed has course 99.0: yours is {__version__}, and older\n" in said
    assert 'helps 3 of 5:\n    make offline FOR="linux" PYTHONS="3.11"\n' in said
    assert "far smaller with TORCH=cpu, which leaves the GPU unused of: Hed)" in said
    assert "the Python of: Gil (3.14.0). Let them install one of 3.10 to 3.13." in said
    assert "for the systems of: Ina." in said


@pytest.mark.parametrize(("python", "verdict"), [((3, 9), "PROBLEM"), ((3, 13), "ok"), ((3, 14), "note")])
def test_a_python_that_was_not_tried_is_noted(
    python: tuple[int, int], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.version_info", (*python, 1))
    assert check_python().verdict == verdict
