"""The start of a new session from a template, or from any other snapshot, with options of its own.

Its programs run already: options that only apply when programs start cannot be chosen any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidArgument
from holdfast.runtime.operations.context import Context
from holdfast.runtime.restore import restore_service
from holdfast.runtime.store import policy as policies
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import SessionRow
from holdfast.snapshots import manifest

LIMITS = ("memory", "cpus", "pids")
CHOSEN = ("network", "allow", "deny", *LIMITS)
"""The options that a session from a template can have of its own."""


def start(
    context: Context,
    template: str,
    name: str | None = None,
    policy: Mapping[str, Any] | None = None,
    details: SessionDetails | None = None,
    rules: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None,
    **options: Any,
) -> SessionRow:
    """Start a session from a template, and wait until it answers.

    Args:
        context: the context of the call.
        template: its name; or the label or id of another snapshot.
        name: of the session; by default one is generated.
        policy: when the session is captured automatically, as for `Session.policy`.
        details: what it has from the start.
        rules: returns, from the options of the captured session, some that replace these.
        options: `network`, `allow` and `deny` as for a restore, `memory`, `cpus` and `pids` as for a new
            session; by default the captured session's. Others must be None or empty.

    Raises:
        InvalidArgument: an option cannot be chosen, or is not valid.
        SnapshotNotFound: there is no such template.
        LiveUnsupported, SessionExists, SnapshotDamaged, RestoreFailed: nothing is left of the session.
    """
    given = {key: value for key, value in options.items() if value}
    if late := sorted(set(given) - set(CHOSEN)):
        raise InvalidArgument(
            f"cannot choose '{late[0]}' for a session from a template: its programs run already",
            hint=f"{', '.join(CHOSEN)} and policy can be chosen; for other options, make a new template",
        )
    snapshot = context.store.snapshot(template)
    limits = {key: given[key] for key in LIMITS if key in given}
    if rules is not None:
        limits |= rules(manifest.read(context.home.snapshots / snapshot.id).options)
    details = (details or SessionDetails()).plus(policy=policies.parse(policy or {}).as_dict() or None)
    return restore_service.restore(
        context,
        snapshot,
        name,
        1,
        network=given.get("network"),
        allow=given.get("allow", ()),
        deny=given.get("deny", ()),
        details=details,
        limits=limits,
        on_touch=True,
    )[0]
