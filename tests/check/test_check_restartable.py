"""check.restartable against its bank: every answer is started, killed and started again."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from banks import assert_refuses, assert_reports_the_same, hanging, name_of
from nights import by_day, nightly
from restart_answers import HANGING, RIGHT, WRONG, as_given

from ddp_lessons import check
from ddp_lessons.check.trainings import restart_exercise
from ddp_lessons.train.restarts import train_restartably


@pytest.mark.parametrize("answer", by_day([train_restartably, *RIGHT], 1), ids=name_of)
def test_right_answers_pass(answer: Any) -> None:
    report = check.restartable(answer)
    assert report.passed, report.text
    assert "a kill during the write after epoch 1" in report.text


@pytest.mark.parametrize(("answer", "sentence"), by_day(WRONG, 2), ids=name_of)
def test_wrong_answers_are_refused_by_name(answer: Any, sentence: str) -> None:
    report = assert_refuses(check.restartable, answer, sentence)
    assert tempfile.gettempdir() not in report.text


@pytest.mark.parametrize(("answer", "sentence"), hanging(HANGING), ids=name_of)
def test_hanging_answers_are_refused(answer: Any, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restart_exercise, "PATIENCE_SECONDS", 2.0)
    assert_refuses(check.restartable, answer, sentence)


@nightly
def test_the_report_is_the_same_in_every_run() -> None:
    assert_reports_the_same(check.restartable, as_given, 2)


@nightly
def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = dict(os.environ)
    assert check.restartable(train_restartably).passed
    assert not list(tmp_path.iterdir())
    assert dict(os.environ) == before


def only_dots(model: Any, optimizer: Any, train_epoch: Any, epochs: int, path: str) -> None: ...


def test_a_stub_is_not_started_yet() -> None:
    assert check.restartable(only_dots).text == "check.restartable: not started yet"


def test_what_cannot_be_called_is_refused_in_one_sentence() -> None:
    report = check.restartable(lambda path: None)
    assert "The check calls <lambda>(model, optimizer, train_epoch, epochs, path) with five arguments" in report.mistake
