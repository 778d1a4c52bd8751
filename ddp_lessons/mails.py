"""Mails as they lie in a folder, each as text that a ticket can be looked for in, with who sent what."""

from __future__ import annotations

import email
import email.policy
import html
import mailbox
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage, Message
from pathlib import Path

_SENDER = re.compile(r"^([>|\s]*)(?:From|Von|De|Da|Van)\s*:\s*(.+)$", re.MULTILINE)
_SHOWN_OF_A_NAME = 28
_BREAKS = re.compile(r"<\s*(?:br|/?(?:p|div|tr|li|table|blockquote|pre|h\d))\b[^>]*>", re.IGNORECASE)
_NOT_SHOWN = re.compile(r"<(style|script|head)\b.*?</\1\s*>", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Letter:
    """One mail, or one file of text, which may hold several."""

    text: str
    place: str

    @property
    def who(self) -> str:
        return sender(self.text, len(self.text)) or self.place


def letters(path: Path) -> Iterator[Letter | OSError]:
    """All of a file, or of a folder and below; the error in the place of a file that can not be read."""
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        place = file.relative_to(path) if path.is_dir() else Path(file.name)
        if not file.is_file() or (path.is_dir() and any(part.startswith(".") for part in place.parts)):
            continue  # what an editor keeps for itself
        try:
            for text in _texts(file):
                yield Letter(text, place.as_posix())
        except OSError as error:
            yield OSError(f"{place.as_posix()} could not be read: {error.strerror or error}")


def sender(text: str, end: int) -> str:
    """Who wrote what stands at `end`: the last From: line before it that is not of a mail quoted there."""
    deepest = quotes(text, end)
    for quoting, name in reversed(_SENDER.findall(text[:end])):
        if quoting.count(">") <= deepest:
            return shown(re.sub(r"\s*<[^>]*>", "", name).strip(' "') or name)
    return ""


def quotes(text: str, place: int) -> int:
    """How often the line is quoted that this place is in."""
    start = re.match(r"[\s>|]*", text[text.rfind("\n", 0, place) + 1 :])
    return start[0].count(">") if start else 0


def shown(name: str) -> str:
    name = "".join(letter for letter in name if letter.isprintable())
    return name if len(name) <= _SHOWN_OF_A_NAME else f"{name[: _SHOWN_OF_A_NAME - 3]}..."


def _texts(file: Path) -> Iterator[str]:
    """A mail as a mail program saves it is unpacked; everything else is text."""
    if file.suffix.lower() == ".mbox":
        yield from (_as_text(mail) for mail in mailbox.mbox(file, create=False))
    elif file.suffix.lower() == ".eml":
        yield _as_text(email.message_from_bytes(file.read_bytes()))
    else:
        content = file.read_bytes()
        yield content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")


def _as_text(mail: Message) -> str:
    """With the files of text that it brings: some send the doctor's whole answer so."""
    whole = email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)
    body = whole.get_body(("plain", "html"))
    brought = [part for part in whole.iter_attachments() if part.get_content_maintype() == "text"]
    parts = [_content(part) for part in (body, *brought) if isinstance(part, EmailMessage)]
    return "\n\n".join([f"From: {whole['from'] or ''}", *parts])


def _content(part: EmailMessage) -> str:
    try:
        text = str(part.get_content())
    except LookupError:  # letters that Python knows no table for
        text = bytes(part.get_payload(decode=True) or b"").decode("utf-8", "replace")
    if part.get_content_subtype() != "html":
        return text
    return html.unescape(re.sub("<[^>]*>", "", _BREAKS.sub("\n", _NOT_SHOWN.sub("", text))))
