"""Open the lessons in JupyterLab: python lessons.py, from any folder and with any Python; options go to JupyterLab."""

# ruff: noqa: RUF005
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, ".venv", "Scripts" if os.name == "nt" else "bin")
PYTHON = os.path.join(PROGRAMS, "python.exe" if os.name == "nt" else "python")


def main():
    # type: () -> int
    lessons = sorted(name for name in os.listdir(os.path.join(HERE, "notebooks")) if name.endswith(".ipynb"))
    command = [PYTHON, "-m", "jupyterlab", os.path.join("notebooks", lessons[0])] + sys.argv[1:]
    if hasattr(os, "getuid") and os.getuid() == 0:
        command.append("--allow-root")
    environment = dict(os.environ, PATH=PROGRAMS + os.pathsep + os.environ.get("PATH", ""))
    if os.name != "nt":
        os.chdir(HERE)
        os.execve(PYTHON, command, environment)  # so that Ctrl-C meets only Jupyter
    return subprocess.call(command, cwd=HERE, env=environment)


if __name__ == "__main__":
    sys.exit(main())
