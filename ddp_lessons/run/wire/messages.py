"""The messages between the notebook, the template and the ranks.

Every message is a small frozen dataclass. Large data (tensors, arrays) follows it as plain buffers, so that
they are neither copied into the message nor parsed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ddp_lessons.record.rank_record import Recorded, Standing, Told


@dataclass(frozen=True)
class Start:
    """To a new process: which rank it is, and what it needs to behave like the notebook."""

    rank: int
    world_size: int
    environment: dict[str, str]
    current_folder: str
    module_path: list[str]
    crash_file: str
    backend: str | None  # None: the function joins by itself
    threads: int
    patience_seconds: float  # how long a function may take
    record: bool | str = True  # what to record: nothing, calls, or "values" (calls with the numbers of small tensors)
    memory_bytes: int | None = None  # the limit on top of what it has when its first function begins


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of a world join their process group."""

    file: str = ""
    port: int = 0  # at MASTER_ADDR, if there is no file: the ranks run on several nodes


@dataclass(frozen=True)
class Task:
    """To a rank: a function with its arguments. The pickle and the memory of its tensors follow as buffers.

    Without buffers the rank only joins.
    """

    sources: dict[str, str] = field(default_factory=dict)  # the source of the cells, by their file names
    meeting: Meeting | None = None  # join here first: the ranks are new, or their last call has failed
    why_no_prompt: str = ""  # why nobody can answer the debugger
    debug: bool = False  # an exception opens the debugger


@dataclass(frozen=True)
class Go:
    """To a rank that has loaded its function: all others have, too; run it."""


@dataclass(frozen=True)
class Ask:
    """To a rank: what blocks you? If asked for, also: at which line are you, and what are your newest calls?"""

    number: int = 0
    calls: int = 0
    stack: bool = False


@dataclass(frozen=True)
class Command:
    """To a rank whose debugger waits for a command."""

    text: str


@dataclass(frozen=True)
class Leave:
    """To the template: it is no longer needed, but the notebook's folder is."""


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True)
class Answer:
    """From a rank: what blocks it now, and what else was asked."""

    number: int
    standing: Standing
    frames: tuple[Frame, ...] | None = None  # of its main thread, outermost first
    recorded: Recorded | None = None


@dataclass(frozen=True)
class AtPrompt:
    """From a rank: its debugger waits for a command."""

    frame: Frame
    text: str  # what the debugger wrote since the last command
    is_over: bool = False  # it looks back at an earlier failure, so quitting ends nothing else


@dataclass(frozen=True)
class Loaded:
    """From a rank: it has joined and has its function, and waits for Go."""


@dataclass(frozen=True)
class Present:
    """From a rank of a plain script: it has started."""

    rank: int
    world_size: int
    meets_at: str  # the port or file of the rendezvous; "" if unknown
    process: int
    parent: int  # the process that started it
    crash_file: str  # where it writes its stack if it crashes


@dataclass(frozen=True)
class Returned:
    """From a rank: the result. The pickle and the memory of its tensors follow as buffers."""

    kind: str  # the name of its type
    recorded: Recorded | None = None


@dataclass(frozen=True)
class Raised:
    """From a rank: an exception ended the function, or kept it from starting."""

    kind: str
    message: str
    frames: tuple[Frame, ...]
    traceback: str
    moment: float  # time.monotonic(), one clock for all processes of a machine
    recorded: Recorded | None = None


@dataclass(frozen=True)
class Ready:
    """From the template: torch is imported, and these modules, too."""

    imported: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Fork:
    """To the template: fork these processes; a channel and an output pipe for each come with it."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Import:
    """To the template: when you have nothing else to do, import these, too, so that later ranks do not have to."""

    modules: frozenset[str]


@dataclass(frozen=True)
class Stop:
    """To the template: kill these processes, and report how each ended."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Signal:
    """To the template: send a signal to one process."""

    number: int
    signal: int


@dataclass(frozen=True)
class Ended:
    """From the template, to Stop and Signal: how processes ended. Exit code, or minus the signal that killed it."""

    exit_codes: tuple[int, ...]


CELL_OF_RANKS = "<ipython-input-ranks-"  # the start of the file names of cells that run on the ranks
THE_COMPILER = "torch._dynamo"  # DistributedDataParallel imports it
HEAVY_IMPORTS = (
    THE_COMPILER,
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
)
WITNESSED = "DDP_LESSONS_WITNESSED"  # the variable by which ranks of a plain script find `explain`
MARK = "DDP_LESSONS_PROCESS"  # the variable by which the child processes of a rank are recognized
FromRank = Loaded | Answer | Present | Told | Returned | Raised | AtPrompt
ToRank = Start | Task | Go | Ask | Command
Message = ToRank | FromRank | Leave | Ready | Fork | Import | Stop | Signal | Ended
Buffer = bytes | bytearray | memoryview
