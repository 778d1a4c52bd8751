"""How far a long piece of work is: a picture in a notebook."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from ddp_lessons.backends import progress_bar as progress


def test_a_notebook_shows_progress_as_a_picture_and_never_as_text(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    published: list[tuple[set[str], bool]] = []

    class Publisher:
        def publish(self, data: dict[str, str], metadata: object, transient: object, update: bool) -> None:
            published.append((set(data), update))

    shell = SimpleNamespace(kernel=None, display_pub=Publisher())
    monkeypatch.setitem(sys.modules, "IPython", cast(ModuleType, SimpleNamespace(get_ipython=lambda: shell)))
    monkeypatch.setattr(progress, "_PATIENCE_SECONDS", 0)
    with progress.Progress("Making") as shown:
        shown.at(1, 2)
    assert published == [({"image/png"}, False), ({"image/png"}, True)]
    assert capfd.readouterr() == ("", "")
