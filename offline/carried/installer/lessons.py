"""Open your copy of the lessons in JupyterLab: python lessons.py, with any Python. Options are passed to JupyterLab."""

# ruff: noqa: RUF005
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, ".venv", "bin")
PYTHON = os.path.join(PROGRAMS, "python")


def main():
    # type: () -> None
    os.chdir(HERE)
    first = subprocess.check_output([PYTHON, "-m", "ddp_lessons", "lessons"]).decode().strip()
    command = [PYTHON, "-m", "jupyterlab", first] + sys.argv[1:]
    if os.getuid() == 0:
        command.append("--allow-root")
    environment = dict(os.environ, PATH=PROGRAMS + os.pathsep + os.environ.get("PATH", ""))
    os.execve(PYTHON, command, environment)  # so that only Jupyter gets Ctrl-C


if __name__ == "__main__":
    main()
