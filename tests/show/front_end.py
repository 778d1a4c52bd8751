"""What a notebook's front end does with an explorer's controls, sent to a real kernel."""

from __future__ import annotations

import json
from typing import Any

from notebook_session import OPEN_WIDGETS, Cell, NotebookSession

LIST_CONTROLS = f"""
import json
widgets = {OPEN_WIDGETS}.items()
print(json.dumps({{w.description: name for name, w in widgets if getattr(w, "description", "")}}))
"""


class FrontEnd:
    """Turns the controls that are open in a kernel, as their messages do."""

    def __init__(self, session: NotebookSession) -> None:
        self._session = session

    def turn(self, label: str, **state: Any) -> Cell:
        return self._send(label, {"method": "update", "state": state, "buffer_paths": []})

    def press(self, label: str) -> Cell:
        return self._send(label, {"method": "custom", "content": {"event": "click"}})

    def begin(self, label: str, **state: Any) -> str:
        return self._begin(label, {"method": "update", "state": state, "buffer_paths": []})

    def run_cell(self, source: str, cell: str) -> Cell:
        """As JupyterLab does, which says which cell it is."""
        content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
        return self._session.finish(self._post("execute_request", content, {"cellId": cell}))

    def _send(self, label: str, data: dict[str, Any]) -> Cell:
        return self._session.finish(self._begin(label, data))

    def _begin(self, label: str, data: dict[str, Any]) -> str:
        model = json.loads(self._session.run(LIST_CONTROLS).stream)[label]
        return self._post("comm_msg", {"comm_id": model, "data": data}, {})

    def _post(self, kind: str, content: dict[str, Any], about: dict[str, Any]) -> str:
        client = self._session._client
        message = client.session.msg(kind, content, metadata=about)
        client.shell_channel.send(message)
        return str(message["header"]["msg_id"])
