"""JupyterHub for a workshop on one machine: an example to change, which docs/room.md explains.

Start it in the folder of the project, with the Python that has the package:
    WORKSHOP_PASSWORD=... jupyterhub -f room/jupyterhub_config.py
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ddp_lessons.workshop.room.seed import Seed
from ddp_lessons.workshop.working_copy import copy_lessons

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
WORK = Path(os.environ.get("WORKSHOP_FOLDER", "workshop")).absolute()

c = get_config()  # noqa: F821  JupyterHub gives it

# Who comes in: any name, with the one password. All learners are one user of the system, the one that runs the hub.
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = os.environ["WORKSHOP_PASSWORD"]
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # a proxy with TLS belongs before it; see docs/room.md

# What each may take. The same lines in /etc/ddp-lessons.conf cannot be loosened by a learner.
c.Spawner.environment = {
    "DDP_LESSONS_MOST_RANKS": "8",
    "DDP_LESSONS_MOST_SECONDS": "120",
    "DDP_LESSONS_MOST_MEMORY": "1 GB",
}
c.JupyterHub.concurrent_spawn_limit = 5  # thirty at once only wait for each other
c.JupyterHub.active_server_limit = 30
c.Spawner.start_timeout = 180
c.Spawner.http_timeout = 180

# torch is imported once, and not by each notebook for itself. It needs that all are one user of the system.
seed = Seed().__enter__()
atexit.register(seed.__exit__)
c.Spawner.environment.update(seed.variables)

# A folder for each, with the notebooks; what is there already is the learner's work.
c.SimpleLocalProcessSpawner.home_dir_template = str(WORK / "{username}")
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab/tree/00_start_four_ranks.ipynb"
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []  # who is root in a container of their own

# Over TCP, other users of this machine could read what cells print. The path of a socket has to be short.
c.Spawner.args.append("--KernelManager.transport=ipc")
SOCKETS = tempfile.mkdtemp(prefix="hub-", dir="/tmp")  # mode 0700; with users of their own, take one for each
atexit.register(shutil.rmtree, SOCKETS, ignore_errors=True)


def give_notebooks(spawner):
    spawner.environment["JUPYTER_RUNTIME_DIR"] = f"{SOCKETS}/{spawner.user.id}"
    copy_lessons(NOTEBOOKS, WORK / spawner.user.name)


c.Spawner.pre_spawn_hook = give_notebooks
