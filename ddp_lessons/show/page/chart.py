"""A picture with axes and curves: in a notebook it has the colors of the page, and is sharp at any size."""

from __future__ import annotations

from typing import Any

from ddp_lessons.show.figures.figure import Shown
from ddp_lessons.show.page.picture import Picture


class Chart(Picture):
    """What the functions of `show` return that draw curves."""

    _repr_mimebundle_ = Shown._repr_mimebundle_  # not as a PNG

    def widget_view(self) -> dict[str, Any]:
        """What a front end with widgets shows instead of the still."""
        from ddp_lessons.show.figures.living import view_of

        return view_of({"kind": "chart", "html": self._repr_html_(), "alt": self.alt})

    def _repr_html_(self) -> str:
        from ddp_lessons.show.page.page_svg import as_html

        return as_html(self.svg, self.alt)

    def _ipython_display_(self) -> None:
        from ddp_lessons.show.figures.living import publish

        publish(self, self.widget_view())
