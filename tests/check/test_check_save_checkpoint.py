"""check.save_checkpoint against its bank."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from banks import (
    assert_accepts,
    assert_refuses,
    assert_refuses_as_stuck,
    assert_reports_the_same,
    hanging,
    name_of,
    right,
    wrong,
)
from checkpoint_answers import HANGING, RIGHT, WRONG, every_rank_renames, rename_and_barrier
from nights import nightly

from ddp_lessons import check
from ddp_lessons.train.checkpoints import save_checkpoint


@pytest.mark.parametrize("answer", right(save_checkpoint, *RIGHT), ids=name_of)
def test_right_answers_pass(answer: object) -> None:
    assert_accepts(check.save_checkpoint, answer)


@pytest.mark.parametrize(("answer", "sentence"), wrong(WRONG), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: object, sentence: str) -> None:
    report = assert_refuses(check.save_checkpoint, answer, sentence)
    assert tempfile.gettempdir() not in report.text


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: object, sentence: str) -> None:
    assert_refuses_as_stuck(check.save_checkpoint, answer, sentence)


@nightly
def test_two_writers_give_the_same_report_in_every_run() -> None:
    assert_reports_the_same(check.save_checkpoint, every_rank_renames)


@nightly
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def beside_the_notebook(path: Any, model: Any, optimizer: Any, epoch: int) -> None:
        torch.save(epoch, "elsewhere.pt")
        rename_and_barrier(path, model, optimizer, epoch)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, random_state = dict(os.environ), torch.get_rng_state()
    assert check.save_checkpoint(beside_the_notebook).passed
    assert not list(tmp_path.iterdir())
    assert dict(os.environ) == before
    assert torch.equal(torch.get_rng_state(), random_state)


def only_dots(path: str, model: Any, optimizer: Any, epoch: int) -> None: ...


def prepared(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    content = {"epoch": epoch}  # noqa: F841
    # your code


def not_implemented(path: str, model: Any, optimizer: Any, epoch: int) -> None:
    content = {"epoch": epoch}
    raise NotImplementedError(f"nothing is done with {content}")


@nightly
def test_a_stub_is_not_started_yet() -> None:
    for stub in (only_dots, prepared, not_implemented):
        assert check.save_checkpoint(stub).text == "check.save_checkpoint: not started yet"


def test_what_cannot_be_called_is_refused_in_one_sentence() -> None:
    report = check.save_checkpoint(lambda path: None)
    assert "The check calls <lambda>(path, model, optimizer, epoch)" in report.mistake
