"""Creation of sessions: from options to a usable shell, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.base import ids
from holdfast.errors import SessionExists
from holdfast.runtime.egress import vault
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import bring_up, chosen_image, pool_plan, provision
from holdfast.runtime.lifecycle.chosen_image import ChosenImage
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store import policy as policies
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import OperationKind, SessionRow

undoes(OperationKind.NEW)(take_back_containers)


def create(
    context: Context,
    name: str | None = None,
    policy: Mapping[str, Any] | None = None,
    details: SessionDetails | None = None,
    **options: Any,
) -> SessionRow:
    """Create a session and wait until its shell can be used.

    Args:
        context: the context of the call.
        name: must be free; by default one is generated.
        policy: when the session is captured automatically, as for `Session.policy`.
        details: its initial details.
        options: as in `SessionOptions`; `secrets` are texts `NAME@HOST=SOURCE`.

    Raises:
        InvalidArgument, SessionExists: the options are not valid, or the name is taken.
        EngineError, ImageError, SessionError: the session could not be created; nothing is left of it.
    """
    given = options.pop("secrets", None) or ()
    if name is not None:
        ids.check_name(name)
    chosen, kept = SessionOptions.parse(**options), policies.parse(policy or {})
    if name is not None and context.store.session_named(name) is not None:
        raise SessionExists(
            f"cannot name session '{name}': the name is taken",
            hint=f"choose a different name, or `holdfast rm {name}`",
        )
    network = Closing(context.engine, context.home, context.progress)
    network.check_names(chosen)
    if given:
        chosen = _with_secrets(context, chosen, given)
    image = chosen_image.choose(context, chosen)
    details = (details or SessionDetails()).plus(policy=kept.as_dict() or None)
    if not pool_plan.read(context.home).size:
        return _made(context, name, image, details, network)
    from holdfast.runtime.lifecycle import pool_filler, waiting_session  # most homes do not have a pool

    try:
        handed, why = waiting_session.hand_over(context, name, image, details)
        if handed is not None:
            return handed
        return _made(context, name, image, details.plus(pool={"used": False, "why": why}), network)
    finally:
        pool_filler.start(context.home)


def _made(
    context: Context, name: str | None, image: ChosenImage, details: SessionDetails, network: Closing
) -> SessionRow:
    session_id, fields = ids.new_id(), image.options.model_dump(mode="json")

    def plan() -> None:
        provision.register(context.store, name, image.name, fields, session_id=session_id, details=details)

    with carry_out(context, OperationKind.NEW, session_id=session_id, plan=plan) as operation:
        row = context.store.session(session_id)
        container = bring_up.bring_up(context, row, operation.id, image, network)
        made = {"state": "running", "container_id": container}
        context.store.operations.complete(operation.id, sessions={row.id: made})
    with host_events.at_once(context):
        host_events.note(context, row.id, "created", name=row.name, image=row.image)
    return context.session_row(row.id)


def _with_secrets(context: Context, options: SessionOptions, given: Sequence[str]) -> SessionOptions:
    """Store the values of secrets on this host; the session gets placeholders."""
    kept = [vault.parse(text) for text in given]
    fields = options.model_dump(mode="json") | {"secrets": [one.option() for one in kept]}
    chosen = SessionOptions.parse(**fields)
    vault.keep(context.home, kept)
    return chosen
