"""The dialogue with the debugger that lesson 16 shows is what the debugger says."""

from __future__ import annotations

import os
import re
from typing import Any

import nbformat
from nights import nightly
from notebook_session import NotebookSession
from processes import PROJECT

LESSON = PROJECT / "notebooks" / "16_debug_a_job_at_work.ipynb"
PROMPT = re.compile(r"^rank \d of \d, cell line \d+> (.*)$", re.M)


@nightly
def test_the_dialogue_in_the_lesson_is_what_the_debugger_says() -> None:
    read: Any = nbformat.read
    text = "\n\n".join(cell.source for cell in read(LESSON, as_version=4).cells if cell.cell_type == "markdown")
    section = text.partition("## Stop a rank in the debugger")[2]
    (program,) = re.findall(r"^```python\n(.*?)^```$", section, re.M | re.S)
    (dialogue,) = re.findall(r"^```text\n(.*?)^```$", section, re.M | re.S)
    with NotebookSession({"PYTHONPATH": os.fspath(PROJECT)}) as kernel:
        assert not kernel.run("import torch, torch.distributed as dist\nfrom ddp_lessons import launch").error
        cell = kernel.converse(program, PROMPT.findall(dialogue))
    assert cell.stream.rstrip() == dialogue.rstrip()
    assert cell.value == "Results([3.0, 3.0, 3.0])"
