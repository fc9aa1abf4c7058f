"""Verb: serve-captures."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON, SESSION_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import examples, option

if TYPE_CHECKING:
    from holdfast.runtime.api.capture_requests import Served


@examples("serve-captures work")
def serve_captures(
    session: str = SESSION_REF,
    limit: int | None = option(least=1, help="Stop after this many snapshots (default 100)."),
    json: bool = JSON,
) -> None:
    """Take snapshots when programs in a session request them (holdfast-capture), until Ctrl-C."""
    as_json = wants_json(json)

    def report(served: Served) -> None:
        if as_json:
            printing.emit(_row(served))
        else:
            printing.say(_line(served))
        sys.stdout.flush()

    with (
        controller() as holdfast,
        holdfast.session(session).serve_captures(on_captured=report, limit=limit) as serving,
    ):
        printing.note("programs in the session can be captured; Ctrl-C ends it")
        serving.over.wait()
    if serving.error is not None:
        raise serving.error


def _row(served: Served) -> dict[str, Any]:
    return {
        "snapshot": served.snapshot.id if served.snapshot else None,
        "reference": served.reference or None,
        "pid": served.asked.pid,
        "command": served.asked.command,
        "reason": served.asked.reason,
        "failure": served.asked.failure.as_details(),
        "error": {"code": served.error.code, "message": str(served.error)} if served.error else None,
    }


def _line(served: Served) -> str:
    who = f"{served.asked.command} (pid {served.asked.pid})"
    if served.snapshot is None:
        return plain(f"refused {who}: {served.error}", 1000)
    return plain(f"{served.snapshot.name}  {who}: {served.asked.failure.title}", 1000)
