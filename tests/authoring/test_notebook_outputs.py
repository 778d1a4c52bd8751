"""Lessons are run and stored with the smallest diff: git's own diff is asked, and nbval's own comparison."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbval.plugin import IPyNbCell
from nights import nightly

from ddp_lessons import show
from ddp_lessons.workshop.stored_outputs import FIGURE
from tools.authoring.__main__ import main
from tools.authoring.notebooks import VIEW, chosen, compared, looks, tidy

make: Any = nbformat.v4
files: Any = nbformat

DRAW = """\
from IPython.display import display
import os
letters = "".join(chr(97 + byte % 26) for byte in os.urandom(9))
display({"image/svg+xml": f"<svg>{letters}</svg>", "text/plain": "a figure", VIEW: {}}, raw=True)
"""
A_LINE = """\
from ddp_lessons.run.output import progress_line
progress_line._PATIENCE_SECONDS = 0.0
with progress_line.ProgressLine() as line:
    line.show("calls: 1 of 2")
"""
LOG = 'display({"text/html": f"<pre>{letters}</pre>", "text/plain": "a log"}, raw=True)'
CELLS = {
    "pieces": "for _ in range(3):\n    print('a line', flush=True)",
    "settings": "import os\nos.environ['DDP_LESSONS_PROGRESS'], os.listdir()",
    "picture": DRAW.replace("VIEW", repr(VIEW)),
    "line": A_LINE,
    "log": LOG,
    "answer": "6 * 7",
}
TAGS = {"log": ["nbval-ignore-output"]}


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


def code_cell(*outputs: Any, source: str = "", name: str = "one", tags: list[str] | None = None) -> Any:
    metadata = {"tags": tags} if tags else {}
    return make.new_code_cell(source, id=name, metadata=metadata, outputs=list(outputs))


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small lesson, stored and committed, with its project as the current folder."""
    cells = [code_cell(source=source, name=name, tags=TAGS.get(name)) for name, source in CELLS.items()]
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks" / "00_small.ipynb"
    files.write(make.new_notebook(cells=[make.new_markdown_cell("# Small", id="opening"), *cells]), path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent.parent))
    git(tmp_path, "init", "-q")
    assert main(["notebooks"]) == 0
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one lesson")
    return path


def change(path: Path, cell: str, source: str) -> None:
    notebook = files.read(path, as_version=4)
    next(one for one in notebook.cells if one.id == cell).source = source
    files.write(notebook, path)


def outputs(path: Path) -> dict[str, list[Any]]:
    return {cell.id: cell.outputs for cell in files.read(path, as_version=4).cells if cell.cell_type == "code"}


@nightly
def test_only_what_a_reader_gets_is_stored_and_a_cell_that_changed_is_the_whole_diff(lesson: Path) -> None:
    stored = outputs(lesson)
    assert [one.text for one in stored["pieces"]] == ["a line\n" * 3]
    assert [set(one.data) for one in stored["picture"]] == [{"image/svg+xml", "text/plain"}]
    assert stored["line"] == []
    assert stored["settings"][0].data["text/plain"] == "('off', [])"

    by_hand = json.loads(lesson.read_text(encoding="utf-8"))  # as JupyterLab saves what somebody ran
    by_hand["metadata"]["language_info"]["version"] = "3.99"
    by_hand["metadata"]["widgets"] = {}
    for cell in by_hand["cells"][1:]:
        cell.update(execution_count=77, outputs=[])
        cell["metadata"]["execution"] = {"iopub.status.idle": "now"}
    lesson.write_text(json.dumps(by_hand), encoding="utf-8")
    assert main(["notebooks", "0"]) == 0
    assert git(lesson.parent, "diff") == ""

    change(lesson, "answer", "6 * 8")
    assert main(["notebooks", "small"]) == 0
    lines = [line for line in git(lesson.parent, "diff", "-U0").splitlines() if line[0] in "+-"][2:]
    assert [line.split('"')[1] for line in lines] == ["42", "48", "6 * 7", "6 * 8"]


@nightly
@pytest.mark.parametrize(
    ("source", "option", "said"),
    [
        ("# divide\n6 / 0", [], "cell answer (# divide) stopped: ZeroDivisionError: division by zero"),
        ("os._exit(3)", [], "cell answer (os._exit(3)) stopped: Kernel died"),
        ("os.getpid()", ["--twice"], "two runs differ in answer."),
    ],
)
def test_a_lesson_that_fails_or_differs_is_named_and_its_file_is_as_it_was(
    source: str, option: list[str], said: str, lesson: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(lesson, "answer", source)
    before = lesson.read_bytes()
    assert main(["notebooks", *option]) == 1
    assert f"the file is unchanged: {said}" in capsys.readouterr().out
    assert lesson.read_bytes() == before
    assert [path.name for path in lesson.parent.iterdir()] == [lesson.name]


@nightly
def test_what_a_tagged_cell_printed_is_kept_until_its_words_change_or_it_is_asked_for(
    lesson: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = outputs(lesson)["log"]
    assert main(["notebooks", "--twice"]) == 0
    assert outputs(lesson)["log"] == before
    assert "figures changed but their text did not, so not stored: picture, log" in capsys.readouterr().out
    assert main(["notebooks", "--pictures"]) == 0
    renewed = outputs(lesson)["log"]
    assert renewed != before
    change(lesson, "log", LOG.replace("a log", "another log"))
    assert main(["notebooks"]) == 0
    assert outputs(lesson)["log"][0].data["text/plain"] == "another log"


def test_lessons_are_chosen_by_number_or_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("00_start", "03_collectives", "13_after", "glossary"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in chosen(tmp_path, [])] == ["00_start", "03_collectives", "13_after"]
    assert [path.stem for path in chosen(tmp_path, ["3", "after"])] == ["03_collectives", "13_after"]
    assert main(["notebooks", "77"]) == 1
    assert "there is no lesson '77'; choose from 00_start_four_ranks, 01_" in capsys.readouterr().err


def shown(text: str, **data: str) -> Any:
    return make.new_output("display_data", {"text/plain": text, **data})


def figure(svg: str) -> Any:
    return shown("a", **{FIGURE: f"<svg>{svg}</svg>"})


def printed(text: str, name: str = "stdout") -> Any:
    return make.new_output("stream", name=name, text=text)


def nbval_takes_them_for_the_same(fresh: list[Any], old: list[Any]) -> bool:
    skipped = ("metadata", "traceback", "output_type", "name", "execution_count", VIEW, FIGURE)
    colors: Any = SimpleNamespace(FAIL="", ENDC="", OKBLUE="")
    cell: Any = SimpleNamespace(colors=colors, sanitize=str, format_output_compare=lambda *words: None)
    same: bool = IPyNbCell.compare_outputs(cell, fresh, old, skipped)
    return same


@pytest.mark.parametrize(
    ("fresh", "old"),
    [
        ([shown("a")], [shown("a")]),
        ([shown("a")], [shown("b")]),
        ([shown("a"), shown("b")], [shown("b"), shown("a")]),
        ([shown("a"), printed("x")], [printed("x"), shown("a")]),
        ([shown("a")], [shown("a"), shown("a")]),
        ([shown("a", **{"text/html": "<b>"})], [shown("a")]),
        ([figure("1")], [figure("2")]),
        ([printed("x"), printed("y")], [printed("x"), printed("y", "stderr")]),
    ],
)
def test_the_same_is_what_nbval_takes_for_the_same(fresh: list[Any], old: list[Any]) -> None:
    assert (compared(code_cell(*fresh)) == compared(code_cell(*old))) == nbval_takes_them_for_the_same(fresh, old)


def test_a_picture_looks_different_where_it_has_other_shapes_or_words() -> None:
    def look(svg: str) -> list[str]:
        return looks(code_cell(figure(svg)))

    assert look('<rect x="1.5"/>') == look('<rect x="20"/>')  # a time that was measured
    assert look('<rect x="1"/>') != look('<rect x="1"/><rect x="2"/>')
    assert look("<text>send</text>") != look("<text>recv</text>")


@nightly
def test_a_chart_looks_the_same_with_other_measured_times() -> None:
    def chart(seconds: float, *more: tuple[float, float]) -> Any:
        data, about = show.latency([(8, 1e-5), (1e6, seconds), *more])._repr_mimebundle_()
        return code_cell(*tidy([make.new_output("display_data", data, metadata=about)]))

    assert chart(2e-3).outputs != chart(2.1e-3).outputs
    assert compared(chart(2e-3)) == compared(chart(2.1e-3))
    assert looks(chart(2e-3)) == looks(chart(2.1e-3))
    assert looks(chart(2e-3)) != looks(chart(2e-3, (1e6, 3e-3)))


def test_tidying_changes_nothing_that_was_tidied() -> None:
    once = tidy([printed("x"), printed("y"), make.new_output("display_data", {}), printed("z"), printed("!", "stderr")])
    assert [one.text for one in once] == ["xyz", "!"]
    assert tidy(once) == once
