"""A real Jupyter kernel for tests: run cells in it, look at what a front end would get."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from jupyter_client.manager import KernelManager


@dataclass
class Cell:
    """What came of one cell."""

    displays: list[dict[str, Any]] = field(default_factory=list)  # as they stand in the end
    updates: list[tuple[float, dict[str, Any]]] = field(default_factory=list)  # every display and update, with its time
    stream: str = ""
    error_name: str = ""
    error: str = ""
    value: str = ""
    seconds: float = 0.0

    @property
    def text(self) -> str:
        """All that was displayed, as plain text."""
        return "\n".join(data["text/plain"] for data in self.displays if data)


class NotebookSession:
    def __init__(
        self, environment: Mapping[str, str] | None = None, folder: str | None = None, python: str | None = None
    ) -> None:
        self._manager = KernelManager(kernel_name="python3")
        if python is not None:
            assert self._manager.kernel_spec is not None
            self._manager.kernel_spec.argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        env = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1", **(environment or {})}
        self._manager.start_kernel(env=env, cwd=folder)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def run(self, source: str, timeout_seconds: float = 60.0) -> Cell:
        return self.finish(self.begin(source), timeout_seconds)

    def begin(self, source: str) -> str:
        return str(self._client.execute(source))

    def finish(
        self, request: str, timeout_seconds: float = 60.0, whenever: Callable[[Cell], object] | None = None
    ) -> Cell:
        """Follow the cell to its end; `whenever` looks at it each time when something new was displayed."""
        cell, begin, by_id = Cell(), time.monotonic(), dict[str, int]()
        while True:
            message = self._client.get_iopub_msg(timeout=timeout_seconds)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                cell.seconds = time.monotonic() - begin
                return cell
            if kind in ("display_data", "update_display_data"):
                cell.updates.append((time.monotonic() - begin, content["data"]))
                name = content.get("transient", {}).get("display_id", "")
                if kind == "display_data":
                    by_id[name] = len(cell.displays)
                    cell.displays.append(content["data"])
                else:
                    cell.displays[by_id[name]] = content["data"]
                if whenever:
                    whenever(cell)
            elif kind == "execute_result":
                cell.value = content["data"]["text/plain"]
            elif kind == "stream":
                cell.stream += content["text"]
            elif kind == "error":
                cell.error_name = content["ename"]
                cell.error = "\n".join(content["traceback"])

    def complete(self, source: str) -> list[str]:
        """What the kernel offers after this text."""
        request = self._client.complete(source, len(source))
        while True:
            message = self._client.get_shell_msg(timeout=60)
            if message["parent_header"].get("msg_id") == request:
                return list(message["content"]["matches"])

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def kill(self) -> None:
        """As the kernel dies when memory runs out."""
        self._manager.signal_kernel(9)

    def restart(self) -> None:
        self._manager.restart_kernel(now=True)
        self._client.wait_for_ready(timeout=60)

    def is_alive(self) -> bool:
        return bool(self._manager.is_alive())

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def __enter__(self) -> NotebookSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, path: TracebackType | None
    ) -> None:
        self.close()
