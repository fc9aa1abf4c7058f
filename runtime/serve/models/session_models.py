"""Sessions, their shells, and their network rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import Field, create_model

from holdfast.runtime.access import shared_links
from holdfast.runtime.api.option_types import PolicyOptions
from holdfast.runtime.api.session import Session
from holdfast.runtime.flaky.repeat import AT_ONCE, MOST, Series
from holdfast.runtime.serve.models.base_models import (
    TEXT,
    Name,
    Reason,
    RequestBody,
    Seconds,
    taking,
    with_fields_of,
)
from holdfast.runtime.serve.models.command_models import Variables
from holdfast.runtime.sessions import preview_grants, session_labels
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


def _of_policy(annotation: Any) -> Any:
    """Return the type of a policy's field in a request: one of its values, or a list of texts."""
    listed: Any = list
    kinds = get_args(annotation)
    if values := [kind for kind in kinds if get_origin(kind) is Literal]:
        return values[0] | None
    return listed[str] | None if any(get_origin(kind) is Sequence for kind in kinds) else annotation


_POLICY: dict[str, Any] = {
    name: (_of_policy(annotation), None) for name, annotation in get_type_hints(PolicyOptions).items()
}
_ChosenPolicy: Any = create_model("_ChosenPolicy", __base__=RequestBody, **_POLICY)


class PolicyFields(_ChosenPolicy):  # type: ignore[misc]  # its fields are those of PolicyOptions
    """When a session is captured automatically, and which of these are kept; null is the default."""


class LifetimeFields(RequestBody):
    """When a session ends and sleeps, and the action at its end; null is the default."""

    life: float | Said | None = None
    then: Literal["suspend", "remove"] | None = None
    idle: float | Said | None = None


class PreviewRequest(RequestBody):
    """A link for people to a port, for a time in seconds; with `public` it is not needed."""

    public: bool = False
    seconds: Annotated[int, Field(ge=1, le=int(preview_grants.LONGEST))] = int(preview_grants.SECONDS)


class ShareRequest(RequestBody):
    """A link to a session for browsers, for a time in seconds; `typing` lets visitors type as well."""

    typing: bool = False
    seconds: Annotated[int, Field(ge=1, le=int(shared_links.MOST_SECONDS))] = int(shared_links.SECONDS)


class LabelsRequest(RequestBody):
    """The labels of a session, which replace its present ones."""

    labels: Labels


def _requested(name: str) -> Any:
    """Return the type of an option in a request: its type in `SessionOptions`, or a text that is read as
    one."""
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

    Sizes and numbers can be texts (`1.5g`), and variables a list of `KEY=VALUE`, as there.
    """

    name: Name | None = None
    template: Name | None = None
    warm: bool = False
    labels: Labels | None = None
    policy: PolicyFields | None = None
    life: float | Said | None = None
    then: Literal["suspend", "remove"] | None = None
    idle: float | Said | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the request, as `Holdfast.new` takes them."""
        found: dict[str, Any] = self.model_dump(exclude_none=True, exclude={"policy", "warm"})
        return found | ({"warm": True} if self.warm else {})


class ShellRequest(RequestBody):
    """A shell to be opened; rows and columns of its terminal in characters."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
    rows: Annotated[int, Field(ge=1, le=1000)] | None = None
    cols: Annotated[int, Field(ge=1, le=1000)] | None = None


class LeaseRequest(RequestBody):
    """A change of the right to type into a shell; `to` is an actor, for `give`."""

    action: Literal["take", "return", "give"]
    seconds: Seconds | None = None
    force: bool = False
    to: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class KernelRequest(RequestBody):
    """A kernel to be opened; `spec` names one of the image's kernel specs."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]
    spec: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = "python3"
    cwd: Annotated[str, Field(min_length=1, max_length=4096, pattern=TEXT)] | None = None


@taking(Session.change_network, texts=Place)
class NetworkRequest(RequestBody):
    """Changes of the network rules of a session, made in one step."""

    network: Literal["internet", "open"] | None = None


class SnapshotRequest(RequestBody):
    """A snapshot to be taken, as `Session.snapshot` takes it."""

    label: Name | None = None
    kind: Literal["live", "filesystem"] = "live"
    reason: Reason | None = None
    force_drop: Annotated[
        list[Annotated[str, Field(max_length=40)]], Field(max_length=100, default_factory=list)
    ]


class TemplateRequest(RequestBody):
    """A template to be made, as `Session.template` makes it."""

    name: Name
    replace: bool = False
    reason: Reason | None = None


class RestoreRequest(RequestBody):
    """A session to continue from a snapshot; `keep_id`: the snapshot's own, not a copy."""

    name: Name | None = None
    rung: Literal["live", "commands", "files"] | None = None
    network: Literal["internet", "none", "open"] | None = None
    allow: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    deny: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    keep_id: bool = False


class ForkRequest(RequestBody):
    """Sessions that are to continue from an instant, all of them or none."""

    n: Annotated[int, Field(ge=1, le=256)] = 1
    name: Name | None = None
    network: Literal["internet", "none", "open"] | None = None
    allow: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    deny: Annotated[list[Place], Field(max_length=200, default_factory=list)]
    eager: bool = False


class SnapshotForkRequest(ForkRequest):
    """Sessions that are to continue from a snapshot; `rung` as for `restore`."""

    rung: Literal["live", "commands", "files"] | None = None


class RewindRequest(RequestBody):
    """The target of a rewind: a label, an id, or `@-1` for the last snapshot."""

    snapshot: Annotated[str, Field(pattern=r"^(@-\d{1,6}|[A-Za-z0-9][A-Za-z0-9_.-]{0,62})$")]
    keep: Name | None = None
    discard: bool = False
    force: bool = False
    reason: Reason | None = None


class PinRequest(RequestBody):
    """Whether a snapshot is kept until it is removed by hand."""

    pinned: bool


@with_fields_of(Series)
class RetryRequest(RequestBody):
    """A command that is to be run many times, as `Snapshot.retry` takes it; `timeout` in seconds for each."""

    command: Annotated[str, Field(min_length=1, max_length=8 << 20, pattern=TEXT)]
    n: Annotated[int, Field(ge=1, le=MOST)] = 20
    jobs: Annotated[int, Field(ge=1, le=MOST)] = AT_ONCE
    timeout: Seconds | None = None
    name: Name | None = None
