"""Install the lessons from this folder, without a network: python install.py

Every Python can read this file; a Python that is too old prints a sentence instead of a syntax error.
"""

# ruff: noqa: UP020, UP024, UP031
import importlib
import io
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def pythons():
    # type: () -> list[str]
    with io.open(os.path.join(HERE, "contents.json"), encoding="utf-8") as file:
        return sorted({name.split()[1] for name in json.load(file)["sets"]}, key=lambda name: int(name[2:]))


def main():
    # type: () -> int
    try:
        known = pythons()
    except (IOError, ValueError):
        sys.stderr.write("The file contents.json is missing or damaged: copy the whole folder again.\n")
        return 1
    if "%d.%d" % sys.version_info[:2] not in known:
        words = "This is Python %d.%d, but this folder has wheels for Python %s." % (
            sys.version_info[0],
            sys.version_info[1],
            ", ".join(known),
        )
        sys.stderr.write("%s\nUse one of these, for example: python%s install.py\n" % (words, known[-1]))
        return 1
    sys.dont_write_bytecode = True  # the folder stays unchanged
    steps = importlib.import_module("installer.steps")  # syntax that old versions can't read
    return int(steps.main(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
