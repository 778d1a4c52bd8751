"""The other tests hear and see what they should: each kind of trouble is made once, on purpose."""

from __future__ import annotations

from jupyter_server import JupyterServer
from screen import LOOK, Screen

BROKEN = """
from IPython.display import Javascript, display
display(Javascript("console.error('ours, on purpose')"))
display(Javascript("fetch('https://cdn.example/widget.js').catch(() => 0)"))
display(Javascript("setTimeout(() => { throw new Error('not caught') })"))
display({"application/vnd.jupyter.widget-view+json": {"model_id": "nobody", "version_major": 2, "version_minor": 0}},
        raw=True)
"""
FAILING = "1 / 0"


def test_what_is_wrong_on_a_page_is_heard_and_seen(server: JupyterServer, screen: Screen) -> None:
    server.write("broken.ipynb", BROKEN, FAILING)
    screen.open(server, "broken.ipynb", cells=2)
    screen.choose("Run", "Run All Cells")
    screen.wait_until_all_ran()
    assert "ZeroDivisionError" in "".join(screen.errors())
    screen.page.wait_for_function("() => /Error displaying widget/.test(document.body.innerText)")
    assert not screen.page.evaluate(f"({LOOK})()")["drawn"]
    heard = "\n".join(screen.heard())
    for trouble in ("ours, on purpose", "called outside: https://cdn.example/widget.js", "not caught"):
        assert trouble in heard, heard
    screen.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<div id=bad><button></button></div>')")
    assert "button-name" in "".join(screen.findings("#bad"))
    screen.shut_down()
