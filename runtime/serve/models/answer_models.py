"""Bodies of answers: the results of the library, in JSON. Most have the fields of a class of values.

Offsets are positions in an output, times are in Unix seconds unless they are texts. Those who know the values
decide what is in an answer; how it is computed is not known here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.runtime.access.shared_links import SharedLink
from holdfast.runtime.api.job_info import JobInfo
from holdfast.runtime.api.redo_snapshot import Redo
from holdfast.runtime.api.session_snapshots import Rewound
from holdfast.runtime.api.session_task import TaskVerdict
from holdfast.runtime.egress.network_changes import Reach
from holdfast.runtime.files.copied import Copied
from holdfast.runtime.files.session_file import FoundFile, SessionFile
from holdfast.runtime.flaky.spread import Difference, OutcomeKind, Run, Spread
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.kernel_report import KernelInfo, KernelSpecInfo
from holdfast.runtime.guest_rpc.program_result import ProgramInfo, ProgramResult
from holdfast.runtime.guest_rpc.results import CellError, CellResult, ExecResult, Screen
from holdfast.runtime.guest_rpc.shell_report import Attached, Lease, ShellInfo, SyntaxCheck
from holdfast.runtime.history.recording.cast import CastEvent
from holdfast.runtime.history.recording.recording import RecordingPart
from holdfast.runtime.history.repositories.repository_state import RepositoryChange, RepositoryState
from holdfast.runtime.pulse.listening_ports import ListeningPort, Preview
from holdfast.runtime.restore.compat.command_history import Recorded
from holdfast.runtime.serve.models.base_models import AnswerBody, answer_of
from holdfast.runtime.task.redo_rules import RedoneAction
from holdfast.runtime.task.stated_actions import StatedAction
from holdfast.snapshots.fitness import Ladder, Rung
from holdfast.snapshots.survivability import Resource, Survivability


@answer_of(State, optional=True)
class StateAnswer(AnswerBody):
    """The state of a shell or kernel, and the process that explains it."""


@answer_of(ExecResult)
class ExecAnswer(AnswerBody):
    """The outcome of a command, or its question, or the note that it runs.

    `output_base64` has the output's bytes if they are not UTF-8. Offsets are positions in the shell's output.
    """

    running: bool
    output: str
    output_base64: str | None = None
    news: list[dict[str, Any]]


@answer_of(SyntaxCheck)
class SyntaxAnswer(AnswerBody):
    """The verdict of bash on a text."""

    ok: bool


class CellOutput(AnswerBody):
    """One display or value: a MIME bundle."""

    type: str
    data: dict[str, Any]
    metadata: dict[str, Any]


@answer_of(CellError)
class CellFailure(AnswerBody):
    """The exception that ended a cell."""


@answer_of(CellResult)
class CellAnswer(AnswerBody):
    """The outcome of a cell, or its question, or that it runs; `result` is its value as text."""

    status: Literal["ok", "error", "interrupted", "died", "timeout", "restarted", "waiting", "running"]
    result: str | None
    outputs: list[CellOutput]


@answer_of(JobInfo)
class JobAnswer(AnswerBody):
    """A command outside the shell; its output is kept from `start_offset` to `end_offset`."""


@answer_of(ProgramInfo)
class ProgramAnswer(AnswerBody):
    """A program, running or ended; `stdout` and `stderr` count bytes written, `accepted` bytes read."""


@answer_of(ProgramResult)
class ProgramResultAnswer(AnswerBody):
    """The end of a program, and its output; the bytes in base64 if they are not UTF-8."""

    id: str
    exit_code: int | None
    signal: int | None
    running: bool
    stdout: str
    stdout_base64: str | None = None
    stderr: str
    stderr_base64: str | None = None
    duration: float


class InputAnswer(AnswerBody):
    """The number of bytes of input that a program has taken so far."""

    accepted: int


@answer_of(Attached)
class AttachedAnswer(AnswerBody):
    """A terminal that is attached to a shell."""


@answer_of(Lease)
class LeaseAnswer(AnswerBody):
    """The right to type into a shell. Times are Unix seconds."""


@answer_of(ShellInfo)
class ShellAnswer(AnswerBody):
    """A shell."""


@answer_of(KernelInfo)
class KernelAnswer(AnswerBody):
    """A kernel."""


@answer_of(KernelSpecInfo)
class KernelSpecAnswer(AnswerBody):
    """A spec of Jupyter that kernels can be opened from."""


@answer_of(ListeningPort)
class ListeningPortAnswer(AnswerBody):
    """A port at which a program accepts connections, and its answer."""


@answer_of(Preview)
class PreviewAnswer(AnswerBody):
    """A link for people to a port; `expires_at` is in Unix seconds."""


@answer_of(SharedLink)
class SharedLinkAnswer(AnswerBody):
    """A link by which others see a session in their browser. `url` is in the answer that makes it alone."""


@answer_of(Screen)
class ScreenAnswer(AnswerBody):
    """The screen of a terminal: lines without trailing blanks; the cursor as row and column from 0."""

    cursor: Annotated[list[int], Field(min_length=2, max_length=2)]


@answer_of(RecordingPart)
class RecordingAnswer(AnswerBody):
    """A part of a terminal's recording: offsets of its output, and the size of the terminal where it begins.

    `kept_start` and `kept_end` are the offsets of all kept output; `missing` bytes at the beginning of the
    part are not. `begun` is in Unix seconds.
    """


@answer_of(CastEvent)
class CastEventAnswer(AnswerBody):
    """One event: `o` output, `i` input, `r` a new size (COLSxROWS), `m` a marker. `at` is in Unix seconds."""


@answer_of(SessionFile, without=("attributes",))
class FileAnswer(AnswerBody):
    """The file at a path. `mode` is octal; `version` differs when the content has possibly changed."""

    mode: str


@answer_of(FoundFile, optional=True)
class FoundAnswer(AnswerBody):
    """A result of a search: a file, or a line in a file."""


@answer_of(Copied)
class CopiedAnswer(AnswerBody):
    """The result of unpacking: counts, and omitted entries by path."""


class ReplacedAnswer(AnswerBody):
    """The number of occurrences of the text."""

    count: int


class FilesAnswer(AnswerBody):
    """The number of written files."""

    count: int


class AddressAnswer(AnswerBody):
    """A signed address. `expires_at` is in seconds since 1970."""

    url: str
    expires_at: int


class WrittenAnswer(AnswerBody):
    """The present number of bytes of a file."""

    size: int


class LifetimeAnswer(AnswerBody):
    """When a session ends and sleeps: in seconds, the end since 1970; and why it sleeps, if it does."""

    life: float | None
    then: str
    idle: float | None
    ends_at: float | None
    asleep: str | None
    trouble: str | None


class SessionAnswer(AnswerBody):
    """A session."""

    id: str
    name: str
    state: str
    image: str
    created_at: str
    parent_snapshot_id: str | None
    generation: int
    verification: dict[str, Any] | None
    hooks: list[str]
    labels: dict[str, str]
    pool: dict[str, Any] | None
    cluster: dict[str, Any] | None
    lifetime: LifetimeAnswer | None


@answer_of(Reach)
class ReachAnswer(AnswerBody):
    """The hosts that a session can reach, and its recent refusals."""

    refused: list[dict[str, Any]]
    secrets: dict[str, list[str]]


class SnapshotAnswer(AnswerBody):
    """A snapshot. `bytes` is the space that it alone takes on this machine."""

    id: str
    name: str
    label: str | None
    kind: Literal["live", "filesystem"]
    state: str
    session_id: str
    parent_id: str | None
    bytes: int
    shared_bytes: int
    created_at: str
    reason: str | None
    pinned: bool
    template: bool
    details: dict[str, Any]
    """Facts about the capture: seconds, bytes of memory, the actor."""


@answer_of(Rung)
class RungAnswer(AnswerBody):
    """One way to continue a snapshot: its obstacles here, the differences, and the losses."""


@answer_of(Ladder)
class LadderAnswer(AnswerBody):
    """The rungs that the server's machine offers for a snapshot, best first."""

    best: Literal["live", "commands", "files"] | None


@answer_of(Recorded)
class RecordedAnswer(AnswerBody):
    """A command, cell or job that was run; `typed` is its input, with null for hidden parts."""


@answer_of(Rewound, without=("session",))
class RewoundAnswer(AnswerBody):
    """A session that was rewound. `kept` is the snapshot of its previous state."""

    id: str
    name: str
    generation: int
    snapshot: str
    kept: str | None


@answer_of(Resource)
class ResourceAnswer(AnswerBody):
    """A resource of a session, and the effect of a capture on it."""

    verdict: str
    reason: str
    advice: str
    drop: str | None


@answer_of(Survivability, without=("resources",))
class CheckAnswer(AnswerBody):
    """The resources that would survive a capture."""

    blocks: int
    reset: int
    survives: int
    findings: list[ResourceAnswer]


@answer_of(Run)
class RunAnswer(AnswerBody):
    """One run. `output` has the lines of the first run of each kind; `names` are the names in its copy."""

    status: str


@answer_of(OutcomeKind)
class OutcomeKindAnswer(AnswerBody):
    """Runs with the same outcome, by their numbers."""

    runs: list[int]


@answer_of(Difference)
class DifferenceAnswer(AnswerBody):
    """The first line, from 1, in which a kind differs from the most common one; null where one had ended."""


@answer_of(Spread)
class SpreadAnswer(AnswerBody):
    """The outcomes of all runs; fewer than `asked` if they were stopped when two differed."""

    deterministic: bool
    verdict: str
    differences: list[DifferenceAnswer]


@answer_of(TaskVerdict)
class TaskVerdictAnswer(AnswerBody):
    """The result of a verification or an attempt, and the record after it."""

    record: dict[str, Any]
    failure: dict[str, str] | None


@answer_of(RepositoryState)
class RepositoryAnswer(AnswerBody):
    """The state of a Git repository; `dirty` counts files that differ from its index."""


@answer_of(RepositoryChange)
class RepositoryChangeAnswer(AnswerBody):
    """A Git repository whose state differs from the checkpoint's; null where there was none."""


class TaskResumedAnswer(AnswerBody):
    """A task that can be continued; `session`: running, resumed or rewound. `drift` is null if not known.

    `running` and `ran` are commands that run, and that ended without being recorded at a step; `undone` is
    the part of the record that going back has removed.
    """

    session: str
    record: dict[str, Any]
    drift: dict[str, Any] | None
    git: list[RepositoryChangeAnswer]
    running: list[str]
    ran: list[str]
    undone: list[str]


@answer_of(StatedAction)
class StatedActionAnswer(AnswerBody):
    """An action that led to a snapshot, its stated reasons, and its result."""


@answer_of(RedoneAction)
class RedoneActionAnswer(AnswerBody):
    """An action, and its outcome."""


@answer_of(Redo)
class RedoAnswer(AnswerBody):
    """The repeated actions and their session; `left`: the number of actions not reached."""

    complete: bool


class TaskTextAnswer(AnswerBody):
    """A handoff, or a record as Markdown."""

    text: str


class CollectedAnswer(AnswerBody):
    """The names of artifacts that were registered by rule."""

    registered: list[str]
