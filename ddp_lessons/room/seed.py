"""The seed of a room: one process that imports torch for the templates of all notebooks of this user.

Each notebook would import it for its own template, 300 MB and some seconds of a core; thirty of them are most of a
small machine. Forked from one seed, the templates share that memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping

from ddp_lessons.run.nursery import _command, _environment_of_import, _quiet_environment
from ddp_lessons.run.sown import SEED, python_and_variables


class Seed:
    """Inside the `with` it is there, for whoever has `variables` in the environment.

    Those that torch reads when it is imported are among them: who has others is not served.
    """

    def __enter__(self) -> Seed:
        self.folder = tempfile.mkdtemp(prefix="ddp_lessons-seed-")  # mode 0700: for this user alone
        path = os.path.join(self.folder, "seed")
        self.variables: Mapping[str, str] = {**_environment_of_import(), SEED: path}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
            listening.bind(path)
            listening.listen(128)  # who asks before torch is imported waits for that
            python = python_and_variables(_environment_of_import())
            self.process = subprocess.Popen(
                _command("template", f"template.sow({listening.fileno()}, {python!r})"),
                pass_fds=[listening.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                env=_quiet_environment(),
            )
        return self

    def wait_until_ready(self, seconds: float) -> None:
        """Until torch is imported; or it has died, and notebooks help themselves."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking, contextlib.suppress(OSError):
            asking.settimeout(seconds)
            asking.connect(self.variables[SEED])
            asking.send(b'{"python": "to be told that it is another"}')
            asking.recv(1)

    def __exit__(self, *reason: object) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
