"""Makes the record of a capture, once the session runs on: processes, open files, names of kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from holdfast.errors import CaptureFailed
from holdfast.runtime.drift.holdings import Holdings
from holdfast.runtime.guest import layout
from holdfast.runtime.session_options import SessionOptions
from holdfast.runtime.verification import contents, kernels
from holdfast.snapshots import record, service
from holdfast.snapshots.link import LinkLost, Refused
from holdfast.snapshots.record import Record, Tree

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.runtime.store.rows import SessionRow

# What the engine puts over the image for each container.
_NOT_IN_IMAGE = ("/proc", "/sys", "/dev", "/run/secrets", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")


def remember(
    controller: Holdfast, session: SessionRow, staging: Path, image: str, held: Holdings | None
) -> None:
    """Write `record.json.gz` into the folder of a capture; `held` is what the session said before.

    Raises:
        CaptureFailed: the images cannot be read.
        OSError: the file cannot be written.
    """
    try:
        with service.ask(
            controller.engine, controller.home, controller.progress, "describe", folder=staging.name
        ) as link:
            tree = Tree.model_validate(link.until("done")["tree"])
    except (Refused, LinkLost, ValidationError) as error:
        raise CaptureFailed(
            f"cannot snapshot session {session.name}: its process images cannot be read ({_why(error)})",
            hint="the session runs on; try again",
        ) from error
    paths = [
        one.what
        for process in tree.processes
        for one in process.descriptors
        if one.kind == "file" and not one.deleted and one.what.startswith("/")
    ]
    mounts = [mount.target for mount in SessionOptions.parse(**session.options).mounts]
    elsewhere = (*_NOT_IN_IMAGE, str(layout.RUN_DIR), *mounts)
    files = contents.digests(paths, controller.engine.images.layers(image), elsewhere)
    record.write(staging, Record(tree=tree, files=files, kernels=kernels.told(held)))


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)
