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

# These run over what strangers wrote: each takes time in proportion to the text, whatever that is.
_SENDER = re.compile(r"^([>| \t]{0,80})(?:From|Von|De|Da|Van)[ \t]{0,9}:(.+)$", re.MULTILINE)
_BREAKS = frozenset("br p div tr li table blockquote pre h1 h2 h3 h4 h5 h6".split())
_NOT_SHOWN = frozenset(("style", "script", "head"))
_NAME_OF_A_TAG = re.compile(r"\s{0,9}(/?)\s{0,9}(\w{0,20})")
_SHOWN_OF_A_NAME = 28
_MOST_BYTES = 20_000_000  # of one mail, or file of text; with a ticket it has some kilobytes
_MOST_BYTES_OF_A_BOX = 500_000_000


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
    folder = path.resolve() if path.is_dir() else None
    for file in sorted(path.rglob("*")) if folder else [path]:
        place = file.relative_to(path) if folder else Path(file.name)
        if folder and any(part.startswith(".") for part in place.parts):
            continue  # what an editor keeps for itself
        name = without_controls(place.as_posix())
        try:
            if not file.is_file():
                continue
            if folder and not file.resolve().is_relative_to(folder):
                raise ValueError("it is a link that leads out of this folder")
            for text in _texts(file):
                yield Letter(text, name)
        except Exception as error:  # strangers wrote it: one bad mail must not cost the table of all others
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            yield OSError(f"{name} could not be read: {without_controls(reason) or type(error).__name__}")


def sender(text: str, end: int) -> str:
    """Who wrote what stands at `end`: the last From: line before it that is not of a mail quoted there."""
    deepest = quotes(text, end)
    for quoting, name in reversed(_SENDER.findall(text[:end])):
        if quoting.count(">") <= deepest:
            return shown(name.partition("<")[0].strip(' "') or name.strip())
    return ""


def quotes(text: str, place: int) -> int:
    """How often the line is quoted that this place is in."""
    start = re.compile(r"[\s>|]*").match(text, text.rfind("\n", 0, place) + 1)
    return start[0].count(">") if start else 0


def without_controls(text: str) -> str:
    """What a terminal shows as it stands."""
    return "".join(letter for letter in text if letter.isprintable())


def shown(name: str) -> str:
    name = without_controls(name)
    return name if len(name) <= _SHOWN_OF_A_NAME else f"{name[: _SHOWN_OF_A_NAME - 3]}..."


def _texts(file: Path) -> Iterator[str]:
    """A mail as a mail program saves it is unpacked; everything else is text."""
    if file.suffix.lower() == ".mbox":
        _refuse_above(_MOST_BYTES_OF_A_BOX, file.stat().st_size)
        yield from (_as_text(mail) for mail in mailbox.mbox(file, create=False))
        return
    with open(file, "rb") as opened:
        content = opened.read(_MOST_BYTES + 1)
    _refuse_above(_MOST_BYTES, len(content))
    if file.suffix.lower() == ".eml":
        yield _as_text(email.message_from_bytes(content))
    else:
        yield content.decode("utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "replace")


def _refuse_above(most: int, size: int) -> None:
    if size > most:
        raise ValueError(f"it is larger than {most // 1_000_000} MB")


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
    return html.unescape("".join(_text_of(text)))


def _text_of(page: str) -> Iterator[str]:
    """Without tags, and with a new line where a browser begins one."""
    small, here, never_closed = page.lower(), 0, set[str]()
    while (begin := page.find("<", here)) >= 0 and (end := page.find(">", begin)) >= 0:
        yield page[here:begin]
        here = end + 1
        tag = _NAME_OF_A_TAG.match(small, begin + 1)
        closes, name = (tag[1], tag[2]) if tag else ("", "")
        if name in _BREAKS:
            yield "\n"
        elif name in _NOT_SHOWN and not closes and name not in never_closed:
            close = small.find(f"</{name}", here)
            if close < 0:
                never_closed.add(name)
            here = close if close >= 0 else here
    yield page[here:]
