"""A real Jupyter kernel, which runs cells, returns values, and leaves nothing running after `close`."""

import ast
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from queue import Empty
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

import processes
import psutil
from notebook_session import NotebookSession
from processes import PROJECT as ROOT

__all__ = ["GIGABYTE", "ROOT", "CellFailed", "Family", "Kernel"]
GIGABYTE = 1024**3


class Family(processes.Family):
    """The processes of a kernel, and what is measured of them."""

    def bytes(self) -> int:
        """The sum of the proportional set sizes, in which a page shared by ten processes counts a tenth for each."""
        return int(sum(self._each(lambda process: process.memory_full_info().pss)))

    def settle(self, limit_seconds: float = 20.0) -> None:
        """Wait until no process of the family computes, so that one measurement doesn't disturb the next."""
        deadline = time.monotonic() + limit_seconds
        before, quiet = -1.0, 0
        while quiet < 2 and time.monotonic() < deadline:
            now = sum(self._each(lambda process: sum(process.cpu_times()[:2])))
            quiet = quiet + 1 if now - before < 0.015 else 0
            before = now
            time.sleep(0.1)

    def _each(self, measure: Callable[[psutil.Process], float]) -> Iterator[float]:
        for process in self.members():
            with suppress(psutil.Error):
                yield measure(process)


class CellFailed(Exception):
    """A cell raised, hung, or killed its kernel."""


class Kernel:
    """One notebook's kernel, with its own family of processes and temporary folder."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.family = Family()
        self.folder = TemporaryDirectory(ignore_cleanup_errors=True)
        environment = {**self.family.environment, "TMPDIR": self.folder.name, **(variables or {})}
        try:
            self.session = NotebookSession(environment, self.folder.name, stdout=DEVNULL, stderr=DEVNULL)
        except RuntimeError:
            self.folder.cleanup()
            raise CellFailed("kernel died") from None
        self.client = self.session._client

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def send(self, code: str, value: str = "None") -> str:
        """Start a cell without waiting for it; `value` is an expression to evaluate after it has run."""
        return self.session.begin(code, allow_stdin=False, user_expressions={"value": value})

    def reply_to(self, message_id: str, timeout_seconds: float) -> dict[str, Any] | None:
        """The reply to a cell, or None if there was none in time. Printed output is read, as by a page."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            while self.client.iopub_channel.msg_ready():
                self.client.get_iopub_msg(timeout=1)
            try:
                message = self.client.get_shell_msg(timeout=max(0, min(1, deadline - time.monotonic())))
            except Empty:
                if not self.session.is_alive():
                    raise CellFailed("kernel died") from None
                if time.monotonic() > deadline:
                    return None
                continue
            if message["parent_header"].get("msg_id") == message_id:
                content: dict[str, Any] = message["content"]
                return content

    def run(self, code: str, value: str = "None", timeout_seconds: float = 120.0) -> Any:
        """Run a cell and return the value of the expression, which must be a literal."""
        reply = self.reply_to(self.send(code, value), timeout_seconds)
        if reply is None:
            raise CellFailed("hang")
        if reply["status"] != "ok":
            raise CellFailed(shorten(f"failed: {reply.get('ename')}: {reply.get('evalue')}", 160))
        return ast.literal_eval(reply["user_expressions"]["value"]["data"]["text/plain"])

    def close(self) -> None:
        """Kill the kernel and all remaining processes with SIGKILL."""
        self.session.close()
        self.family.kill()
        self.folder.cleanup()
