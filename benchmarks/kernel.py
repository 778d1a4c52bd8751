"""A real Jupyter kernel: it takes cells, returns values, and leaves nothing running after `close`."""

import ast
import time
from collections.abc import Mapping
from pathlib import Path
from queue import Empty
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from .family import Family, kill
from .measurement import HANG, Sample

ROOT = Path(__file__).parent.parent
PEERS = Path(__file__).parent / "peers"


class CellFailed(Exception):
    """A cell raised, hung, or killed its kernel; the first argument is one of the table's words."""

    def as_sample(self) -> Sample:
        return Sample(trouble=self.args[0], detail=" ".join(self.args[1:]))


class Kernel:
    """One notebook's kernel, with its own family of processes and temporary folder."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self.family = Family()
        self.manager = KernelManager(kernel_name="python3")
        self.folder = TemporaryDirectory(ignore_cleanup_errors=True)
        environment = {
            **self.family.environment,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": self.folder.name,
            **(variables or {}),
        }
        self.manager.start_kernel(env=environment, cwd=self.folder.name, stdout=DEVNULL, stderr=DEVNULL)
        self.family.root = self.manager.provisioner.pid  # type: ignore[union-attr]
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        try:
            self.client.wait_for_ready(timeout=60)
        except RuntimeError:
            self.close()
            raise CellFailed("kernel died") from None

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def send(self, code: str, value: str = "None") -> str:
        """Start a cell without waiting for it; `value` is an expression to read after it has run."""
        return str(self.client.execute(code, allow_stdin=False, user_expressions={"value": value}))

    def receive(self, message_id: str, timeout_seconds: float) -> Any:
        """Wait for a cell and return its value, which must be a literal."""
        reply = self.reply_to(message_id, time.monotonic() + timeout_seconds)
        if reply["status"] != "ok":
            raise CellFailed("failed", shorten(f"{reply.get('ename')}: {reply.get('evalue')}", 160))
        return ast.literal_eval(reply["user_expressions"]["value"]["data"]["text/plain"])

    def reply_to(self, message_id: str, deadline: float) -> dict[str, Any]:
        while time.monotonic() < deadline:
            try:
                message = self.client.get_shell_msg(timeout=1)
            except Empty:
                if not self.manager.is_alive():
                    raise CellFailed("kernel died") from None
                continue
            finally:
                self.drop_output()
            if message["parent_header"].get("msg_id") == message_id:
                content: dict[str, Any] = message["content"]
                return content
        raise CellFailed(HANG)

    def drop_output(self) -> None:
        """Read what the cells print, as a notebook page would."""
        while self.client.iopub_channel.msg_ready():
            self.client.get_iopub_msg(timeout=1)

    def run(self, code: str, value: str = "None", timeout_seconds: float = 60.0) -> Any:
        return self.receive(self.send(code, value), timeout_seconds)

    def kill(self) -> None:
        """SIGKILL only the kernel, as the OOM killer does."""
        kill(self.family.root)

    def close(self) -> None:
        """SIGKILL the kernel and all remaining processes."""
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.family.kill()
        self.folder.cleanup()


def peer_cell(name: str) -> str:
    """The source of a program under benchmarks/peers/, to send as a cell."""
    return (PEERS / f"{name}.py").read_text()


def timed_cell(world_size: int) -> str:
    return (
        "import time\n"
        "begin = time.perf_counter()\n"
        f"got = answers({world_size})\n"
        "said = (time.perf_counter() - begin, tuple(got))\n"
    )


def time_answers(kernel: Kernel, world_size: int, timeout_seconds: float, before: str = "") -> Sample:
    """Call `answers`, defined by an earlier cell (or by `before` in the same cell), timed inside the kernel."""
    try:
        cell = before + "\n" + timed_cell(world_size)
        seconds, answers = kernel.run(cell, "said", timeout_seconds)
    except CellFailed as trouble:
        return trouble.as_sample()
    return Sample(seconds, answers).checked(world_size)
