"""Creation of sessions: from options to a usable shell, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import SessionExists
from holdfast.runtime.egress import vault
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.files.session_file import asked
from holdfast.runtime.guest import layout
from holdfast.runtime.guest.defaults import MAIN
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.journal import host_events
from holdfast.runtime.lifecycle import chosen_image, provision
from holdfast.runtime.lifecycle.take_back import take_back_containers
from holdfast.runtime.operations.context import Context
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.sessions import init_program
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store import policy as policies
from holdfast.runtime.store.row_details import SessionDetails
from holdfast.runtime.store.rows import FITTED, OperationKind, SessionRow

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
    chosen = image.options
    if chosen.read_only and image.folders:
        chosen = SessionOptions.parse(
            **chosen.model_dump(mode="json") | {"writable": [*chosen.writable, *image.folders]}
        )
    session_id, fields = ids.new_id(), chosen.model_dump(mode="json")
    details = (details or SessionDetails()).plus(policy=kept.as_dict() or None)

    def plan() -> None:
        provision.register(context.store, name, image.name, fields, session_id=session_id, details=details)

    with carry_out(context, OperationKind.NEW, session_id=session_id, plan=plan) as operation:
        row = context.store.session(session_id)
        folder = provision.prepare_run_dir(context, row)
        init = init_program.obtain(context.engine, context.home, context.progress)
        context.doing(f"creating the container of {row.name}")
        with network.ahead(chosen):
            container = provision.create_container(context.engine, context.home, row, operation.id, init)
            if chosen.workdir is not None or image.name.startswith(FITTED):  # ours have the usual one
                context.engine.files.make_folder(container, chosen.workdir or str(layout.WORKSPACE))
            provision.start(context.engine, container)
        network.close(chosen, container)
        context.doing(f"waiting for the shell of {row.name}")
        greeting = provision.await_guest(context.engine, container, folder)
        if remark := plain(str(greeting.get("shell_remark") or ""), 400):
            context.progress(remark)
        for path in image.folders:
            GuestClient(folder).request("file_folder", payload=asked(path=path), parents=True, user="0")
        if chosen.kernel is not None or chosen.python is not None:  # it may not be there, or not work
            context.doing(f"starting the kernel of {row.name}")
            GuestClient(folder).request("kernel_open", kernel=MAIN, spec=chosen.kernel or layout.DEFAULT_SPEC)
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
