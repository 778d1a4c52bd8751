"""Open the lessons in JupyterLab: python lessons.py, from any folder and with any Python; options go to JupyterLab."""

# ruff: noqa: RUF005
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, ".venv", "bin")
PYTHON = os.path.join(PROGRAMS, "python")


def main():
    # type: () -> None
    lessons = sorted(name for name in os.listdir(os.path.join(HERE, "notebooks")) if name.endswith(".ipynb"))
    command = [PYTHON, "-m", "jupyterlab", os.path.join("notebooks", lessons[0])] + sys.argv[1:]
    if os.getuid() == 0:
        command.append("--allow-root")
    environment = dict(os.environ, PATH=PROGRAMS + os.pathsep + os.environ.get("PATH", ""))
    os.chdir(HERE)
    os.execve(PYTHON, command, environment)  # so that Ctrl-C meets only Jupyter


if __name__ == "__main__":
    main()
