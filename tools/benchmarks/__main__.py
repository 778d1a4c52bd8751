import argparse
import os
import platform
import signal
import sys
from importlib import import_module, metadata
from types import ModuleType

from tools.benchmarks import __doc__ as about
from tools.benchmarks.tables import Target, print_table

MODULES = {
    "launch": "launches",
    "recording": "recording",
    "hangs": "hangs",
    "training": "training",
    "room": "room",
    "nodes": "nodes",
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.benchmarks", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    modules: dict[str, ModuleType] = {}
    asked_for = sys.argv[1] if len(sys.argv) > 1 else ""
    for name, module in MODULES.items():
        command = commands.add_parser(name)
        command.add_argument("--strict", action="store_true", help="exit status 1 if a target is not met")
        if name == asked_for:  # without importing the others
            modules[name] = import_module(f"tools.benchmarks.{module}")
            command.description = modules[name].__doc__
            modules[name].add_options(command)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that kernels are stopped
    print(
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"torch {metadata.version('torch')}, load {os.getloadavg()[0]:.1f} before\n"
    )
    targets: list[Target] = modules[asked.name].measure(asked)
    if targets:
        print_table(("target", "measured", "at most", ""), [target.row() for target in targets])
    return int(asked.strict and not all(target.is_met for target in targets))


if __name__ == "__main__":
    sys.exit(main())
