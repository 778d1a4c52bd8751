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
    meeting_file: str  # "": they meet at MASTER_ADDR
    guard_file: str  # ranks use it to compare their calls in advance; "": they do not
    crash_file: str
    backend: str | None  # None: the function joins by itself
    threads: int
    patience_seconds: float  # how long a function may take
    record: bool | str = True  # what to record: nothing, calls, or "values" (calls with the numbers of small tensors)
    memory_bytes: int | None = None  # the limit on top of what it has when its function begins
    outlives_failures: bool = False
    addresses: frozenset[str] = frozenset()  # of all nodes, if it may have connections to other nodes


@dataclass(frozen=True)
class Task:
    """To a rank: a function with its arguments. The pickle and the memory of its tensors follow as buffers."""

    sources: dict[str, str]  # the source of the cells, by the file name that Python gave them
    number: int  # counts the tasks of these ranks
    asked: int  # how many ranks run it
    why_no_prompt: str = ""  # why nobody can answer the debugger
    debug: bool = False  # an exception opens the debugger


@dataclass(frozen=True)
class Where:
    """To a rank: which line are you at?"""

    with_calls: bool = False  # also: what have you called so far?


@dataclass(frozen=True)
class Look:
    """To a rank: what blocks you? If calls are asked for, also: what are your newest calls?"""

    number: int
    calls: int = 0


@dataclass(frozen=True)
class Free:
    """To a rank: leave your function, whatever it waits for. May be sent several times."""


@dataclass(frozen=True)
class Rejoin:
    """To a rank that stays after a failure: leave the group, with everything started in it, and join a new one."""

    meeting_file: str
    guard_file: str
    port: int = 0  # where they meet at MASTER_ADDR, if there is no meeting file


@dataclass(frozen=True)
class Halt:
    """To a rank: let the debugger stop at your next line."""


@dataclass(frozen=True)
class Command:
    """To a rank whose debugger waits for a command."""

    text: str


@dataclass(frozen=True)
class Evaluate:
    """To a rank: what is the value of this expression, at the line where you are?"""

    expression: str
    number: int


@dataclass(frozen=True)
class Leave:
    """To a rank or the template: you are no longer needed."""


@dataclass(frozen=True)
class Frame:
    file: str
    line: int
    function: str
    text: str = ""


@dataclass(frozen=True)
class Position:
    """From a rank: where its main thread is now, outermost frame first."""

    frames: tuple[Frame, ...]
    recorded: Recorded | None = field(default=None, compare=False)
    is_silent: bool = False  # it did not answer a request or a signal: its process is stopped


@dataclass(frozen=True)
class AtPrompt:
    """From a rank: its debugger waits for a command."""

    frame: Frame
    text: str  # what the debugger wrote since the last command


@dataclass(frozen=True)
class RunsOn:
    """From a rank: after a command, its debugger lets it run."""


@dataclass(frozen=True)
class QuitDebugger:
    """From a rank: the command was to quit. It waits to be stopped."""


@dataclass(frozen=True)
class Evaluated:
    """From a rank: the value of an expression, as text."""

    text: str
    number: int


@dataclass(frozen=True)
class Joined:
    """From a rank: it has started and joined the group."""


@dataclass(frozen=True)
class Loaded:
    """From a rank: it has imported what its function needs, and begins."""


@dataclass(frozen=True)
class Freed:
    """From a rank that was told to rejoin: it has left its function."""


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
    """From the template: torch, or the last requested module, is imported."""


@dataclass(frozen=True)
class Fork:
    """To the template: fork these processes; a channel and an output pipe for each come with it."""

    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Import:
    """To the template: import this, too, so that later ranks do not have to."""

    module: str


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
    """From the template: how processes ended. Exit code, or minus the signal that killed it."""

    exit_codes: tuple[int, ...]


def size_of_guard(world_size: int) -> int:
    """Size in bytes of the file in which ranks compare their calls."""
    return world_size * GUARDED_TURNS * BYTES_OF_A_TURN


GUARDED_TURNS = 1024  # the newest of each rank
BYTES_OF_A_TURN = 512
CELL_OF_RANKS = "<ipython-input-ranks-"  # the start of the file names of cells that run on the ranks
HEAVY_IMPORTS = (
    "torch._dynamo",  # the compiler, which DistributedDataParallel imports
    "torch.distributed.tensor",
    "torch.distributed.tensor.parallel",
    "torch.distributed.fsdp",
    "torch.distributed.pipelining",
)
WITNESSED = "DDP_LESSONS_WITNESSED"  # the variable by which ranks of a plain script find `explain`
MARK = "DDP_LESSONS_PROCESS"  # the variable by which the child processes of a rank are recognized
FromDebugger = AtPrompt | RunsOn | QuitDebugger | Evaluated
ToDebugger = Halt | Command | Evaluate
FromRank = Joined | Loaded | Freed | Present | Standing | Recorded | Position | Told | Returned | Raised | FromDebugger
ToRank = Start | Task | Where | Look | Free | Rejoin | Leave | ToDebugger
Message = ToRank | FromRank | Ready | Fork | Import | Stop | Signal | Ended
Buffer = bytes | bytearray | memoryview
