"""`%%ranks` in a real kernel: what a learner types, and what a front end would get."""

from __future__ import annotations

import ast
import base64
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


def test_what_they_print_comes_before_what_they_show(kernel: NotebookSession) -> None:
    cell = kernel.run("%%ranks\nprint('says', rank)\nrank * 10")
    assert [data["text/plain"] for data in cell.displays if data] == [
        by_rank("says 0", "says 1", "says 2"),
        by_rank(0, 10, 20),
    ]


@pytest.mark.parametrize(("who", "asked"), [("0,2", [0, 2]), ("1-2", [1, 2]), ("0", [0]), ("2,", [2])])
def test_some_of_them(kernel: NotebookSession, who: str, asked: list[int]) -> None:
    assert shown(kernel, f"%%ranks {who}\n'here'") == "\n".join(f"rank {rank} | 'here'" for rank in asked)


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("%%ranks 5\n1", "3 ranks are running, not 5"),
        ("%%ranks 5,\n1", "must select from ranks 0 to 2"),
        ("%%ranks all\n1", "'all' is not a list of ranks"),
        ("%%ranks --timeout 0\n1", "a positive number of seconds"),
        ("%ranks explode", "invalid choice: 'explode'"),
        ("%%ranks\nunknown", 'copy it to the ranks with ranks["unknown"] = unknown'),
        ("import threading\nranks['lock'] = threading.Lock()", 'ranks["lock"] is a lock, which cannot be pickled'),
        ("%%ranks --timeout 0.5\nimport time\ntime.sleep(60)", "did not return within 0.5 seconds"),
        ("%%time\n%%ranks\n1 / 0", "cell line 3:   1 / 0"),
        ("%%ranks\n1\ndef g(:\n    pass", "cell line 3:   def g(:\n                         ^"),
        ("%%ranks\nreturn 3", "'return' outside function\n    cell line 2:   return 3\n"),
    ],
)
def test_what_is_wrong_is_said_and_the_next_cell_is_right(kernel: NotebookSession, cell: str, sentence: str) -> None:
    done = kernel.run(cell)
    assert sentence in done.stream + done.error
    assert "Traceback" not in done.stream + done.error
    assert shown(kernel, "%%ranks\n1") == by_rank(1, 1, 1)


@nightly
def test_variables_and_functions_go_there_and_come_back(kernel: NotebookSession) -> None:
    kernel.run("import torch\nfactor = 7\ndef scaled(x):\n    return x * factor")
    assert not kernel.run("ranks['scaled'] = scaled\nranks['weights'] = torch.arange(3.)").error
    assert shown(kernel, "%%ranks\nmine = scaled(weights[rank]).item()\nmine") == by_rank(0.0, 7.0, 14.0)
    assert kernel.run("ranks['weights.sum() + mine']").value == "[tensor(3.), tensor(10.), tensor(17.)]"
    kernel.run("%%ranks\ndef made_there():\n    return 'there'\nclass Made:\n    number = rank")
    assert kernel.run("[f() for f in ranks['made_there']]").value == "['there', 'there', 'there']"
    assert kernel.run("[made.number for made in ranks['Made()']]").value == "[0, 1, 2]"


def test_a_look_at_what_is_not_there_costs_nothing(kernel: NotebookSession) -> None:
    assert not kernel.run("%%ranks\ngroup = dist.new_group([0, 1, 2])").error
    told = "ranks 0, 1 and 2 NameError: name 'unknown' is not defined. Next: list the variables"
    assert told in kernel.run("ranks['unknown']").error
    assert not kernel.run("%%ranks\ndist.barrier(group)").error


def test_after_a_typo_variables_are_there_and_after_a_hang_they_are_lost(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nkept = rank")
    assert "The ranks keep their variables" in kernel.run("%%ranks\nkpet").error
    total = "%%ranks\ntotal = torch.ones(1) * kept\ndist.all_reduce(total)\ntotal.item()"
    assert shown(kernel, total) == by_rank(3.0, 3.0, 3.0)
    assert kernel.run("[event.operation for event in ranks.results.events]").value == str(["all_reduce"] * 3)
    error = kernel.run("%%ranks\nif rank == 1:\n    dist.barrier()").error
    assert "no rank can make progress" in error
    assert "All ranks were restarted, and their variables are lost" in error
    assert "NameError" in kernel.run("%%ranks\nkept").error


@pytest.mark.parametrize("cell", ["\nrank;", " --quiet\nprint(rank)\nrank", "\nNone", "\n# only a word"])
def test_a_semicolon_and_quiet_hide_and_none_shows_nothing(kernel: NotebookSession, cell: str) -> None:
    assert shown(kernel, f"%%ranks{cell}") == ""


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
    assert "weights_of_the_model.requires_grad" in kernel.complete("%%ranks\nweights_of_the_model.requires_g")
    assert "weights_of_the_model" not in kernel.complete("weights_of")


def test_status_restart_and_stop(kernel: NotebookSession) -> None:
    kernel.run("%%ranks\nheld = 1")
    assert "held (int)" in kernel.run("%ranks status").stream
    assert kernel.run("%ranks restart 2").stream == "rank 0 | no variables yet\nrank 1 | no variables yet\n"
    assert shown(kernel, "%%ranks\nworld_size") == by_rank(2, 2)
    assert "no ranks are running" in kernel.run("%ranks stop").stream
    assert "no ranks are running. To start four, begin a cell with %%ranks 4" in kernel.run("ranks['x']").error
    assert shown(kernel, "%%ranks 3\nworld_size") == by_rank(3, 3, 3)


def test_after_an_interrupt_the_next_cell_is_right(kernel: NotebookSession) -> None:
    for sign in ("{}", "begins"):  # displayed when the ranks get the cell, and when they run it
        waits_for = [sign]

        def press_stop(cell: Cell, waits_for: list[str] = waits_for) -> None:
            if waits_for and waits_for[0] in str(cell.displays):  # an interrupt before the cell is Jupyter's, and lost
                waits_for.clear()
                kernel.interrupt()

        request = kernel.begin("%%ranks\nimport time\nprint('begins')\ntime.sleep(60)\ndist.barrier()")
        assert kernel.finish(request, whenever=press_stop).error_name == "Interrupted"
        assert shown(kernel, "%%ranks\nx = torch.ones(1)\ndist.all_reduce(x)\nx.item()") == by_rank(3.0, 3.0, 3.0)


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
