"""Controls above a picture: what they draw, what they refuse, and what becomes of them outside of a notebook."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from front_end import FrontEnd
from nights import nightly
from notebook_session import OPEN_WIDGETS, NotebookSession

from ddp_lessons.show import Explorer, Picture
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Tick
from ddp_lessons.show.page.picture import write_picture

A_CELL = """
from ddp_lessons.show import Explorer
from ddp_lessons.show.controls.explorer_controls import Choice, Slider, Steps, Tick
from ddp_lessons.show.page.picture import write_picture

def draw(ranks, root, step):
    if ranks == 7:
        raise ValueError("seven is too many\\nby far")
    if ranks == 8:
        import time
        from IPython.display import display
        display("drawing")
        time.sleep(30)
    return write_picture(f"{ranks} ranks, root {root}, step {step}")

controls = {
    "ranks": Choice("ranks", range(2, 9), 4),
    "root": Slider("root", lambda values: range(values["ranks"])),
    "step": Steps("step", range(4), seconds=0.05),
}
explorer = Explorer(draw, title="An example", controls=controls)
"""


def draw(ranks: int, root: int, size: int) -> Picture:
    if ranks == 7:
        raise ValueError("seven is too many")
    return write_picture(f"{ranks} {root} {size}")


def wait_for_step(step: int) -> str:
    """Not for ever: what does not play is to fail."""
    is_there = f"explorer.values['step'] >= {step}"
    return f"import asyncio\nfor _ in range(1000): {is_there} or await asyncio.sleep(0.005)"


def new_explorer(**more: Any) -> Explorer[Picture]:
    controls = {
        "ranks": Choice("ranks", range(2, 9), 4),
        "root": Slider("root", lambda values: range(values["ranks"]), 1),
        "size": Choice("size", {"1 KB": 1000, "1 MB": 1000000}),
    }
    return Explorer(draw, title="An example", controls=controls, **more)


@pytest.fixture(scope="module")
def session() -> Iterator[NotebookSession]:
    with NotebookSession() as session:
        assert not session.run(A_CELL).error
        yield session


@pytest.fixture
def front_end(session: NotebookSession) -> Iterator[FrontEnd]:
    session.run("explorer = Explorer(draw, title='An example', controls=controls); explorer")
    yield FrontEnd(session)
    session.run("explorer.close()")


def test_it_draws_for_the_values_of_its_controls() -> None:
    explorer = new_explorer()
    assert repr(explorer) == explorer.picture.text == "4 1 1000"
    explorer.set(ranks=8, size=1000000)
    assert explorer.picture.text == "8 1 1000000"


def test_a_control_keeps_to_what_the_others_leave_it() -> None:
    explorer = new_explorer()
    explorer.set(root=3)
    explorer.set(ranks=2)
    assert explorer.values == {"ranks": 2, "root": 1, "size": 1000}


def test_what_a_control_cannot_be_changes_nothing() -> None:
    explorer = new_explorer()
    with pytest.raises(ValueError, match="root cannot be 4 here; it can be: 0, 1, 2, 3"):
        explorer.set(root=4)
    with pytest.raises(ValueError, match=r"no control has the name 'rnaks'; these have: ranks, root, size"):
        explorer.set(rnaks=2)
    assert explorer.values == {"ranks": 4, "root": 1, "size": 1000}


def test_an_error_stands_in_the_place_of_the_picture_and_the_next_value_draws_again() -> None:
    explorer = new_explorer()
    explorer.set(ranks=7)
    assert explorer.picture.text == explorer.failure == "ValueError: seven is too many"
    explorer.set(ranks=6)
    assert (explorer.picture.text, explorer.failure) == ("6 1 1000", "")


def test_with_a_button_only_the_button_draws() -> None:
    explorer = new_explorer(run="Launch again")
    before = explorer.picture
    explorer.set(ranks=3)
    assert explorer.picture is before
    explorer.run()
    assert explorer.picture.text == "3 1 1000"


def test_what_two_controls_draw_together_is_drawn_once() -> None:
    drawn: list[dict[str, Any]] = []

    def note(**values: Any) -> Picture:
        drawn.append(values)
        return write_picture("")

    explorer = Explorer(note, title="Two", controls={"a": Choice("a", range(3)), "b": Tick("b")})
    explorer.set(a=1, b=True)
    explorer.set(a=1, b=True)
    assert drawn == [{"a": 1, "b": True}]


@nightly
def test_without_a_notebook_it_is_the_picture_and_loads_no_widgets() -> None:
    code = A_CELL + "print(explorer); import sys; sys.exit('ipywidgets' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "4 ranks, root 0, step 0\n")


@nightly
def test_a_terminal_shows_the_text() -> None:
    lines = "print(explorer.picture.text)\nexplorer\n"
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--quick", "--no-banner", "-c", A_CELL + lines]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.stdout.count("4 ranks, root 0, step 0") >= 2
    assert "Error" not in ended.stdout + ended.stderr


@nightly
def test_a_notebook_keeps_one_output_with_controls_picture_and_text(session: NotebookSession) -> None:
    (display,) = session.run("explorer = Explorer(draw, title='An example', controls=controls); explorer").displays
    session.run("explorer.close()")
    assert set(display) == {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"}
    assert display["text/plain"] == "4 ranks, root 0, step 0"


@nightly
def test_without_ipywidgets_a_notebook_shows_the_picture_as_any_other(session: NotebookSession) -> None:
    hide = "import sys; there = sys.modules.pop('ipywidgets', None); sys.modules['ipywidgets'] = None\n"
    shown = session.run(hide + "Explorer(draw, title='An example', controls=controls)")
    session.run("del sys.modules['ipywidgets']\nif there: sys.modules['ipywidgets'] = there")
    assert [set(display) for display in shown.displays] == [{"image/png", "text/plain"}, {"text/html", "text/plain"}]


def test_what_the_front_end_turns_is_drawn_and_said(session: NotebookSession, front_end: FrontEnd) -> None:
    front_end.turn("ranks", value=3)
    front_end.turn("root", value=2)
    told = session.run("print(explorer); print(explorer._panel._told.value, explorer._panel._image.value)").stream
    assert told.splitlines()[0] == "3 ranks, root 2, step 0"
    assert '<div role="status" aria-live="polite">3 ranks, root 2, step 0</div>' in told
    assert '<img alt="3 ranks, root 2, step 0"' in told


def test_controls_have_the_new_value_before_the_picture_is_drawn(session: NotebookSession) -> None:
    session.run("""
seen = []

def look(ranks):
    if looking._panel:
        seen.append([widget.value for widget in looking._panel._rows["ranks"].widgets])
    return write_picture(f"{ranks} ranks")

looking = Explorer(look, title="An example", controls={"ranks": Slider("ranks", range(2, 9), 4)})
looking""")
    assert session.run("looking.set(ranks=7); print(seen); looking.close()").stream.strip() == "[[7, 5]]"


def test_an_error_of_a_turned_control_is_shown_and_leaves_no_traceback(
    session: NotebookSession, front_end: FrontEnd
) -> None:
    cell = front_end.turn("ranks", value=7)
    assert (cell.error, cell.stream) == ("", "")
    shown = session.run("print(explorer._panel._image.value)").stream
    assert shown.startswith('<pre role="alert"')
    assert "ValueError: seven is too many\nby far" in shown
    front_end.turn("ranks", value=5)
    assert session.run("print(explorer)").stream.strip() == "5 ranks, root 0, step 0"


def test_an_interrupt_ends_the_drawing_and_not_the_controls(session: NotebookSession, front_end: FrontEnd) -> None:
    cell = session.finish(front_end.begin("ranks", value=8), whenever=lambda cell: session.interrupt())
    assert "Traceback" not in cell.stream + cell.error
    assert "Interrupted." in session.run("print(explorer._panel._image.value)").stream
    front_end.turn("ranks", value=5)
    assert session.run("print(explorer)").stream.strip() == "5 ranks, root 0, step 0"


def test_back_and_step_go_one_way_each_and_stop_at_the_ends(session: NotebookSession, front_end: FrontEnd) -> None:
    front_end.press("Back")
    for _ in range(5):
        front_end.press("Step")
    front_end.press("Back")
    assert session.run("print(explorer)").stream.strip() == "4 ranks, root 0, step 2"


def test_play_goes_to_the_end_by_itself_and_then_from_the_beginning(
    session: NotebookSession, front_end: FrontEnd
) -> None:
    wait = wait_for_step(3) + "\nprint(explorer)"
    for _ in range(2):
        front_end.press("Play")
        assert session.run(wait).stream.strip() == "4 ranks, root 0, step 3"
        session.run("await asyncio.sleep(0.1)")


def test_pause_stops_it_where_it_is(session: NotebookSession, front_end: FrontEnd) -> None:
    front_end.press("Play")
    session.run(wait_for_step(1))
    front_end.press("Pause")
    paused = session.run("print(explorer.values['step'])").stream
    assert session.run("await asyncio.sleep(0.3)\nprint(explorer.values['step'])").stream == paused


def test_every_field_has_a_label_and_every_slider_a_field_beside_it(
    session: NotebookSession, front_end: FrontEnd
) -> None:
    code = """
from ipywidgets import HTML, HBox, IntSlider, VBox
def walk(box):
    for child in box.children:
        yield from walk(child) if isinstance(child, (HBox, VBox)) else [(child, box)]
found = [(w, box) for w, box in walk(explorer._panel._box) if not isinstance(w, HTML)]
print([type(w).__name__ for w, _ in found if not (w.description or isinstance(w, IntSlider))])
print([box.children[-2].description for w, box in found if isinstance(w, IntSlider)])
"""
    assert session.run(code).stream.splitlines() == ["[]", "['root', 'step']"]


def test_a_cell_that_runs_again_leaves_no_widgets_of_its_last_run(
    session: NotebookSession, front_end: FrontEnd
) -> None:
    count = f"print(len({OPEN_WIDGETS}))"
    make = "one = Explorer(draw, title='An example', controls=controls); display(one)"
    counts = []
    for _ in range(3):
        assert not front_end.run_cell(make, "a cell").error
        counts.append(session.run(count).stream)
    session.run("one.close()")
    assert len(set(counts)) == 1


def test_closing_takes_all_widgets_away(session: NotebookSession) -> None:
    count = f"print(len({OPEN_WIDGETS}))"
    make = "explorer = Explorer(draw, title='An example', controls=controls); explorer"
    before = session.run(count).stream
    session.run(make)
    session.run("explorer.close(); print(explorer)")
    assert session.run(count).stream == before
