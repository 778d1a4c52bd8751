"""Open your copy of the lessons in JupyterLab: python lessons.py, with any Python. Options are passed to JupyterLab."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, ".venv", "bin", "python")


def main():
    # type: () -> None
    os.chdir(HERE)
    command = [PYTHON, "-m", "ddp_lessons", "start", "--jupyter"]
    os.execv(PYTHON, command + sys.argv[1:])  # so that only Jupyter gets Ctrl-C


if __name__ == "__main__":
    main()
