"""JupyterHub for a workshop on one machine: an example to adapt, explained in docs/room.md.

Start it in the project's folder, with the Python that has the package:
    WORKSHOP_PASSWORD=... jupyterhub -f deploy/jupyterhub_config.py
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from ddp_lessons.workshop.seed import Seed
from ddp_lessons.workshop.start import SETTINGS
from ddp_lessons.workshop.working_copy import copy_lessons

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
WORK = Path(os.environ.get("WORKSHOP_FOLDER", "workshop")).absolute()

c = get_config()  # noqa: F821  JupyterHub defines it

# Learners sign in with any name and one password. All of them run as one system user, the one that runs the hub.
c.JupyterHub.authenticator_class = "dummy"
c.DummyAuthenticator.password = os.environ["WORKSHOP_PASSWORD"]
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.bind_url = "http://127.0.0.1:8000"  # put a proxy with TLS in front; see docs/room.md

# Limits for each learner (who can't loosen them if they are in /etc/ddp-lessons.conf), and JupyterLab's settings.
c.Spawner.environment = {
    "DDP_LESSONS_MOST_RANKS": "8",
    "DDP_LESSONS_MOST_MEMORY": "1 GB",
    "JUPYTER_CONFIG_PATH": str(SETTINGS),
}
c.JupyterHub.concurrent_spawn_limit = 5  # more at once would only wait for each other
c.JupyterHub.active_server_limit = 30
c.Spawner.start_timeout = 180
c.Spawner.http_timeout = 180

# torch is imported once, not in each notebook. This works only if all learners run as one system user.
seed = Seed().__enter__()
atexit.register(seed.__exit__)
c.Spawner.environment.update(seed.variables)

# Each learner gets a folder with the notebooks. Existing files stay, because they are the learner's work.
c.SimpleLocalProcessSpawner.home_dir_template = str(WORK / "{username}")
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.default_url = "/lab/tree/00_start_four_ranks.ipynb"
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []  # for root in a container

# With TCP, other users of this machine could read what cells print. A socket's path has to be short.
c.Spawner.args.append("--KernelManager.transport=ipc")
SOCKETS = tempfile.mkdtemp(prefix="hub-", dir="/tmp")  # mode 0700; separate system users need one each
atexit.register(shutil.rmtree, SOCKETS, ignore_errors=True)


def give_notebooks(spawner):
    spawner.environment["JUPYTER_RUNTIME_DIR"] = f"{SOCKETS}/{spawner.user.id}"
    copy_lessons(NOTEBOOKS, WORK / spawner.user.name)


c.Spawner.pre_spawn_hook = give_notebooks
