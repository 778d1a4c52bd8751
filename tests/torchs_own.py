"""Torch's own tests of its CPU collectives and of RPC, as programs: the installed torch has them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import tempfile
import unittest
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist

_INSIDE = "torch.testing._internal.distributed."
_OF_RPC = _INSIDE + "rpc."
_FIXTURE = (_OF_RPC + "tensorpipe_rpc_agent_test_fixture", "TensorPipeRpcAgentTestFixture")
# the module and class of the tests, and what else the class is to be made of
_SUITES: dict[str, tuple[tuple[str, str], ...]] = {
    "c10d": ((_INSIDE + "distributed_test", "DistributedTest._DistTestBase"),),
    "rpc": ((_OF_RPC + "rpc_test", "RpcTest"), _FIXTURE),
    "tensorpipe": ((_OF_RPC + "rpc_test", "TensorPipeAgentRpcTest"), _FIXTURE),
    "dist_autograd": ((_OF_RPC + "dist_autograd_test", "DistAutogradTest"), _FIXTURE),
    "dist_optimizer": ((_OF_RPC + "dist_optimizer_test", "DistOptimizerTest"), _FIXTURE),
}
SUITES_OF_RPC = tuple(suite for suite in _SUITES if suite != "c10d")
# These break what they test, on purpose: a rank that times out, dies, or makes a call that the others do not make.
_BROKEN = (
    *("timeout", "monitored_barrier", "exception", "detect", "failure", "desync", "crash", "abort", "finalized"),
    *("logging_data", "debug", "flight", "ungraceful", "wait_all_workers_twice"),
)
_LONG = ("hierarchical", "stress", "many", "heavy", "large")


def torchs_tests() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The name of each, and what calls it."""
    for suite in _SUITES:
        with contextlib.suppress(ImportError):  # torch.testing wants what not every installation has
            for name in filter(_is_correct, dir(_case_of(suite))):
                yield f"{suite} {name}", run_test, (suite, name)


def _is_correct(name: str) -> bool:
    return name.startswith("test_") and not any(word in name for word in (*_BROKEN, *_LONG))


def run_test(rank: int, world_size: int, suite: str, name: str) -> str:
    """How torch's test ends on this rank: as it does without us, if all is right."""
    ended = _ended(rank, suite, name)
    if dist.is_initialized():
        dist.barrier()  # some leave while another rank is still connecting to them
    return ended


def _ended(rank: int, suite: str, name: str) -> str:
    place = [tempfile.mkdtemp(prefix="torchs-own-") if rank == 0 else ""]
    dist.broadcast_object_list(place, 0)
    os.environ["TEMP_DIR"] = place[0]
    for part in ("barrier", "test_dir", "init_dir"):
        os.makedirs(f"{place[0]}/{part}", exist_ok=True)
    case = _case_of(suite)(name)
    case.rank, case.file_name = rank, f"{place[0]}/meeting"
    if suite == "c10d":
        importlib.import_module(_SUITES[suite][0][0]).Barrier.barrier_id = 0
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(case, name)()
    except unittest.SkipTest:
        return "skipped"
    except SystemExit as left:
        return "skipped" if left.code in _codes_of_skipping() else f"left with {left.code}"
    return "passed"


def _codes_of_skipping() -> set[int]:
    skips = importlib.import_module("torch.testing._internal.common_distributed").TEST_SKIPS
    return {skip.exit_code for skip in skips.values()}


@functools.cache
def _case_of(suite: str) -> Any:
    """The class, as a test of its own. Its module reads from the environment, once, how it is to be run."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE="4")
    os.environ.setdefault("TEMP_DIR", tempfile.gettempdir())
    parts = []
    for module, path in _SUITES[suite]:
        found: Any = importlib.import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        parts.append(found)
    common = importlib.import_module("torch.testing._internal.common_utils")
    return type(suite, (*parts, common.TestCase), {"world_size": 4})
