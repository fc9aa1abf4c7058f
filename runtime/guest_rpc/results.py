"""Results of commands and cells, as values. Does not know how they arrive.

On the path of `exec`: their makers read fields with `wire_fields`; pydantic takes a while to load.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.base.value_classes import dataclass, field
from holdfast.runtime.guest import defaults

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from holdfast.runtime.guest.pulse.state import State
    from holdfast.runtime.guest_rpc.event import Event

    CellStatus = Literal["ok", "error", "interrupted", "died", "timeout", "restarted", "waiting", "running"]
    CellEventKind = Literal[
        "stream",
        "display_data",
        "execute_result",
        "update_display_data",
        "clear_output",
        "error",
        "input_request",
    ]

ENDS: tuple[CellStatus, ...] = ("ok", "error", "interrupted", "died", "timeout", "restarted")
"""How a cell ends; `waiting` and `running` are how a call ends before its cell does."""


@dataclass(frozen=True, slots=True)
class ExecResult:
    """The outcome of a shell command, or the input it is `waiting` for.

    `exit_code` is the command's, 128+n if a signal ended it; None if it was still unknown when the result
    was made (`waiting`, or `timed_out` with a command that ignores the interrupt). `waiting` says what the
    command, which continues, waits for; `join(command_id)` follows it further. `output` is the command's
    terminal output, standard output and error together; `dropped` counts the bytes at its beginning that
    were not kept, `lost` the bytes that the session itself had no room for. Offsets are positions in the
    shell's whole output. `duration` is in seconds. `recorded`: it ran before, under its key, and this is
    the recorded result; output that is no longer kept is counted in `lost`. `news` lists what died in the
    session since the caller's last command, at most five events. `message` explains an end that the exit
    code alone does not: text that is not finished (then `incomplete`) or that bash could not parse, and
    `set -e` that ended the shell. `cwd` is the directory of the shell at the end, None while it runs.
    `rows` and `cols` are the terminal's size when the result was requested.
    """

    exit_code: int | None
    output: bytes
    start_offset: int
    end_offset: int
    timed_out: bool = False
    shell_exited: bool = False
    incomplete: bool = False
    signal: int | None = None
    duration: float = 0.0
    dropped: int = 0
    lost: int = 0
    command_id: str = ""
    recorded: bool = False
    waiting: State | None = None
    news: tuple[Event, ...] = ()
    message: str = ""
    cwd: str | None = None
    rows: int = defaults.DEFAULT_ROWS
    cols: int = defaults.DEFAULT_COLUMNS

    @property
    def text(self) -> str:
        """The output as text; invalid UTF-8 shows as �."""
        return self.output.decode("utf-8", "replace")

    @property
    def plain(self) -> str:
        """The output as a terminal shows it in the end: no colours, and only the final version of redrawn
        lines.

        Of output that moves the cursor the last 256 KiB are rendered, which takes up to a second.
        """
        from holdfast.runtime.terminal.scroll import plain_text

        return plain_text(self.output, self.rows, self.cols)

    @property
    def running(self) -> bool:
        """True if it had not ended: it waits, or the patience of `join` ended."""
        return self.exit_code is None and not self.timed_out and not self.shell_exited

    @property
    def ok(self) -> bool:
        """True if the command ended with exit code 0."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, slots=True)
class CellEvent:
    """An output or a question of a running cell; `seq` counts them.

    `text` is a stream's or the prompt of a question; `name` is stdout or stderr; `data` a MIME bundle.
    `left_out` counts the bytes of a bundle that was too large, in whose place is a note.
    """

    kind: CellEventKind
    seq: int
    text: str = ""
    name: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    transient: Mapping[str, Any] = field(default_factory=dict)
    execution_count: int | None = None
    password: bool = False
    error: CellError | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class CellError:
    """The exception a cell ended with."""

    ename: str
    evalue: str
    traceback: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CellResult:
    """The outcome of a cell, or the input it is `waiting` for.

    `outputs` are its displays and results in order; `duration` is in seconds. `seq` is the number of the
    last event in it. `recorded`: it ran before, under its key, and its output is no longer kept. `dropped`
    counts the bytes at the beginning of its streams and displays that were not kept, `lost` the bytes of
    events that the session itself had no room for.
    """

    status: CellStatus
    execution_count: int | None
    stdout: str
    stderr: str
    outputs: tuple[CellEvent, ...] = ()
    error: CellError | None = None
    duration: float = 0.0
    cell_id: str = ""
    seq: int = 0
    waiting: State | None = None
    recorded: bool = False
    dropped: int = 0
    lost: int = 0

    @property
    def ok(self) -> bool:
        """True if the cell ran to its end without an exception."""
        return self.status == "ok"

    @property
    def text(self) -> str | None:
        """The value of the cell's last expression as text, if it had one."""
        for output in reversed(self.outputs):
            if output.kind == "execute_result":
                found = output.data.get("text/plain")
                return found if isinstance(found, str) else None
        return None


@dataclass(frozen=True, slots=True)
class Screen:
    """The contents of a terminal: lines without trailing blanks; cursor as row and column from 0."""

    text: str
    rows: int
    cols: int
    cursor: tuple[int, int]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """One check of `doctor`."""

    name: str
    ok: bool
    detail: str
    hint: str = ""
