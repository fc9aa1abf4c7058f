"""Paths inside a session's container.

Plain paths and numbers, shared by the guest and the host; no access to the file system.
Tests start a supervisor with another `Layout`; a real session always uses the defaults.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.base.value_classes import dataclass
from holdfast.runtime.guest.defaults import DEFAULT_COLUMNS as DEFAULT_COLUMNS
from holdfast.runtime.guest.defaults import DEFAULT_ROWS as DEFAULT_ROWS
from holdfast.runtime.guest.defaults import MAIN as MAIN
from holdfast.runtime.guest.defaults import SOCKET_NAME as SOCKET_NAME

RUN_DIR = Path("/run/holdfast")
"""The one folder shared with the host."""
STATE_DIR = Path("/var/lib/holdfast")
"""The supervisor's own files; they are part of the session's file system and of its snapshots."""
MARKS_LIBRARY = Path("/opt/holdfast/lib/bash_marks.so")
GUEST_TREE = Path("/opt/holdfast/guest")
KERNEL_STARTER = Path("/opt/holdfast/start_kernel.py")
"""The program that starts a Python kernel in a chosen interpreter."""
FIRST_PROCESS = "/dev/.holdfast-"
"""The beginning of the path of the first process's program; the rest is drawn for each container."""
WORKSPACE = Path("/workspace")

SESSION_NAME = "session.json"
WAKE_NAME = "wake.json"
JOURNAL_NAME = "journal"

SYSTEM_HOOKS = Path("/etc/holdfast/hooks.d")
"""Folder of programs that run, like the programs in the user's HOME_HOOKS, when the session resumes."""
HOME_HOOKS = Path(".config/holdfast/hooks.d")

DEFAULT_SPEC = "python3"


def paused_name(token: str) -> str:
    """Return the name of the file that marks a pause for a capture."""
    return f"paused-{token}"


@dataclass(frozen=True, slots=True)
class ShellPaths:
    """The folder of one shell. `bash_marks.c` knows the names of the files in `control`."""

    folder: Path

    @property
    def control(self) -> Path:
        """Folder of the shell's user, in which the shell and the supervisor exchange files."""
        return self.folder / "control"

    @property
    def pid(self) -> Path:
        """Pid of the only bash that can write marks."""
        return self.control / "pid"

    @property
    def nonce(self) -> Path:
        """Nonce that tells the shell's marks from imitations."""
        return self.control / "nonce"

    @property
    def epoch(self) -> Path:
        """Number of times the marks were loaded; higher epochs have higher sequence numbers."""
        return self.control / "epoch"

    def command(self, key: str) -> Path:
        """Return the file of the next command that a key takes: a serial number, a newline, the text."""
        return self.control / f"command-{key}"

    @property
    def text(self) -> Path:
        """The text of that command, for shells that read it from a file: all kinds but bash."""
        return self.control / "text"

    @property
    def abort(self) -> Path:
        """Flag file: while it exists, the shell drops the lines of a command that it has not run yet."""
        return self.control / "abort"

    @property
    def ended(self) -> Path:
        """File the shell leaves when `set -e` ends it."""
        return self.control / "ended"

    @property
    def state(self) -> Path:
        """The shell's state as it wrote it at the end of its last command; see `bash_state.h`."""
        return self.control / "state"

    @property
    def rcfile(self) -> Path:
        """File the shell reads when it starts."""
        return self.folder / "bashrc"

    @property
    def zsh(self) -> Path:
        """Folder of the files that a zsh reads when it starts."""
        return self.folder / "zsh"

    @property
    def fish(self) -> Path:
        """File that a fish reads when it starts."""
        return self.folder / "marks.fish"

    @property
    def recording(self) -> Path:
        """Folder of the index of output times."""
        return self.folder / "recording"

    @property
    def output(self) -> Path:
        """Folder of the recorded terminal output."""
        return self.folder / "output"


@dataclass(frozen=True, slots=True)
class IdentityPaths:
    """The folder with the session's identity, readable by everyone in the session.

    In the container's own file system, not in the shared folder: files that programs have open there are in
    a copy.
    """

    folder: Path

    @property
    def facts(self) -> Path:
        """All identity facts as a JSON object; replaced as a whole."""
        return self.folder / "identity.json"

    @property
    def generation(self) -> Path:
        """The number of restores before this session; written last and in place, for programs watching it."""
        return self.folder / "generation"

    @property
    def variables(self) -> Path:
        """Variables a running shell takes into its environment; `bash_self.h` reads it."""
        return self.folder / "variables"

    @property
    def listeners(self) -> Path:
        """FIFOs of programs that are notified of captures and restores; see `holdfast_session.py`."""
        return self.folder / "listeners"

    @property
    def answers(self) -> Path:
        """The FIFO into which they confirm a notification."""
        return self.folder / "answers"

    @property
    def captures(self) -> Path:
        """The FIFO into which programs that request a capture write the name of their request."""
        return self.folder / "captures"

    @property
    def asking(self) -> Path:
        """For each of those programs, a FIFO for its answer and the request itself (`.json`)."""
        return self.folder / "asking"


@dataclass(frozen=True, slots=True)
class Layout:
    """All paths of one supervisor."""

    run: Path = RUN_DIR
    state: Path = STATE_DIR
    marks: Path = MARKS_LIBRARY
    workspace: Path = WORKSPACE
    hooks: Path = SYSTEM_HOOKS

    @property
    def socket(self) -> Path:
        """The socket on which the supervisor listens."""
        return self.run / SOCKET_NAME

    @property
    def session(self) -> Path:
        """The identity of this session; the host writes it before the container starts."""
        return self.run / SESSION_NAME

    @property
    def wake(self) -> Path:
        """The file the host writes to end a pause."""
        return self.run / WAKE_NAME

    def paused(self, token: str) -> Path:
        """Return the file that exists while the supervisor waits for a capture without connections."""
        return self.run / paused_name(token)

    @property
    def log(self) -> Path:
        """The supervisor's log."""
        return self.state / "supervisor.log"

    @property
    def journal(self) -> Path:
        """The journal, from the beginning of this session's timeline."""
        return self.state / "journal"

    @property
    def keys(self) -> Path:
        """Folder with one file for each key under which something was run."""
        return self.state / "keys"

    @property
    def journal_copy(self) -> Path:
        """Entries the journal of this session got since it began, for the host."""
        return self.run / JOURNAL_NAME

    @property
    def identity(self) -> IdentityPaths:
        """Paths of the session's identity."""
        return IdentityPaths(self.state / "identity")

    def shell(self, name: str) -> ShellPaths:
        """Return the paths of the shell of that name."""
        return ShellPaths(self.state / "shells" / name)

    def kernel(self, name: str) -> Path:
        """Return the folder of the kernel of that name."""
        return self.state / "kernels" / name
