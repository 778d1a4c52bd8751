"""The seed of a room: one process that imports torch for the templates of all notebooks of this user.

Otherwise each notebook would import torch for its own template, which takes 300 MB and some seconds of a core.
Templates that are forked from one seed share that memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping

from ddp_lessons.own_files import IMPORTED_FROM
from ddp_lessons.run.launcher.private_folders import short_private_folder
from ddp_lessons.run.processes.process_sources import clean_python, environment_of_import, quiet_environment
from ddp_lessons.run.processes.shared_template import SEED, python_and_variables


class Seed:
    """Inside the `with` it serves processes that have `variables` in their environment.

    These include the variables that torch reads during import. A process with other values is not served.
    """

    def __enter__(self) -> Seed:
        self.folder = short_private_folder("ddp_lessons-seed-", len("/seed"))  # for this user only
        self.variables: Mapping[str, str] = {**environment_of_import(), SEED: os.path.join(self.folder, "seed")}
        self.start()
        return self

    def start(self) -> None:
        """Start it, or restart it in the same place after it has ended."""
        path = self.variables[SEED]
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(path)
            listening.listen(128)  # requests wait until torch is imported
            python = python_and_variables(environment_of_import())
            self.process = subprocess.Popen(
                clean_python("template", f"template.sow({listening.fileno()}, {python!r})"),
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=IMPORTED_FROM,
                env=quiet_environment(),
            )

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until torch is imported, or until the process has died and notebooks import torch themselves."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, contextlib.suppress(OSError):
            asking.settimeout(seconds)
            asking.connect(self.variables[SEED])
            asking.send(b'{"python": "to be told that it is another"}')
            asking.recv(1)

    def __exit__(self, *reason: object) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
