"""A page with a notebook in it, read and used as a person does: by what is to be seen, by mouse and by keyboard."""

from __future__ import annotations

import re
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from jupyter_server import JupyterServer
from playwright.sync_api import Locator, Page, TimeoutError, expect

# How many widgets and images the outputs have by now, and whether all are there to be seen.
LOOK = """() => {
  const outputs = [...document.querySelectorAll('.jp-OutputArea-output')]
  const images = outputs.flatMap(output => [...output.querySelectorAll('img')])
  const missing = outputs.filter(output => /Error displaying widget|Loading widget/.test(output.innerText))
  return {
    widgets: outputs.filter(output => output.querySelector('.jupyter-widgets, .ddp-figure')).length,
    images: images.filter(image => !image.closest('.jupyter-widgets, .ddp-figure')).length,
    drawn: missing.length == 0 && images.every(image => image.complete && image.naturalWidth > 20),
  }
}"""
RED = ".jp-OutputArea-output[data-mime-type='application/vnd.jupyter.stderr']"  # errors are of this kind, too
WIDE = (1400, 1000)  # on a narrow screen JupyterLab puts away what tells of the kernel
ALL_RAN = """red =>
  document.querySelector(red) ||
  [...document.querySelectorAll('.jp-CodeCell')].every(cell =>
    !cell.querySelector('.cm-content').innerText.trim() ||
    /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').innerText))"""

WIDGETS = ".jp-OutputArea-output :is(.jupyter-widgets, .ddp-figure)"
# ipywidgets gives no name to the handle of a slider, so a field with a name stands beside each
NAMELESS = 'aria-input-field-name: <div class="noUi-handle'
NOT_OURS = (  # of Notebook 7 itself, with any notebook
    "Cannot read properties of undefined (reading 'schema')",
    "Command 'filebrowser:open-path' not registered.",
)


class Screen:
    """It hears what the page complains of, and whom it calls outside of this machine: neither may happen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._heard: list[str] = []
        page.set_default_timeout(60_000)
        page.on("console", self._hear)
        page.on("pageerror", self._hear_of_error)
        page.context.route(re.compile(r"^https?://(?!127\.0\.0\.1[:/])"), self._refuse)

    def heard(self) -> list[str]:
        """What was heard since it was last asked."""
        heard, self._heard = self._heard, []
        return heard

    def load(self, address: str, cells: int) -> None:
        """Load a page with a notebook of so many cells, and wait until its kernel is ready."""
        self.resize(*WIDE)
        self.page.goto(address)
        self._wait_for_notebook(cells)

    def open(self, server: JupyterServer, name: str, cells: int) -> None:
        """The same in the JupyterLab that is open, if there is one without a notebook: it takes long to load."""
        self.resize(*WIDE)
        if not self._is_empty_lab():
            self.load(f"{server.address(f'lab/tree/{name}')}&reset", cells)
            return
        self.choose("File", "Open from Path…")
        self.page.locator(".jp-Dialog input").fill(name)
        self.accept()
        self._wait_for_notebook(cells)

    def open_saved(self, server: JupyterServer, name: str, cells: int, pictures: int) -> None:
        """Open a notebook that has run, and wait until its pictures are there.

        Where the page is slow, JupyterLab's widget manager looks for a widget before it has read the saved ones, and
        never again: "widget model not found". Then a person loads the page anew.
        """
        self.open(server, name, cells)
        for is_last in (False, False, True):
            self.show_all()
            try:
                self.wait_until_drawn(pictures)
                break
            except AssertionError:
                if is_last:
                    raise
            self.load(f"{server.address(f'lab/tree/{name}')}&reset", cells)
        self._heard = [heard for heard in self._heard if "widget model not found" not in heard]

    def _is_empty_lab(self) -> bool:
        return (
            bool(self.page.locator("#jp-main-dock-panel").count())
            and not self.page.locator(".jp-NotebookPanel").count()
        )

    def _wait_for_notebook(self, cells: int) -> None:
        # JupyterLab puts them in one by one, whenever the page has nothing else to do
        expect(self.page.locator(".jp-Notebook .jp-Cell")).to_have_count(cells, timeout=180_000)
        self.wait_for_kernel()

    def wait_for_kernel(self) -> None:
        expect(self.page.locator(".jp-NotebookPanel .jp-KernelName")).to_have_text(
            re.compile("Python"), timeout=120_000
        )
        indicator = self.page.locator(".jp-NotebookPanel .jp-Notebook-ExecutionIndicator")
        expect(indicator).to_have_attribute("data-status", "idle")

    def resize(self, width: int, height: int) -> None:
        self.page.set_viewport_size({"width": width, "height": height})

    def show_all(self) -> None:
        """Make the window as high as the notebook is long."""
        length = self.page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollHeight")
        self.resize(1400, min(length + 200, 16_000))

    def choose(self, menu: str, *entries: str) -> None:
        """Click through a menu."""
        self.page.locator(".lm-MenuBar-item").get_by_text(menu, exact=True).click()
        for entry in entries:
            self.page.locator(".lm-Menu .lm-Menu-itemLabel").get_by_text(entry, exact=True).click()

    def accept(self) -> None:
        """Say yes to what JupyterLab asks."""
        self.page.locator(".jp-Dialog .jp-mod-accept").click()

    def run_all(self) -> None:
        """Forget what is stored, and begin to run every cell."""
        self.choose("Edit", "Clear Outputs of All Cells")
        assert self.widgets_and_images() == (0, 0)
        self.choose("Run", "Run All Cells")

    def wait_until_all_ran(self, seconds: float = 60) -> None:
        """Until every cell has a number, or one has failed."""
        self.page.wait_for_function(ALL_RAN, arg=RED, timeout=1000 * seconds)

    def run_cell(self, number: int) -> None:
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def drag(self, what: Locator, by: float) -> None:
        """Move it by so many pixels to the right, with the mouse."""
        what.hover()  # after a change of the window, it waits until the slider stays in its place
        box = what.bounding_box()
        assert box
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self.page.mouse.down()
        self.page.mouse.move(x + by / 2, y)
        self.page.mouse.move(x + by, y)
        self.page.mouse.up()

    def save(self) -> None:
        self.page.keyboard.press("Control+s")
        expect(self.page.locator(".lm-DockPanel-tabBar .jp-mod-dirty")).to_have_count(0)

    def shut_down(self) -> None:
        """Close the notebook and end its kernel."""
        self.choose("File", "Close and Shut Down Notebook…")
        self.accept()
        expect(self.page.locator(".jp-NotebookPanel")).to_have_count(0)

    def cell(self, number: int) -> Locator:
        """The code cell of this number, counted from 0."""
        return self.page.locator(".jp-CodeCell").nth(number)

    def prompt(self, number: int) -> Locator:
        """What stands before a cell: [ ], [*] while it runs, or a number."""
        return self.cell(number).locator(".jp-InputPrompt")

    def output(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-OutputArea-output").first

    def errors(self, *cells: int) -> list[str]:
        """What stands in red, in these cells or anywhere."""
        places: list[Page | Locator] = [self.cell(number) for number in cells] or [self.page]
        return [text for place in places for text in place.locator(RED).all_inner_texts()]

    def widgets_and_images(self) -> tuple[int, int]:
        """How many widgets there are, and how many images beside those in widgets."""
        seen = self.page.evaluate(LOOK)
        return seen["widgets"], seen["images"]

    def wait_until_drawn(self, pictures: int) -> None:
        """Until so many can be seen, as widgets and as images."""
        claim = f"wanted => {{ const seen = ({LOOK})(); return seen.drawn && seen.widgets + seen.images == wanted }}"
        try:
            self.page.wait_for_function(claim, arg=pictures)
        except TimeoutError:
            raise AssertionError(f"wanted: {pictures} pictures; seen: {self.page.evaluate(LOOK)}") from None

    def findings(self, place: str = WIDGETS) -> list[str]:
        """What hinders people seriously, as axe sees it, in all that the selector finds."""
        violations: Any = Axe().run(self.page, context=place).response["violations"]
        serious = [one for one in violations if one["impact"] in ("serious", "critical")]
        found = [f"{one['id']}: {node['html']}" for one in serious for node in one["nodes"]]
        return [finding for finding in found if not finding.startswith(NAMELESS)]

    def _hear(self, message: Any) -> None:
        if message.type == "error":
            self._heard.append(f"in the console: {message.text} ({message.location.get('url', '')})")

    def _hear_of_error(self, error: Any) -> None:
        if "/notebooks/" not in self.page.url or str(error) not in NOT_OURS:
            self._heard.append(f"not caught: {error}")

    def _refuse(self, route: Any) -> None:
        self._heard.append(f"called outside: {route.request.url}")
        route.abort()
