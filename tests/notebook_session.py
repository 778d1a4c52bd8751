"""A real Jupyter kernel for tests: run cells in it, look at what a front end would get."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import zmq
from jupyter_client.manager import KernelManager

# a cell for `converse`
TWO_RANKS_STOP = """
    def train(rank, size):
        x = torch.ones(2) * rank
        if rank in (1, 2):
            breakpoint()
        y = x + 1
        dist.all_reduce(x)
        return x.tolist()

    list(launch(train, 4, {}))
"""


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
    begin: float = field(default_factory=time.monotonic)
    by_id: dict[str, int] = field(default_factory=dict)  # which display has this name

    @property
    def text(self) -> str:
        """All that was displayed, as plain text."""
        return "\n".join(data["text/plain"] for data in self.displays if data)


class NotebookSession:
    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        folder: str | None = None,
        python: str | None = None,
        prefix: Sequence[str] = (),
        **options: Any,  # of its process
    ) -> None:
        self._manager = KernelManager(kernel_name="python3")
        if python is not None or prefix:
            assert self._manager.kernel_spec is not None
            kernel = [python or sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            self._manager.kernel_spec.argv = [*prefix, *kernel]
        env = {**os.environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1", **(environment or {})}
        self._manager.start_kernel(env=env, cwd=folder, **options)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=60)
        except RuntimeError:
            self.close()
            raise

    def run(self, source: str, timeout_seconds: float = 60.0) -> Cell:
        return self.finish(self.begin(source), timeout_seconds)

    def begin(self, source: str, **options: Any) -> str:
        # otherwise ipykernel 6.17 may skip the next cell, if it comes soon after one that failed
        return str(self._client.execute(source, stop_on_error=False, **options))

    def finish(
        self, request: str, timeout_seconds: float = 60.0, whenever: Callable[[Cell], object] | None = None
    ) -> Cell:
        """Follow the cell to its end; `whenever` looks at it each time when something new was displayed."""
        cell = Cell()
        while not self._note(self._client.get_iopub_msg(timeout=timeout_seconds), request, cell, whenever):
            pass
        cell.seconds = time.monotonic() - cell.begin
        return cell

    def _note(
        self, message: dict[str, Any], request: str, cell: Cell, whenever: Callable[[Cell], object] | None = None
    ) -> bool:
        """Add a message to what came of the cell. True: it was the last one."""
        if message["parent_header"].get("msg_id") != request:
            return False
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] == "idle":
            return True
        if kind in ("display_data", "update_display_data"):
            cell.updates.append((time.monotonic() - cell.begin, content["data"]))
            name = content.get("transient", {}).get("display_id", "")
            if kind == "display_data":
                cell.by_id[name] = len(cell.displays)
                cell.displays.append(content["data"])
            else:
                cell.displays[cell.by_id[name]] = content["data"]
            if whenever:
                whenever(cell)
        elif kind == "execute_result":
            cell.value = content["data"]["text/plain"]
        elif kind == "stream":
            cell.stream += content["text"]
        elif kind == "error":
            cell.error_name = content["ename"]
            cell.error = "\n".join(content["traceback"])
        return False

    def converse(
        self, source: str, answers: Sequence[str | Callable[[], object]], timeout_seconds: float = 90.0
    ) -> Cell:
        """Run a cell that asks for input; its source may be indented.

        `stream` has the whole dialogue, as a front end shows it.

        An answer may also be something to do while the cell waits for one. If it returns True, the cell asks again.
        """
        request, cell, left = self.begin(textwrap.dedent(source).strip()), Cell(), list(answers)
        poller, questions, end = zmq.Poller(), zmq.Poller(), time.monotonic() + timeout_seconds
        poller.register(self._client.iopub_channel.socket, zmq.POLLIN)
        questions.register(self._client.stdin_channel.socket, zmq.POLLIN)  # jupyter_client 7 awaits `msg_ready`
        asked = None
        while True:
            assert time.monotonic() < end, cell.stream
            if poller.poll(50):
                if self._note(self._client.get_iopub_msg(timeout=1), request, cell):
                    assert not left, f"{cell.stream}\nnot asked for: {left}\n{cell.error}"
                    return cell
            elif questions.poll(0):
                asked = self._client.get_stdin_msg(timeout=1)["content"]["prompt"]
                assert left, f"{cell.stream}{asked}"
            elif asked is not None and left:  # all that came before the prompt is there
                answer = left.pop(0)
                if isinstance(answer, str):
                    cell.stream += f"{asked}{answer}\n"
                    self._client.input(answer)
                    asked = None
                elif answer():
                    cell.stream += f"{asked}\n"
                    asked = None

    def wait_for_a_question(self) -> None:
        """Until a cell asks for input."""
        self._client.get_stdin_msg(timeout=60)

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

    def __exit__(self, *reason: object) -> None:
        self.close()
