"""Lessons are run and stored with the smallest diff: git's own diff is asked, and nbval's own comparison."""

from __future__ import annotations

import base64
import io
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from matplotlib.figure import Figure
from nbval.plugin import IPyNbCell
from nights import nightly

from authoring.__main__ import main
from authoring.notebooks import chosen
from authoring.storing import VIEW, agree, look_different, tidy
from ddp_lessons import show

formats: Any = nbformat.v4
files: Any = nbformat

DRAW = """\
from IPython.display import display
import base64, os
display({"image/png": base64.b64encode(os.urandom(6)).decode(), "text/plain": "six circles", "%s": {}}, raw=True)
"""
A_LINE = """\
from ddp_lessons.run.output import progress_line
progress_line._PATIENCE_SECONDS = 0.0
with progress_line.ProgressLine() as line:
    line.show("calls: 1 of 2")
"""
LOG = """\
letters = "".join(chr(97 + byte % 26) for byte in os.urandom(9))
display({"text/html": f"<pre>{letters}</pre>", "text/plain": "a log"}, raw=True)
"""
CELLS = {
    "pieces": "for _ in range(3):\n    print('a line', flush=True)",
    "settings": "import os\nos.environ['DDP_LESSONS_PROGRESS'], os.listdir()",
    "picture": DRAW % VIEW,
    "line": A_LINE,
    "log": LOG,
    "answer": "6 * 7",
}
TAGS = {"log": ["nbval-ignore-output"]}


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small lesson, stored and committed; we stand in its project."""
    cells = [
        formats.new_code_cell(source, id=name, metadata={"tags": TAGS[name]} if name in TAGS else {})
        for name, source in CELLS.items()
    ]
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks" / "00_small.ipynb"
    files.write(formats.new_notebook(cells=[formats.new_markdown_cell("# Small", id="opening"), *cells]), path)
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
    assert [set(one.data) for one in stored["picture"]] == [{"image/png", "text/plain"}]
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
def test_a_cell_that_fails_is_named_and_the_file_is_as_it_was(lesson: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(lesson, "answer", "# divide\n6 / 0")
    before = lesson.read_bytes()
    assert main(["notebooks"]) == 1
    assert "cell answer (# divide) raises ZeroDivisionError: division by zero" in capsys.readouterr().out
    assert lesson.read_bytes() == before
    assert [path.name for path in lesson.parent.iterdir()] == [lesson.name]


@nightly
def test_what_is_not_the_same_in_two_runs_is_named(lesson: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(lesson, "answer", "import os; os.getpid()")
    before = lesson.read_bytes()
    assert main(["notebooks", "--twice"]) == 1
    assert "two runs differ; its file is unchanged: cells answer." in capsys.readouterr().out
    assert lesson.read_bytes() == before


@nightly
def test_what_a_tagged_cell_printed_is_kept_until_its_words_change_or_it_is_asked_for(
    lesson: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = outputs(lesson)["log"]
    assert main(["notebooks", "--twice"]) == 0
    assert outputs(lesson)["log"] == before
    assert "pictures look different with the same text, and are not stored: picture, log" in capsys.readouterr().out
    assert main(["notebooks", "--pictures"]) == 0
    renewed = outputs(lesson)["log"]
    assert renewed != before
    change(lesson, "log", CELLS["log"].replace("a log", "another log"))
    assert main(["notebooks"]) == 0
    assert outputs(lesson)["log"][0].data["text/plain"] == "another log"


def test_lessons_are_chosen_by_number_or_name(tmp_path: Path) -> None:
    for name in ("00_start", "03_collectives", "13_after", "glossary"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in chosen(tmp_path, [])] == ["00_start", "03_collectives", "13_after"]
    assert [path.stem for path in chosen(tmp_path, ["3", "after"])] == ["03_collectives", "13_after"]
    assert [path.stem for path in chosen(tmp_path, ["notebooks/glossary.ipynb"])] == ["glossary"]
    with pytest.raises(ValueError, match="no lesson is called '7': there are 00_start, 03_"):
        chosen(tmp_path, ["7"])


def shown(text: str, **data: str) -> Any:
    return formats.new_output("display_data", {"text/plain": text, **data})


def printed(text: str, name: str = "stdout") -> Any:
    return formats.new_output("stream", name=name, text=text)


def nbval_takes_them_for_the_same(fresh: list[Any], old: list[Any]) -> bool:
    skipped = ("metadata", "traceback", "output_type", "name", "execution_count", VIEW, "image/png", "image/svg+xml")
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
        ([shown("a", **{"image/png": "1"})], [shown("a", **{"image/png": "2"})]),
        ([shown("a", **{"image/svg+xml": "<svg>1</svg>"})], [shown("a", **{"image/svg+xml": "<svg>2</svg>"})]),
        ([printed("x"), printed("y")], [printed("x"), printed("y", "stderr")]),
    ],
)
def test_the_same_is_what_nbval_takes_for_the_same(fresh: list[Any], old: list[Any]) -> None:
    assert agree(fresh, old) == nbval_takes_them_for_the_same(fresh, old)


def drawing(height: float, dots_per_inch: int = 50) -> Any:
    figure, written = Figure(figsize=(2, 2)), io.BytesIO()
    figure.subplots().bar([1, 2], [1, height], color="black")
    figure.savefig(written, dpi=dots_per_inch, metadata={"Software": str(height)})
    return [shown("bars", **{"image/png": base64.b64encode(written.getvalue()).decode()})]


def test_a_picture_looks_otherwise_when_somebody_would_see_it() -> None:
    assert not look_different(drawing(2), drawing(2.0))  # not the same bytes
    assert look_different(drawing(2), drawing(3))
    assert look_different(drawing(2), drawing(2, dots_per_inch=60))
    assert agree(drawing(2), drawing(3))


def test_a_picture_of_another_kind_is_stored_anew() -> None:
    assert not agree([shown("a", **{"image/png": "1"})], [shown("a", **{"image/svg+xml": "<svg/>"})])


def test_a_still_looks_otherwise_where_it_has_other_shapes_or_words() -> None:
    def still(content: str) -> Any:
        return [shown("lanes", **{"image/svg+xml": f"<svg>{content}</svg>"})]

    assert not look_different(still('<rect x="1.5"/>'), still('<rect x="20"/>'))  # a time that was measured
    assert look_different(still('<rect x="1"/>'), still('<rect x="1"/><rect x="2"/>'))
    assert look_different(still("<text>send</text>"), still("<text>recv</text>"))
    assert agree(still("<text>send</text>"), still("<text>recv</text>"))


@nightly
def test_a_chart_looks_the_same_with_other_measured_times() -> None:
    def chart(seconds: float, *more: tuple[float, float]) -> list[Any]:
        data, about = show.latency([(8, 1e-5), (1e6, seconds), *more])._repr_mimebundle_()
        return tidy([formats.new_output("display_data", data, metadata=about)])

    assert chart(2e-3) != chart(2.1e-3)
    assert agree(chart(2e-3), chart(2.1e-3))
    assert not look_different(chart(2e-3), chart(2.1e-3))
    assert look_different(chart(2e-3), chart(2e-3, (1e6, 3e-3)))


def test_tidying_changes_nothing_that_was_tidied() -> None:
    once = tidy(
        [printed("x"), printed("y"), formats.new_output("display_data", {}), printed("z"), printed("!", "stderr")]
    )
    assert [one.text for one in once] == ["xyz", "!"]
    assert tidy(once) == once
