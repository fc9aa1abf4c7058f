"""Sessions, their shells, and what they can reach."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import Field, create_model

from holdfast.runtime.serve.models.base_models import TEXT, AnswerBody, Name, Reason, RequestBody, Seconds
from holdfast.runtime.serve.models.command_models import StateAnswer, Variables
from holdfast.runtime.sessions import session_labels
from holdfast.runtime.sessions.session_options import SessionOptions

Place = Annotated[str, Field(min_length=1, max_length=300, pattern=TEXT)]
Said = Annotated[str, Field(min_length=1, max_length=60, pattern=TEXT)]
"""A value as a person writes it; the library reads it, and says what is wrong with it."""
Labels = Annotated[
    dict[
        Annotated[str, Field(pattern=rf"^{session_labels.KEY}$")],
        Annotated[str, Field(max_length=session_labels.LONGEST, pattern=r"^[^\x00-\x1f\x7f]*$")],
    ],
    Field(max_length=session_labels.MOST),
]
Size = Annotated[int, Field(ge=0, lt=2**53)] | Said
Assignments = Annotated[
    list[Annotated[str, Field(max_length=128 << 10, pattern=TEXT)]], Field(max_length=1000)
]


class PolicyFields(RequestBody):
    """When a session is captured automatically, and which of these are kept; null is the default."""

    every: int | None = None
    before_risky: bool | None = None
    risky: list[str] | None = None
    on_failure: bool | None = None
    idle: float | str | None = None
    kind: Literal["live", "filesystem"] | None = None
    keep: int | None = None
    keep_for: float | str | None = None
    hourly: int | None = None
    daily: int | None = None
    quota: int | str | None = None


class LabelsRequest(RequestBody):
    """The labels of a session, in place of those it has."""

    labels: Labels


def _requested(name: str) -> Any:
    """Return the type of an option in a request: that of `SessionOptions`, or a text that is read as one."""
    annotation = SessionOptions.model_fields[name].annotation
    limits = tuple(SessionOptions.model_fields[name].metadata)
    kind = next(each for each in get_args(annotation) or (annotation,) if each is not type(None))
    limited: Any = Annotated  # for type checkers, which read no computed types
    listed: Any = list
    plain = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    if name == "env":
        return Variables | Assignments
    if name == "network":
        return Literal[*get_args(annotation), "default"]
    if get_origin(annotation) is tuple:
        item = kind if get_origin(kind) is Annotated else Place
        return limited[(listed[item], *limits)]
    if plain in (int, float):
        return (limited[(kind, *limits)] if limits else kind) | Said
    return kind


_OPTIONS: dict[str, Any] = {name: (_requested(name) | None, None) for name in SessionOptions.model_fields}
_ChosenOptions: Any = create_model("_ChosenOptions", __base__=RequestBody, **_OPTIONS)


class SessionRequest(_ChosenOptions):  # type: ignore[misc]  # its fields are those of SessionOptions
    """A new session, as `Holdfast.new` takes it. With `template` it starts from that.

    Sizes and numbers may be texts (`1.5g`), and variables a list of `KEY=VALUE`, as there.
    """

    name: Name | None = None
    template: Name | None = None
    warm: bool = False
    labels: Labels | None = None
    policy: PolicyFields | None = None

    def options(self) -> dict[str, Any]:
        """Return what was asked for, as `Holdfast.new` takes it."""
        found: dict[str, Any] = self.model_dump(exclude_none=True, exclude={"policy", "warm"})
        return found | ({"warm": True} if self.warm else {})


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


class ShellRequest(RequestBody):
    """A shell to be opened; rows and columns of its terminal in characters."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
    rows: Annotated[int, Field(ge=1, le=1000)] | None = None
    cols: Annotated[int, Field(ge=1, le=1000)] | None = None


class AttachedAnswer(AnswerBody):
    """A terminal that is attached to a shell."""

    actor: str
    rows: int
    cols: int
    writes: bool


class LeaseAnswer(AnswerBody):
    """The right to type into a shell. Times are Unix seconds."""

    holder: str | None
    since: float | None
    active: float | None
    until: float | None
    attached: list[AttachedAnswer]


class LeaseRequest(RequestBody):
    """What to do with the right to type into a shell; `to` is an actor, for `give`."""

    action: Literal["take", "return", "give"]
    seconds: Seconds | None = None
    force: bool = False
    to: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class ShellAnswer(AnswerBody):
    """A shell."""

    name: str
    pid: int
    rows: int
    cols: int
    offset: int
    state: str
    command_id: str | None
    observed: StateAnswer | None
    lease: LeaseAnswer | None
    cwd: str


class KernelRequest(RequestBody):
    """A kernel to be opened; `spec` is which of those that the image has."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
    spec: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = "python3"
    cwd: Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)] | None = None


class KernelAnswer(AnswerBody):
    """A kernel."""

    name: str
    spec: str
    language: str
    cwd: str
    pid: int | None
    state: str
    cell_id: str | None
    observed: StateAnswer | None
    execution_count: int
    epoch: int


class KernelSpecAnswer(AnswerBody):
    """A spec of Jupyter that kernels can be opened from."""

    name: str
    display_name: str
    language: str


class ScreenAnswer(AnswerBody):
    """What a terminal shows: lines without trailing blanks; the cursor as row and column from 0."""

    text: str
    rows: int
    cols: int
    cursor: Annotated[list[int], Field(min_length=2, max_length=2)]
    title: str


class ReachAnswer(AnswerBody):
    """What a session can reach, and what it was refused lately."""

    network: str
    allow: list[str]
    domains: list[str]
    home_allow: list[str]
    resolvers: list[str]
    refused: list[dict[str, Any]]
    refused_more: bool
    secrets: dict[str, list[str]]


class NetworkRequest(RequestBody):
    """Changes of what a session can reach, made in one step."""

    network: Literal["internet", "open"] | None = None
    allow: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    disallow: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    domains: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    no_domains: Annotated[list[Place], Field(max_length=200, default_factory=list)]


class SnapshotRequest(RequestBody):
    """A snapshot to be taken, as `Session.snapshot` takes it."""

    label: Name | None = None
    kind: Literal["live", "filesystem"] = "live"
    reason: Reason | None = None
    force_drop: Annotated[
        list[Annotated[str, Field(max_length=40)]], Field(max_length=100, default_factory=list)
    ]


class SnapshotAnswer(AnswerBody):
    """A snapshot. `bytes` are those that it alone takes on this machine."""

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
    """What was recorded of the capture: seconds, bytes of memory, who took it."""


class TemplateRequest(RequestBody):
    """A template to be made, as `Session.template` makes it."""

    name: Name
    replace: bool = False
    reason: Reason | None = None


class RungAnswer(AnswerBody):
    """One way to continue a snapshot: why it is not possible here, what differs, and what would be lost."""

    name: Literal["live", "commands", "files"]
    possible: bool
    reasons: list[str]
    notes: list[str]
    lost: list[str]


class LadderAnswer(AnswerBody):
    """What is possible with a snapshot on the server's machine, best first."""

    best: Literal["live", "commands", "files"] | None
    rungs: list[RungAnswer]
    live: bool


class RecordedAnswer(AnswerBody):
    """A command, cell or job that was run; `typed` is its input, with null for what was hidden."""

    kind: str
    text: str
    place: str
    at: float
    actor: str
    result: int | str | None
    typed: list[str | None]
    cut: bool


class RestoreRequest(RequestBody):
    """A session that is to continue from a snapshot; `keep_id`: the snapshot's own, not a copy."""

    name: Name | None = None
    rung: Literal["live", "commands", "files"] | None = None
    network: Literal["internet", "none", "open"] | None = None
    allow: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    keep_id: bool = False


class ForkRequest(RequestBody):
    """Sessions that are to continue from an instant, all of them or none."""

    n: Annotated[int, Field(ge=1, le=256)] = 1
    name: Name | None = None
    network: Literal["internet", "none", "open"] | None = None
    allow: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    eager: bool = False


class SnapshotForkRequest(ForkRequest):
    """Sessions that are to continue from a snapshot; `rung` as for `restore`."""

    rung: Literal["live", "commands", "files"] | None = None


class RewindRequest(RequestBody):
    """Where a session is to go back to: a label, an id, or `@-1` for the last snapshot."""

    snapshot: Annotated[str, Field(pattern=r"^(@-\d{1,6}|[A-Za-z0-9][A-Za-z0-9_.-]{0,62})$")]
    keep: Name | None = None
    discard: bool = False
    force: bool = False
    reason: Reason | None = None


class RewoundAnswer(AnswerBody):
    """A session that went back. `kept` is the snapshot of its state before."""

    id: str
    name: str
    generation: int
    snapshot: str
    kept: str | None
    left_behind: int
    lost: int
    deviations: list[str]


class PinRequest(RequestBody):
    """Whether a snapshot is kept until it is removed by hand."""

    pinned: bool


class ResourceAnswer(AnswerBody):
    """One thing a session has, and what a capture does to it."""

    verdict: str
    kind: str
    pid: int
    command: str
    fd: int | None
    what: str
    also: list[int]
    reason: str
    advice: str
    drop: str | None
    own: bool


class CheckAnswer(AnswerBody):
    """What would survive a capture."""

    blocks: int
    reset: int
    survives: int
    processes: int
    descriptors: int
    memory_bytes: int
    file_bytes: int
    free_bytes: int
    changed_files: int
    changed_length: int
    changed_bytes: int
    fault: str
    seconds: float
    whole: bool
    left_out: int
    findings: list[ResourceAnswer]
