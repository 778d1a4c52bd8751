"""`%%ranks` in a real kernel: what a learner types, and what a front end would get."""

from __future__ import annotations

import ast
import base64
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from IPython.core import completer
from nights import nightly
from notebook_session import Cell, NotebookSession
from processes import alive, eventually

LOAD = "%load_ext ddp_lessons"
COMPLETES = hasattr(completer, "context_matcher")


@pytest.fixture(scope="module")
def kernel() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        assert not session.run(LOAD).error
        assert not session.run("%%ranks 3\npass").error
        yield session


def by_rank(*values: object) -> str:
    return "\n".join(f"rank {rank} | {value}" for rank, value in enumerate(values))


def shown(session: NotebookSession, source: str) -> str:
    cell = session.run(source)
    assert not cell.error
    return cell.text


@nightly
def test_names_are_there_and_variables_stay(kernel: NotebookSession) -> None:
    assert shown(kernel, "%%ranks\nx = torch.full((2,), rank + 1.0)\ndist.all_reduce(x)") == ""
    assert shown(kernel, "%%ranks\nx") == by_rank(*["tensor([6., 6.])"] * 3)
    assert shown(kernel, "%%ranks 3\nworld_size, device.type") == by_rank(*["(3, 'cpu')"] * 3)


def test_what_they_print_comes_before_what_they_show(kernel: NotebookSession) -> None:
    cell = kernel.run("%%ranks\nprint('says', rank)\nrank * 10")
    assert [data["text/plain"] for data in cell.displays if data] == [
        by_rank("says 0", "says 1", "says 2"),
        by_rank(0, 10, 20),
    ]


@pytest.mark.parametrize(
    ("who", "asked"), [("0,2", [0, 2]), ("1-2", [1, 2]), ("0", [0]), ("2,", [2]), ("0, 1", [0, 1]), ("0-2", [0, 1, 2])]
)
def test_some_of_them(kernel: NotebookSession, who: str, asked: list[int]) -> None:
    assert shown(kernel, f"%%ranks {who}\n'here'") == "\n".join(f"rank {rank} | 'here'" for rank in asked)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("5", "there are 3 ranks already, not 5"),
        ("5,", "must select from the ranks 0 to 2"),
        ("2", "run on rank 2 alone with `%%ranks 2,`"),
        ("3 3", "'3 3' is not a list of ranks"),
        ("all", "'all' is not a list of ranks"),
        ("2-1", "must select from the ranks 0 to 2"),
        ("--timeout 0", "a number of seconds greater than 0"),
        ("--slowly", "unrecognized arguments: --slowly"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(kernel: NotebookSession, line: str, sentence: str) -> None:
    cell = kernel.run(f"%%ranks {line}\n1")
    assert sentence in cell.stream + cell.error
    assert "Traceback" not in cell.stream + cell.error
    assert shown(kernel, "%%ranks\n1") == by_rank(1, 1, 1)


@nightly
def test_variables_and_functions_go_there_and_come_back(kernel: NotebookSession) -> None:
    kernel.run("import torch\nfactor = 7\ndef scaled(x):\n    return x * factor")
    assert not kernel.run("ranks['scaled'] = scaled\nranks['weights'] = torch.arange(3.)").error
    assert shown(kernel, "%%ranks\nmine = scaled(weights[rank]).item()\nmine") == by_rank(0.0, 7.0, 14.0)
    assert kernel.run("ranks['mine']").value == "[0.0, 7.0, 14.0]"
    assert kernel.run("ranks['weights.sum() + rank']").value == "[tensor(3.), tensor(4.), tensor(5.)]"
    kernel.run("%%ranks\ndef made_there():\n    return 'there'\nclass Made:\n    number = rank")
    assert kernel.run("[f() for f in ranks['made_there']]").value == "['there', 'there', 'there']"
    assert kernel.run("[made.number for made in ranks['Made()']]").value == "[0, 1, 2]"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("ranks['nobody']", "name 'nobody' is not defined"),
        ("ranks['lambda: ']", "SyntaxError"),
        ("import threading\nranks['lock'] = threading.Lock()", "cannot be pickled for a rank"),
    ],
)
def test_what_cannot_travel_is_said(kernel: NotebookSession, source: str, error: str) -> None:
    assert error in kernel.run(source).error
    assert shown(kernel, "%%ranks\n1") == by_rank(1, 1, 1)


@pytest.mark.parametrize(
    ("cell", "place"),
    [
        ("%%ranks\nx = 1\n1 / 0", "cell line 3:   1 / 0"),
        ("%%ranks\n\n\ndef f():\n    1 / 0\n\nf()", "cell line 5:   1 / 0"),
        ("%%time\n%%ranks\n1 / 0", "cell line 3:   1 / 0"),
        ("%%ranks\nif True:\n    y = = 1", "cell line 3:   y = = 1"),
    ],
)
def test_an_error_names_the_line_as_the_cell_counts_it(kernel: NotebookSession, cell: str, place: str) -> None:
    error = kernel.run(cell).error
    assert place in error
    assert "Traceback" not in error


def test_after_a_typo_the_variables_are_there_and_after_a_hang_they_are_lost(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nkept = rank")
    assert "The ranks keep their variables" in kernel.run("%%ranks\nkpet").error
    assert shown(kernel, "%%ranks\ntotal = torch.ones(1) * kept\ndist.all_reduce(total)\ntotal.item()") == by_rank(
        3.0, 3.0, 3.0
    )
    error = kernel.run("%%ranks\nif rank == 1:\n    dist.barrier()").error
    assert "no rank can make progress" in error
    assert "All ranks were restarted, and their variables are lost" in error
    assert "NameError" in kernel.run("%%ranks\nkept").error


def test_a_cell_may_take_its_time_or_not(kernel: NotebookSession) -> None:
    error = kernel.run("%%ranks --timeout 0.5\nimport time\ntime.sleep(60)").error
    assert "did not return within 0.5 seconds" in error


def test_time_and_capture_work_around_it(kernel: NotebookSession) -> None:
    timed = kernel.run("%%time\n%%ranks\nrank")
    assert "Wall time" in timed.stream
    assert by_rank(0, 1, 2) in timed.text
    kernel.run("%%capture captured\n%%ranks\nprint('hidden', rank)\nrank")
    plain = "[output.data['text/plain'] for output in captured.outputs if output.data]"
    told = by_rank("hidden 0", "hidden 1", "hidden 2"), by_rank(0, 1, 2)
    assert kernel.run(f"tuple({plain}[-2:]) == {told!r}").value == "True"


def test_a_semicolon_and_quiet_hide_and_none_shows_nothing(kernel: NotebookSession) -> None:
    assert shown(kernel, "%%ranks\nrank;") == ""
    assert shown(kernel, "%%ranks --quiet\nprint(rank)\nrank") == ""
    assert shown(kernel, "%%ranks\nNone") == ""
    assert shown(kernel, "%%ranks\n# only a word") == ""


def test_rich_values_are_shown_richly(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nclass Rich:\n    def _repr_html_(self):\n        return f'<b>bold {rank}</b>'")
    cell = kernel.run("%%ranks\nRich()")
    assert "<b>bold 2</b>" in cell.displays[-1]["text/html"]
    cell = kernel.run("%%ranks 0,\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    image = cell.displays[-1]["text/html"].split("base64,")[1].split('"')[0]
    assert base64.b64decode(image).startswith(b"\x89PNG")
    cell = kernel.run("%%ranks 0,\n'<script>alert(1)</script>'")
    assert "<script>" not in cell.displays[-1]["text/html"]


@pytest.mark.skipif(not COMPLETES, reason="IPython before 8.6 does not ask for them")
def test_names_on_the_ranks_are_completed(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nweights_of_the_model = torch.ones(2)")
    assert "weights_of_the_model" in kernel.complete("%%ranks\nweights_of")
    assert "weights_of_the_model.requires_grad" in kernel.complete("%%ranks\nweights_of_the_model.requires_g")
    assert "weights_of_the_model" not in kernel.complete("weights_of")


def test_status_restart_and_stop(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nheld = 1")
    assert "held (int)" in kernel.run("%ranks status").stream
    assert kernel.run("%ranks restart 2").stream == "rank 0 | no variables yet\nrank 1 | no variables yet\n"
    assert shown(kernel, "%%ranks\nworld_size") == by_rank(2, 2)
    assert "no ranks are running" in kernel.run("%ranks stop").stream
    assert "no ranks yet: run a cell that begins with %%ranks 4" in kernel.run("ranks['x']").error
    assert "invalid choice: 'explode'" in kernel.run("%ranks explode").stream
    assert shown(kernel, "%%ranks 3\nworld_size") == by_rank(3, 3, 3)


def test_after_an_interrupt_the_next_cell_is_right(kernel: NotebookSession) -> None:
    for seconds in (0.05, 0.3):
        request = kernel.begin("%%ranks\nimport time\nprint('begins')\ntime.sleep(60)\ndist.barrier()")
        time.sleep(seconds)
        kernel.interrupt()
        cell = kernel.finish(request)
        assert cell.error_name in ("Interrupted", "KeyboardInterrupt")
        assert shown(kernel, "%%ranks\nx = torch.ones(1)\ndist.all_reduce(x)\nx.item()") == by_rank(3.0, 3.0, 3.0)


def test_the_last_results_can_be_drawn(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\ndist.all_reduce(torch.ones(1))")
    assert kernel.run("[event.operation for event in ranks.results.events]").value == str(["all_reduce"] * 3)


@nightly
def test_two_notebooks_at_once_know_nothing_of_each_other(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nkept = 'first'")
    with NotebookSession() as other:
        other.run(LOAD)
        requests = other.begin("%%ranks 2\nkept = 'second'\ndist.barrier()\nkept")
        assert shown(kernel, "%%ranks\ndist.barrier()\nkept") == by_rank(*["'first'"] * 3)
        cell: Cell = other.finish(requests)
        assert cell.text == by_rank(*["'second'"] * 2)


@nightly
@pytest.mark.no_second_try
def test_loaded_anew_it_leaves_no_ranks_behind() -> None:
    with NotebookSession() as session:
        session.run(LOAD)
        session.run("%%ranks 2\nimport os\nkept = 1")
        numbers = session.run("ranks['os.getpid()']").value
        assert not session.run("%reload_ext ddp_lessons").error
        assert eventually(lambda: alive(list(ast.literal_eval(numbers))) == [])
        assert session.run("%%ranks 2\n'kept' in globals()").text == by_rank(False, False)
        if COMPLETES:
            assert session.complete("%%ranks\nworld_s") == ["world_size"]


@nightly
def test_in_a_terminal_it_is_text() -> None:
    lines = (
        "%load_ext ddp_lessons\nget_ipython().run_cell_magic('ranks', '2', 'print(rank)\\nrank * 10')\n%ranks stop\n"
    )
    ipython = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"]
    said = subprocess.run(ipython, input=lines, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "rank 1 | 1" in said
    assert "rank 1 | 10" in said
    assert "no ranks are running" in said


def test_what_a_rank_does_not_have_is_said_and_costs_nothing(kernel: NotebookSession) -> None:
    group = "%%ranks\ngroup = dist.new_group([0, 1, 2])\n0"
    assert not kernel.run(group).error
    assert (
        "ranks 0, 1 and 2 NameError: name 'nothing' is not defined. %ranks status lists"
        in kernel.run("ranks['nothing']").error
    )
    assert not kernel.run("%%ranks\ndist.barrier(group)").error  # the process group is that of before
    assert (
        'if the notebook has nothing, copy it to the ranks with ranks["nothing"] = nothing'
        in kernel.run("%%ranks\nnothing").error
    )
    error = kernel.run("import threading\nranks['lock'] = threading.Lock()").error
    assert 'ranks["lock"] is a lock, which cannot be pickled for a rank' in error


def test_a_cell_that_python_cannot_read_is_shown_with_its_place(kernel: NotebookSession) -> None:
    assert "cell line 3:   def g(:\n                         ^" in kernel.run("%%ranks\n1\ndef g(:\n    pass").error
    assert "'return' outside function\n    cell line 2:   return 3\n" in kernel.run("%%ranks\nreturn 3").error


def test_a_name_that_was_given_and_then_used_otherwise_is_listed(kernel: NotebookSession) -> None:
    assert "rank 1 | rank (int)" not in kernel.run("%ranks status").stream
    kernel.run("%%ranks\nrank = 7")
    assert "rank (int)" in kernel.run("%ranks status").stream
    kernel.run("%%ranks 0\nrank = 0")
    kernel.run("%%ranks 1,\nrank = 1")
    kernel.run("%%ranks 2,\nrank = 2")
