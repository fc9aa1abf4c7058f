"""A supervisor's report of a shell: its state, its holder, and its bash's reading of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from holdfast.errors import ShellNotFound
from holdfast.runtime.guest_rpc import call_arguments, wire_fields
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.guest_rpc.guest_value import (
    Count,
    GuestValue,
    Observed,
    Positive,
    Seconds,
    listed,
    shown,
)
from holdfast.runtime.guest_rpc.shell_calls import MAX_PATH, MAX_SIDE

Actor = Annotated[str, shown(100)]
Side = Annotated[Positive, AfterValidator(lambda side: min(side, MAX_SIDE))]


class Attached(GuestValue):
    """A terminal that is attached to a shell; `writes`: its input is passed on."""

    actor: Actor
    rows: Positive
    cols: Positive
    writes: bool = False


class Lease(GuestValue):
    """The right to type into a shell: its `holder`, or any actor if there is none.

    `since`, `active` (when the holder last typed or ran something) and `until` (when it ends, unless a
    terminal keeps it) are in Unix seconds.
    """

    holder: Actor | None = None
    since: Seconds | None = None
    active: Seconds | None = None
    until: Seconds | None = None
    attached: Annotated[tuple[Attached, ...], listed(1000)] = ()


class ShellInfo(GuestValue):
    """A shell as the supervisor reports it.

    `command_id` is the id of the command `exec` runs in it now; `observed` is the activity of the shell, or
    of the process that has its terminal; `cwd` is its directory.
    """

    name: Annotated[str, shown(100)]
    pid: Count
    rows: Side
    cols: Side
    offset: Count
    state: Annotated[str, shown(40)] = ""
    command_id: Annotated[str, shown(200)] | None = Field(None, alias="exec")
    observed: Observed | None = None
    lease: Lease | None = None
    cwd: Annotated[str, shown(MAX_PATH)] = ""

    @property
    def holder(self) -> str | None:
        """The actor that holds it, if any."""
        return self.lease.holder if self.lease else None


class SyntaxCheck(GuestValue):
    """The verdict of the session's bash on a text that it did not run.

    `message` is empty if the text is complete and correct. `incomplete` if more text could make it so: a
    quote, a block or a here-document is open. `line` counts from 1.
    """

    message: Annotated[str, shown(400)] = ""
    line: Positive | None = None
    incomplete: bool = False

    @property
    def ok(self) -> bool:
        """True if bash would run all of it."""
        return not self.message

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for programs."""
        return {"ok": self.ok, **self.model_dump()}


class Shells(GuestValue):
    """The shells of a session."""

    shells: Annotated[tuple[ShellInfo, ...], listed(1000)]


def reported(report: Mapping[str, Any]) -> ShellInfo:
    """Read the description of one shell."""
    return ShellInfo.of(wire_fields.table(report.get("shell"), "a shell"))


def shell_info(client: GuestClient, shell: str) -> ShellInfo:
    """Return a shell as the supervisor reports it.

    Raises:
        ShellNotFound: the session does not have a shell with that name.
    """
    for one in Shells.of(client.request("hello").head).shells:
        if one.name == shell:
            return one
    raise ShellNotFound(
        f"cannot find shell '{call_arguments.text(shell, 'shell')}': the session does not have a "
        "shell with that name"
    )


def lease(report: Mapping[str, Any]) -> Lease:
    """Read the lease and the attached terminals."""
    held = report.get("lease")
    free = {} if held is None else wire_fields.table(held, "a lease")
    return Lease.of({**free, "attached": report.get("attached", [])})


def check_syntax(client: GuestClient, text: str, shell: str) -> SyntaxCheck:
    """Return the verdict of a shell's bash on a text; raises as `call_arguments.command` does."""
    payload = call_arguments.command(text)
    return SyntaxCheck.of(client.request("check_syntax", payload=payload, shell=shell).head)
