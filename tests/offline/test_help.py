"""Whoever asks `python -m offline --help` learns what may be repeated, and what is taken where nothing is said."""

from __future__ import annotations

import pytest

from offline.__main__ import main


def test_it_says_what_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "--for SYSTEM linux, linux-arm, macos; may be repeated (default: this system)" in said
    assert "may be repeated (default: this Python)" in said
