"""How much is tried: by `make test` a part of the longest tests (sampling.py), by `make test-all` every case."""

import os

import pytest

EVERYTHING = os.environ.get("DDP_LESSONS_TESTS") == "all"


def leave_out(reason: str, can_be_installed: bool = True) -> None:
    """Skip this test with the sentence that says what is missing; in CI that is a failure, if it could be there."""
    if os.environ.get("CI") and can_be_installed:
        pytest.fail(f"CI has to have what this test needs: {reason}")
    pytest.skip(reason)
