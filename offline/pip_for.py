"""Run pip as if on another system: python -m offline.pip_for '{"sys_platform": "darwin", ...}' download ...

pip's --platform chooses wheels for another system. But with `appnope; sys_platform == "darwin"` and `pyinotify;
sys_platform == "linux"`, pip takes the requirement of the machine that it runs on. So we replace its answers too.
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    from pip._internal.cli.main import main as pip
    from pip._vendor.packaging import markers

    answers = json.loads(sys.argv[1])
    markers.default_environment = lambda: dict(answers)
    for name, answer in answers.items():
        if not markers.Marker(f'{name} == "{answer}"').evaluate():  # another version of pip may ask elsewhere
            print(f"This pip does not let itself be told that {name} is {answer!r}.", file=sys.stderr)
            return 3
    status: int = pip(sys.argv[2:])
    return status


if __name__ == "__main__":
    sys.exit(main())
