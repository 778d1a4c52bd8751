"""What a script holds, and what is refused: from cells that are written here, without running them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from ddp_lessons.script.cells import read_cell
from ddp_lessons.script.composing import Script, compose
from ddp_lessons.script.notebook import Notebook
from ddp_lessons.script.refusals import CannotCarry

PROJECT = Path(__file__).parents[2]
DIST = "import torch\nimport torch.distributed as dist\nfrom ddp_lessons import launch, tell"


def script(*cells: str, name: str = "train", folder: Path = Path("nowhere")) -> Script:
    made = compose(
        Notebook([read_cell(number, text) for number, text in enumerate(cells, 1)]), name, "train.py", folder
    )
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "scripts/train.py", "-"]
        ended = subprocess.run(ruff, input=made.text, capture_output=True, text=True, cwd=PROJECT, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr + made.text
    return made


def refusal(*cells: str, name: str = "train") -> str:
    with pytest.raises(CannotCarry) as refused:
        script(*cells, name=name)
    return str(refused.value)


def test_a_script_reads_as_if_a_person_had_written_it() -> None:
    made = script(
        "%matplotlib inline\nimport torch\nimport json, math\nimport torch.distributed as dist\n"
        "from ddp_lessons import launch, tell",
        "# how fast\nSPEED = 0.5  # per step\nUNUSED = 3\n\n\ndef step(x):\n    # half of it\n    return x * SPEED",
        "def train(rank, world_size, epochs: int, start=1.0, loud=False):\n"
        '    """Halve a number often."""\n'
        "    x = torch.tensor(start + rank)\n"
        "    for _ in range(epochs):\n        x = step(x)\n        tell(x=x.item())\n"
        "    dist.all_reduce(x)\n    return math.sqrt(x.item())",
        "!ls\nresults = launch(train, 3, 2, 4.0)",
    )
    assert made.text == (
        '"""Halve a number often.\n\n'
        'torchrun --standalone --nproc-per-node=3 train.py --epochs=2 --start=4.0\n"""\n\n'
        "import argparse\nimport math\nimport os\n\n"
        "import torch\nimport torch.distributed as dist\n\n"
        "from ddp_lessons import tell\n\n"
        "# how fast\nSPEED = 0.5  # per step\n\n\n"
        "def step(x):\n    # half of it\n    return x * SPEED\n\n\n"
        "def train(rank, world_size, epochs: int, start=1.0, loud=False):\n"
        '    """Halve a number often."""\n'
        "    x = torch.tensor(start + rank)\n"
        "    for _ in range(epochs):\n        x = step(x)\n        tell(x=x.item())\n"
        "    dist.all_reduce(x)\n    return math.sqrt(x.item())\n\n\n"
        "def main() -> None:\n"
        "    parser = argparse.ArgumentParser(description=__doc__)\n"
        '    parser.add_argument("--epochs", type=int, default=2, help="default: %(default)s")\n'
        '    parser.add_argument("--start", type=float, default=4.0, help="default: %(default)s")\n'
        '    parser.add_argument("--loud", action=argparse.BooleanOptionalAction, default=False, '
        'help="default: %(default)s")\n'
        "    asked = parser.parse_args()\n"
        '    if "RANK" not in os.environ:\n'
        '        parser.error("RANK is not set. '
        'Start it with: torchrun --standalone --nproc-per-node=3 train.py")\n'
        '    dist.init_process_group("gloo")\n'
        "    try:\n"
        "        answer = train(dist.get_rank(), dist.get_world_size(), asked.epochs, asked.start, asked.loud)\n"
        "        if answer is not None:\n"
        "            # one write, so that the lines of the ranks do not mix\n"
        '            print(f"rank {dist.get_rank()}: {answer}\\n", end="", flush=True)\n'
        "    finally:\n        dist.destroy_process_group()\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    )


def order_of(text: str) -> list[str]:
    found = [ast.unparse(node).partition("(")[0].partition(" =")[0] for node in ast.parse(text).body]
    return [one.removeprefix("def ").removeprefix("class ").removeprefix("@") for one in found]


def test_each_statement_comes_after_what_it_needs_at_once() -> None:
    made = script(
        DIST,
        "class Net(torch.nn.Module):\n    size = 4",
        "def count():\n    return WIDTH + 1",
        "COUNT = count()",
        "WIDTH = 2",
        "def train(rank, world_size):\n    return helper(COUNT), Wide",
        "class Wide(Net):\n    pass",
        "def helper(x):\n    return x + OTHER if x else train(x, x)",
        "OTHER = 3",
    )
    found = order_of(made.text)
    at = {name: found.index(name) for name in ("WIDTH", "OTHER", "count", "COUNT", "train", "helper")}
    assert at["WIDTH"] < at["count"] < at["COUNT"]
    assert at["OTHER"] < at["train"] < at["helper"]
    assert made.text.index("class Net") < made.text.index("class Wide")
    namespace: dict[str, object] = {"__name__": "script"}
    exec(compile(made.text, "train.py", "exec"), namespace)
    assert namespace["COUNT"] == 3


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
    notebook = Notebook(
        [read_cell(1, "from ddp_lessons import launch\nNAME = int"), read_cell(2, cell + "\n\n\nlaunch(train, 2, 5)")]
    )
    made = compose(notebook, "train", "train.py", Path("nowhere")).text
    assert ("NAME = int\n" in made) is needed


def test_the_last_statement_that_bound_a_name_counts() -> None:
    made = script(DIST, "SIZE = 1", "def train(rank, world_size):\n    return SIZE", "SIZE = 2")
    assert "SIZE = 2" in made.text
    assert "SIZE = 1" not in made.text


def test_imports_are_merged_and_sorted_and_only_those_that_are_needed() -> None:
    made = script(
        "import torch\nfrom torch import nn\nimport torch.utils.data\nimport os.path as p, sys, re",
        "from torch.nn import functional as F, Module, init\nfrom ddp_lessons.train.digits import digits\nimport json",
        "def train(rank, world_size):\n    return nn, torch.utils.data, F, Module, init, digits, p, re",
    )
    assert (
        "import os\nimport os.path as p\nimport re\n\nimport torch\nimport torch.distributed as dist\n"
        "import torch.utils.data\nfrom torch import nn\nfrom torch.nn import Module, functional as F, init\n\n"
        "from ddp_lessons.train.digits import digits\n" in made.text
    )


def test_a_module_beside_the_notebook_is_imported_and_named(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def help(): ...\n")
    cells = ("import torch\nimport mine", "def train(rank, world_size):\n    return mine.help(), torch")
    notebook = Notebook([read_cell(number, text) for number, text in enumerate(cells)])
    made = compose(notebook, "train", "train.py", tmp_path)
    assert made.must_go_along == ("mine",)
    assert "import torch.distributed as dist\n\nimport mine\n" in made.text


def test_a_module_that_a_cell_wrote_is_named_as_well() -> None:
    cells = ("%%writefile -a mine.py\nx = 3", "import mine", "def train(rank, world_size):\n    return mine.x")
    notebook = Notebook([read_cell(number, text) for number, text in enumerate(cells)])
    assert compose(notebook, "train", "train.py", Path("nowhere")).must_go_along == ("mine",)


def test_a_seed_and_changes_in_the_same_cell_go_along() -> None:
    made = script(
        DIST,
        "torch.manual_seed(3)\nbefore = torch.randn(2)\ntable = {}\ntable[0] = 1\nweights = torch.rand(2)\nelse_ = 3",
        "def train(rank, world_size):\n    return weights, table",
    )
    text = made.text
    assert text.index("manual_seed") < text.index("before =") < text.index("weights =")
    assert text.index("table = {}") < text.index("table[0] = 1")
    assert "else_" not in text


def test_arguments_that_are_no_options_are_written_as_in_the_launch() -> None:
    made = script(
        DIST,
        "SAMPLES = torch.arange(4.0)\nEPOCHS = 3",
        "def double(x):\n    return 2 * x",
        "def train(rank, world_size, shares, way, epochs, rate=0.1, *, seed=1):\n    return way(shares[rank])",
        "for world_size in (2, 4):\n    launch(train, world_size, SAMPLES.chunk(world_size), double, EPOCHS, 1)",
    )
    assert "shares" not in made.command
    assert "SAMPLES.chunk(dist.get_world_size()), double, asked.epochs, asked.rate, seed=asked.seed" in " ".join(
        made.text.split()
    )
    assert '"--epochs", type=int, default=EPOCHS' in made.text
    assert '"--rate", type=float, default=1' in made.text


def test_what_a_loop_tries_becomes_an_option_that_begins_with_the_first() -> None:
    loop = "for rate in (0.5, 0.1):\n    launch(train, 2, rate)"
    made = script(DIST, "def train(rank, world_size, rate):\n    return rate", loop)
    assert '"--rate", type=float, default=0.5' in made.text


def test_a_parameter_with_nothing_but_a_type_has_to_be_told() -> None:
    made = script("import torch", "def train(rank, world_size, epochs: int):\n    return epochs, torch")
    assert '"--epochs", type=int, required=True' in made.text
    assert made.command.endswith("train.py --epochs=EPOCHS")


def test_a_function_that_joins_by_itself_is_left_to_do_so() -> None:
    joins = "# by itself\ndef train(rank, world_size, x):\n    dist.init_process_group('gloo')\n    return rank"
    made = script(DIST, joins.replace("'", '"'), "for n in (2, 4):\n    launch(train, n, [n], join=False)")
    assert made.text.count("init_process_group") == 1
    assert 'rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])' in made.text
    assert "train(rank, world_size, [world_size])" in made.text


def test_names_of_the_script_give_way_to_those_of_the_notebook() -> None:
    cells = ("answer = [1]\ndist = 3", "def main(rank, world_size, x):\n    return x, dist", "launch(main, 2, answer)")
    text = script("import torch\nfrom ddp_lessons import launch", *cells, name="main").text
    assert "answer_of_script = main(torch.distributed.get_rank(), torch.distributed.get_world_size(), answer)" in text
    assert "def main_of_script() -> None:" in text


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["x = launch(train, 2)", "def train(rank, world_size):\n    return x"], "uses `launch`"),
        (["x = input()", "def train(rank, world_size):\n    return x"], "uses `input`"),
        (["x = !ls", "def train(rank, world_size):\n    return x"], "uses `get_ipython`"),
        (["x = ranks['y']", "def train(rank, world_size):\n    return x"], "uses `ranks`"),
        (["with Workers(2) as w:\n    x = 3", "def train(rank, world_size):\n    return x"], "uses `Workers`"),
        (["def train(rank, world_size):\n    display(rank)"], "train (cell 2, line 1:   def train(rank, world_size):)"),
        (["def train(rank, world_size):\n    !ls\n    return 3"], "uses `get_ipython`"),
        (["def train(rank, world_size):\n    return launch(train, 2)"], "every rank would start its own ranks"),
        (
            ["losses = []", "losses.append(3)", "def train(rank, world_size):\n    return losses"],
            "was changed later by another cell (cell 3, line 1:   losses.append(3))",
        ),
        (["n = [1]", "n[0] += 3", "def train(rank, world_size):\n    return n"], "by another cell (cell 3"),
        (["n = 1", "n += 3", "def train(rank, world_size):\n    return n"], "by another cell (cell 3"),
        (["class A: ...", "A.x = 3", "def train(rank, world_size):\n    return A"], "by another cell (cell 3"),
        (["x = torch.ones(1)", "x.add_(1)", "def train(rank, world_size):\n    return x"], "by another cell (cell 3"),
        (
            ["%%writefile x.py\nx = 3", "def train(rank, world_size):\n    return x"],
            "defined only in a cell with `%%writefile x.py`",
        ),
        (["%%ranks 4\nx = 3", "def train(rank, world_size):\n    return x"], "defined only in a cell with `%%ranks 4`"),
        (["def train(rank, world_size):\n    return unknown"], "is not defined (`train` needs it)"),
        (["x = dist.TCPStore('', 0)", "def train(rank, world_size):\n    return x"], "belongs to the process"),
        (
            [
                "def make():\n    return dist.TCPStore('', 0)",
                "x = make()",
                "def train(rank, world_size):\n    return x",
            ],
            "x (cell 3, line 1:   x = make())",
        ),
        (["x = torch.randn(3)", "def train(rank, world_size):\n    return x"], "its cell sets no seed before it"),
        (["net = torch.nn.Linear(3, 1)", "def train(rank, world_size):\n    return net"], "`torch.nn.Linear`"),
        (["train = lambda rank, world_size: rank"], "it is a lambda"),
        (["def make():\n    def f(rank, n): ...\n    return f", "train = make()"], "it was returned by `make`"),
        (["class train: ..."], "it is a class"),
        (["async def train(rank, world_size): ..."], "it is a coroutine"),
        (["def train(rank): ..."], "does not take a rank and a world size"),
        (["from train_digits import train"], "was imported, so it is in a file already"),
        (["def train(rank, world_size, path): ..."], "has a parameter `path` without a value"),
        (
            ["def train(rank, world_size, x): ...", "for x in range(3):\n    launch(train, 2, x)"],
            "launch() passes `x`, which differs in each iteration of a loop",
        ),
        (["def train(rank, world_size, x): ...", "more = [1]\nlaunch(train, 2, *more)"], "launch() passes `*more`"),
        (["def train(rank, world_size, x): ...", "launch(train, 2, torch.randn(3))"], "is random"),
        (["def train(rank, world_size, x): ...", "launch(train, 2, dist.TCPStore('', 0))"], "belongs to the process"),
        ([], "is not defined"),
    ],
)
def test_what_cannot_be_carried_over_is_named(cells: list[str], words: str) -> None:
    message = refusal(DIST.replace("launch,", "launch, Workers,"), *cells)
    assert words in message
    assert message.startswith("train needs one thing that a script cannot contain, so nothing was written\n")
    assert "\n    Next: " in message


def test_everything_is_named_at_once() -> None:
    message = refusal(DIST, "x = input()", "def train(rank, world_size):\n    return x, unknown, Out[3]")
    assert message.startswith("train needs 3 things")
    assert all(f"\n  {name}" in message for name in ("x (cell 2", "unknown", "train (cell 3"))
    assert "uses `Out`" in message


def test_constants_of_torch_that_only_look_like_draws_are_carried() -> None:
    made = script(
        DIST,
        "loss = torch.nn.MSELoss()\nzeros = torch.zeros(3)",
        "def train(rank, world_size):\n    return loss, zeros",
    )
    assert "loss = torch.nn.MSELoss()\nzeros = torch.zeros(3)\n" in made.text
