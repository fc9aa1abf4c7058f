"""Brings a new session up, from its row to a shell that can be used: for its caller, or for the pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base.text import plain
from holdfast.runtime.files.session_file import asked
from holdfast.runtime.guest import layout
from holdfast.runtime.guest.defaults import MAIN
from holdfast.runtime.guest_rpc.guest_client import GuestClient
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.sessions import init_program
from holdfast.runtime.store.rows import FITTED

if TYPE_CHECKING:
    from holdfast.runtime.egress.close_network import Closing
    from holdfast.runtime.lifecycle.chosen_image import ChosenImage
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


def bring_up(
    context: Context,
    row: SessionRow,
    operation_id: str,
    image: ChosenImage,
    network: Closing,
    waits: str = "",
) -> str:
    """Return the container of a session that is ready; `waits` as for `provision.create_container`.

    Raises:
        EngineError, ImageError, SessionError, InvalidArgument: it cannot be made.
    """
    options, engine = image.options, context.engine
    folder = provision.prepare_run_dir(context, row)
    init = init_program.obtain(engine, context.home, context.progress)
    context.doing(f"creating the container of {row.name}")
    with network.ahead(options):
        container = provision.create_container(engine, context.home, row, operation_id, init, waits=waits)
        if options.workdir is not None or image.name.startswith(FITTED):  # ours have the usual one
            engine.files.make_folder(container, options.workdir or str(layout.WORKSPACE))
        provision.start(engine, container)
    network.close(options, container)
    context.doing(f"waiting for the shell of {row.name}")
    greeting = provision.await_guest(engine, container, folder)
    if remark := plain(str(greeting.get("shell_remark") or ""), 400):
        context.progress(remark)
    for path in image.folders:
        GuestClient(folder).request("file_folder", payload=asked(path=path), parents=True, user="0")
    chosen = options.kernel is not None or options.python is not None  # it may not be there, or not work
    if chosen or waits == "kernel":
        context.doing(f"starting the kernel of {row.name}")
        GuestClient(folder).request("kernel_open", kernel=MAIN, spec=options.kernel or layout.DEFAULT_SPEC)
    return container
