"""The warm start of a session: the state of a fresh session of its image and options with a ready kernel.

The template is made at the first use, and again after the image or the machine's kernel has changed. Owns
its availability and its name; `template_start` starts a session from it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from blake3 import blake3

from holdfast.base import ids, locks
from holdfast.errors import InvalidArgument, SnapshotInUse
from holdfast.images import build
from holdfast.runtime.lifecycle import chosen_image
from holdfast.runtime.restore import template_start
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.storage import snapshot_storage

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow

PREFIX = "warm-"
_LETTERS = 6


def start(
    context: Context,
    name: str | None,
    policy: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    new: Callable[..., Session],
) -> SessionRow:
    """Start a session from the warm template of its options, made first if missing.

    Args:
        context: the context of the call.
        name: of the session; by default one is generated.
        policy: when it is captured automatically, as for `Session.policy`.
        options: as for `Holdfast.new`.
        new: starts a session cold, for the template.

    Raises:
        InvalidArgument: the options are not valid, or need the gateway.
        LiveUnsupported, CaptureFailed: live snapshots of such a session are not possible here.
        SessionExists, EngineError, ImageError, SessionError, SnapshotDamaged, RestoreFailed: as for `new`.
    """
    if options.get("secrets") or options.get("domains") or options.get("network") == "domains":
        raise InvalidArgument(
            "cannot start warm with secrets or domains: such a session needs a gateway from the start",
            hint="leave out --warm",
        )
    if name is not None:
        ids.check_name(name)
    given = {key: value for key, value in options.items() if value is not None}
    chosen = SessionOptions.parse(**given)
    late = {key: given[key] for key in template_start.CHOSEN if key in given}
    early = {key: value for key, value in given.items() if key not in late}
    image = chosen_image.choose(context, chosen).name
    fields = chosen.model_dump(mode="json", exclude={*template_start.CHOSEN, "secrets"})
    parts = (context.engine.images.id(image), build.reference("toolbox"), os.uname().release)
    series = f"{PREFIX}{_short(fields)}-"
    label = series + _short(parts)
    with locks.whole_file(context.home.root / "warm.lock"):
        if not _is_there(context, label):
            _make(context, label, partial(new, **early))
            _forget_others(context, series, label)
    return template_start.start(context, label, name, policy, **late)


def _short(value: object) -> str:
    return blake3(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_LETTERS]


def _is_there(context: Context, label: str) -> bool:
    return any(row.label == label and row.state == "ready" for row in context.store.snapshots())


def _make(context: Context, label: str, new: Callable[..., Session]) -> None:
    context.progress("making the template for warm starts with this image and these options")
    with new(f"{label}-{ids.new_id()[:_LETTERS]}", remove=True) as fresh:
        fresh.cell("", reason="wait for the kernel")
        fresh.template(label, reason="for warm starts")


def _forget_others(context: Context, series: str, label: str) -> None:
    """Remove templates of the same options that belong to an older image or a different kernel."""
    for row in context.store.snapshots():
        if (row.label or "").startswith(series) and row.label != label and row.details.template:
            with suppress(SnapshotInUse):  # a session is being restored from it
                snapshot_storage.remove_snapshot(context, row)
