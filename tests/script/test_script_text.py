"""What a script holds: from cells that are written here, without running them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ddp_lessons.script.script_text import NoSuchFunction, Script, compose

PROJECT = Path(__file__).parents[2]
DIST = "import torch\nimport torch.distributed as dist\nfrom ddp_lessons import launch, tell"


def ruff(text: str, *command: str) -> str:
    asked = [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", "scripts/train.py", "-"]
    ended = subprocess.run(asked, input=text, capture_output=True, text=True, cwd=PROJECT, check=False)
    return "" if ended.returncode == 0 else f"{ended.stdout}{ended.stderr}{text}"


def undefined_or_unused(text: str) -> str:
    return ruff(text, "check", "--select=F,E9")


def script(*cells: str, name: str = "train", folder: Path = Path("nowhere")) -> Script:
    return compose(list(cells), name, f"{name}.py", folder)


def complete(*cells: str, name: str = "train") -> str:
    """The text of a script that has no TODO."""
    made = script(*cells, name=name)
    assert not made.todo
    assert not undefined_or_unused(made.text)
    return made.text


def test_a_script_reads_as_if_a_person_had_written_it() -> None:
    made = complete(
        "%matplotlib inline\nimport torch\nimport json, math\nimport torch.distributed as dist\n"
        "from ddp_lessons import launch, tell",
        "# how fast\nSPEED = 0.5  # per step\nUNUSED = 3\n\n\ndef step(x):\n    # half of it\n    return x * SPEED",
        "def train(rank, world_size, epochs, start=1.0, loud=False):\n"
        '    """Halve a number often."""\n'
        "    x = torch.tensor(start + rank)\n"
        "    for _ in range(epochs):\n        x = step(x)\n        tell(x=x.item())\n"
        "    dist.all_reduce(x)\n    return math.sqrt(x.item())",
        "!ls\nresults = launch(train, 3, 2, 4)",
    )
    assert made == (
        '"""Halve a number often.\n\n'
        'torchrun --standalone --nproc-per-node=3 train.py --epochs=2 --start=4\n"""\n\n'
        "import argparse\nimport math\nimport os\n\n"
        "import torch\nimport torch.distributed as dist\n\n"
        "from ddp_lessons import tell\n\n\n"
        "# how fast\nSPEED = 0.5  # per step\n\n\n"
        "def step(x):\n    # half of it\n    return x * SPEED\n\n\n"
        "def train(rank, world_size, epochs, start=1.0, loud=False):\n"
        '    """Halve a number often."""\n'
        "    x = torch.tensor(start + rank)\n"
        "    for _ in range(epochs):\n        x = step(x)\n        tell(x=x.item())\n"
        "    dist.all_reduce(x)\n    return math.sqrt(x.item())\n\n\n"
        "def main() -> None:\n"
        "    parser = argparse.ArgumentParser(description=__doc__)\n"
        '    parser.add_argument("--epochs", type=int, default=2, help="default: %(default)s")\n'
        '    parser.add_argument("--start", type=float, default=4, help="default: %(default)s")\n'
        '    parser.add_argument("--loud", action=argparse.BooleanOptionalAction, default=False, '
        'help="default: %(default)s")\n'
        "    options = parser.parse_args()\n"
        '    if "RANK" not in os.environ:\n'
        '        parser.error("RANK is not set. '
        'Start it with: torchrun --standalone --nproc-per-node=3 train.py")\n'
        '    dist.init_process_group("gloo")\n'
        "    rank, world_size = dist.get_rank(), dist.get_world_size()\n"
        "    try:\n"
        "        answer = train(\n"
        "            rank,\n            world_size,\n"
        "            epochs=options.epochs,\n            start=options.start,\n            loud=options.loud,\n"
        "        )\n"
        "        if answer is not None:\n"
        "            # one write, so that the lines of the ranks do not mix\n"
        '            print(f"rank {rank}: {answer}\\n", end="", flush=True)\n'
        "    finally:\n        if dist.is_initialized():\n            dist.destroy_process_group()\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )


@pytest.mark.parametrize(
    ("cell", "needed"),
    [
        ("def train(rank, world_size, x=NAME):\n    return x", True),
        ("def train(rank, world_size) -> NAME:\n    pass", True),
        ("@NAME\ndef train(rank, world_size):\n    pass", True),
        ("def train(rank, world_size):\n    return [NAME for _ in range(2)]", True),
        ("def train(rank, world_size):\n    def inner():\n        return NAME.a.b\n    return inner()", True),
        ("def train(rank, world_size):\n    class Inner:\n        x = NAME\n    return Inner", True),
        ("def train(rank, world_size):\n    return (lambda: NAME)()", True),
        ("def train(rank, world_size):\n    return f'{NAME}'", True),
        ("def train(rank, world_size):\n    return 'NAME'", False),
        ("def train(rank, world_size, NAME):\n    return NAME", False),
        ("def train(rank, world_size):\n    return rank.NAME", False),
        ("def train(rank, world_size):\n    NAME = 3\n    return NAME", False),
        ("def train(rank, world_size):\n    return [NAME for NAME in range(2)]", False),
        ("def train(rank, world_size):\n    import NAME\n    return NAME", False),
        ("def train(rank, world_size):\n    return dict(NAME=3)", False),
    ],
)
def test_names_are_needed_where_python_would_look_for_them(cell: str, needed: bool) -> None:
    assert ("NAME = int\n" in script("NAME = int", f"{cell}\n\n\nlaunch(train, 2, 5)").text) is needed


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["VALUE = 1", "VALUE = 2"], 2),
        (["VALUE = 1; other = 2"], 1),
        (["base = 2\nVALUE = base\nVALUE += 3"], 5),
        (["VALUE = [1]", "VALUE.append(2)", "VALUE[0] = 3"], [3, 2]),
        (["VALUE = [1]", "VALUE.append(2)", "VALUE.append(2)"], [1, 2, 2]),  # the cell ran twice
        (["VALUE = [1]", "VALUE = VALUE * 2"], [1, 1]),
        (["VALUE = [1]", "VALUE.append(2)", "VALUE = [3]"], [3]),
        (["def three():\n    return 3", "VALUE = three()", "# once more\ndef three():\n    return 4"], 4),
        (["class Base:\n    x = 1", "class Wide(Base): ...", "class Base:\n    x = 2", "VALUE = Wide.x"], 2),
        (["def count():\n    return WIDTH + 1", "WIDTH = 1", "VALUE = count()", "WIDTH = 2"], 3),
        (["import random\nrandom.seed(1)\ndrawn = random.random()\nVALUE = random.random()"], 0.8474337369372327),
        (["%%time\nVALUE = 3"], 3),
        (["VALUE = 3\nthis is no Python", "VALUE = 4"], 4),
        (["VALUE = 3", "%%writefile x.py\nVALUE = 4", "%%ranks 2\nVALUE = 5"], 3),
    ],
)
def test_a_value_is_that_of_the_cells_in_the_order_in_which_they_ran(cells: list[str], expected: object) -> None:
    text = complete(*cells, "def train(rank, world_size):\n    return VALUE")
    namespace: dict[str, object] = {"__name__": "script"}
    exec(compile(text, "train.py", "exec"), namespace)
    assert namespace["VALUE"] == expected


def test_imports_are_merged_and_sorted_and_only_those_that_are_needed() -> None:
    text = complete(
        "import torch\nfrom torch import nn\nimport torch.utils.data\nimport os.path as p, sys, re",
        "from torch.nn import functional as F, Module, init\nfrom ddp_lessons.train.digits import digits\nimport json",
        "def train(rank, world_size):\n    return nn, torch.utils.data, F, Module, init, digits, p, re",
    )
    assert (
        "import argparse\nimport os\nimport os.path as p\nimport re\n\nimport torch\nimport torch.distributed as dist\n"
        "import torch.utils.data\nfrom torch import nn\nfrom torch.nn import Module, functional as F, init\n\n"
        "from ddp_lessons.train.digits import digits\n" in text
    )


def test_a_module_of_the_notebooks_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def help(): ...\n")
    made = script("import mine, torch", "def train(rank, world_size):\n    return mine, torch", folder=tmp_path)
    assert made.own_modules == ["mine"]
    assert "import torch.distributed as dist\n\nimport mine\n" in made.text


@pytest.mark.parametrize(
    ("parameters", "launches", "lines"),
    [
        ("epochs", "launch(train, 2, 3)", ['"--epochs", type=int, default=3,']),
        ("epochs", "launch(train, 2, EPOCHS)", ['"--epochs", type=int, default=EPOCHS,']),
        ("rate=0.1", "launch(train, 2, 1)", ['"--rate", type=float, default=1,']),
        ("word='a'", "", ["\"--word\", type=str, default='a',"]),
        ("*, seed=1", "launch(train, 2)", ['"--seed", type=int, default=1,', "seed=options.seed,"]),
        ("x", "launch(train, 2, dict(a=1))", ["x=dict(a=1),"]),
        ("x, y=None", "launch(train, 2, None)", ["x=None,\n        )"]),
        ("x", "for n in (2, 4):\n    launch(train, n, SAMPLES[:n])", ["rank, n = dist.get", "x=SAMPLES[:n],"]),
        ("x, n", "launch(train, EPOCHS, [EPOCHS], EPOCHS)", ["rank, EPOCHS = dist", "x=[EPOCHS],", "n=EPOCHS,"]),
        ("x", "for x in ('a', 'b'):\n    launch(train, 2, x)", ["\"--x\", type=str, default='a',"]),
        ("x", "launch(train, 2, 7)\n[launch(train, 2, x) for x in range(3)]", ['"--x", type=int, default=7,']),
        ("x", "launch(train, 2, 7)\nlaunch(train, 2, *SAMPLES)", ['"--x", type=int, default=7,']),
        ("x", "launch(train, 2, 7)\ny = launch(train, 2)[0]\nlaunch(train, 2, y)", ['"--x", type=int, default=7,']),
        ("x", "launch(train, 2, answer)", ["answer_of_script = train(", "x=answer,", "{answer_of_script}"]),
        ("x=0", "launch(train, 2, 1, backend='mpi')", ['init_process_group("mpi")']),
        ("x=0", "launch(train, 2, 1, join=False)", ['int(os.environ["RANK"])']),
    ],
)
def test_arguments_are_those_of_the_last_launch_that_can_be_written(
    parameters: str, launches: str, lines: list[str]
) -> None:
    values = "EPOCHS = 3\nSAMPLES = [1, 2, 3, 4]\nanswer = [5]"
    made = script(DIST, values, f"def train(rank, world_size, {parameters}):\n    return rank", launches)
    assert not made.todo
    assert not undefined_or_unused(made.text)
    assert [line for line in lines if line not in made.text] == []
    assert ("init_process_group" in made.text) is ("join=False" not in launches)


def test_a_function_called_main_keeps_its_name() -> None:
    text = complete(DIST, "def main(rank, world_size):\n    return rank", name="main")
    assert "answer = main(rank, world_size)" in text
    assert 'if __name__ == "__main__":\n    main_of_script()\n' in text


@pytest.mark.parametrize(
    ("cells", "name", "line"),
    [
        (["x = launch(train, 2)"], "x", "# TODO: this needs `launch`, which only the notebook has; fill in its value"),
        (["x = launch(train, 2)"], "x", "# x = launch(train, 2)\n"),
        (["with Workers(2) as w:\n    x = 3"], "x", "# with Workers(2) as w:\n#     x = 3\n"),
        (["x = !ls"], "x", "# TODO: this needs `get_ipython`"),
        (["x = ranks['y']"], "x", "# TODO: this needs `ranks`"),
        (["x = display(3)"], "x", "# TODO: this needs `display`"),
        (["%%writefile x.py\nx = 3"], "x", "# TODO: no cell defines `x`, which `train` uses\n"),
        (["%run other.py"], "x", "# TODO: no cell defines `x`, which `train` uses\n"),
        (["def x():\n    return unknown"], "unknown", "# TODO: no cell defines `unknown`, which `x` uses\n"),
        (["def x():\n    !ls"], "get_ipython", "# TODO: no cell defines `get_ipython`, which `x` uses\n"),
    ],
)
def test_what_only_the_notebook_has_becomes_a_todo(cells: list[str], name: str, line: str) -> None:
    made = script("from ddp_lessons import Workers, launch", *cells, "def train(rank, world_size):\n    return x")
    assert made.todo == [name]
    assert line in made.text
    compile(made.text, "train.py", "exec")


@pytest.mark.parametrize(
    "launches",
    [
        "",
        "launch(train, 2, *[1])",
        "for x in range(3):\n    launch(train, 2, x)",
        "def best(y):\n    return launch(train, 2, y)",
    ],
)
def test_a_parameter_without_one_value_becomes_a_todo(launches: str) -> None:
    made = script(DIST, "def train(rank, world_size, x):\n    return x", launches)
    assert made.todo == ["x"]
    assert "    x = None  # TODO: no launch() in the notebook passes a fixed value\n" in made.text
    assert not undefined_or_unused(made.text)


def test_values_that_may_differ_between_ranks_are_named() -> None:
    values = "a = torch.rand(1)\nb = [1]\ntorch.manual_seed(1)\nc = torch.rand(1)"
    made = script(DIST, values, "def train(rank, world_size):\n    return a, b, c")
    assert made.computed == ["a"]


@pytest.mark.parametrize(
    "cell",
    [
        "",
        "train = lambda rank, world_size: rank",
        "class train: ...",
        "async def train(rank, world_size): ...",
        "def train(rank): ...",
        "from train_digits import train",
    ],
)
def test_what_is_no_function_of_a_cell_is_refused(cell: str) -> None:
    with pytest.raises(NoSuchFunction, match="no cell defines a function train") as refused:
        script(DIST, cell)
    assert "nothing was written. Next: define it with `def train(rank, world_size):`" in str(refused.value)
