"""The record of a capture: the contents of its folder besides the session's memory and files.

It has the processes, verified by the rules of a restore, the contents of their open files at the freeze, the
names of kernels, the requirements of the snapshot, and the supervisor's counters. A session that continues
already runs when this is written; one that is suspended ends only afterwards.

The contents are read from the layers of the snapshot's image, as root on this host (overlay2), or from the
copies that an image is still to be made of. The layers
were under the session's control: no link in them is followed. Reading is bounded, and skipped files are
reported.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, ValidationError

from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.engine.engine import Engine
from holdfast.errors import CaptureFailed, LiveUnsupported, ProtocolError
from holdfast.runtime.guest import layout
from holdfast.runtime.guest.wire.protocol import Frame
from holdfast.runtime.guest_rpc import wire_fields
from holdfast.runtime.guest_rpc.guest_value import Count, GuestValue, Seconds, shown
from holdfast.runtime.guest_rpc.wire_fields import GREATEST
from holdfast.runtime.history.drift.holdings import Holdings
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.runtime.verification import kernel_check
from holdfast.runtime.verification.gate import ALLOWED
from holdfast.snapshots import record, service, snapshot_policy
from holdfast.snapshots.checkpointer.ground import beneath
from holdfast.snapshots.checkpointer.record.judged_limits import MAX_FILES
from holdfast.snapshots.fitness import Needs
from holdfast.snapshots.layer.archive import CopiedFiles
from holdfast.snapshots.link import CheckpointerFailed, LinkLost, Target
from holdfast.snapshots.machine import MachineFeatures
from holdfast.snapshots.record import RecordedFile, RecordedTree, StateRecord
from holdfast.snapshots.snapshot_policy import Violation

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SessionRow


# Files that the engine mounts over the image in each container.
_NOT_IN_IMAGE = ("/proc", "/sys", "/dev", "/run/secrets", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
# Images of CRIU that exist only if processes use features that not every kernel has.
_USES = {"timens-*.img": "time_namespace", "seccomp.img": "seccomp"}
_TOKEN = re.compile(r"[0-9a-f]{32}")
MAX_FILE = 2 << 20
MAX_TOTAL = 8 << 20
"""The most bytes read: a restore reads as much again while the session is frozen, about 10 ms."""


def tree(context: Context, session: SessionRow, staging: Path, still: Target | None) -> RecordedTree:
    """Return the processes in the folder of a capture, if they can be restored.

    `still` is the session, if it stays frozen during this.

    Raises:
        LiveUnsupported: a restore would refuse the capture.
        CaptureFailed: the process images cannot be read.
    """
    try:
        with service.ask(
            context.engine,
            context.home,
            context.progress,
            "describe",
            folder=staging.name,
            ours=True,
            **(still.fields() if still is not None else {}),
        ) as link:
            answer = link.until("done")
        found = RecordedTree.model_validate(answer["tree"])
        _judge(session, [*snapshot_policy.judge(found, ALLOWED), *snapshot_policy.strange(answer["strange"])])
    except (CheckpointerFailed, LinkLost, ValidationError) as error:
        raise CaptureFailed(
            f"cannot snapshot session {session.name}: its process images cannot be read ({_why(error)})",
            hint="the session continues; try again",
        ) from error
    return found


def remember(
    session: SessionRow,
    staging: Path,
    tree: RecordedTree,
    layers: Iterable[Path | CopiedFiles],
    held: Holdings | None,
) -> None:
    """Write `record.json.gz` into the folder of a capture.

    Args:
        session: the session that was captured.
        staging: the folder.
        tree: its processes.
        layers: its image's layers, the topmost first, as folders or copies; none if unknown.
        held: what the session reported before.

    Raises:
        LiveUnsupported: a restore would refuse a record of this size.
        OSError: the file cannot be written.
    """
    paths = [
        one.what
        for process in tree.processes
        for one in process.descriptors
        if one.kind == "file" and not one.deleted and one.what.startswith("/")
    ]
    mounts = [mount.target for mount in SessionOptions.parse(**session.options).mounts]
    elsewhere = (*_NOT_IN_IMAGE, str(layout.RUN_DIR), *mounts)
    files = digests(paths, layers, elsewhere)
    try:
        record.write(staging, StateRecord(tree=tree, files=files, kernels=kernel_check.kernel_records(held)))
    except record.RecordTooLarge as error:
        raise _unrestorable(session, str(error)) from error


def _judge(session: SessionRow, violations: list[Violation]) -> None:
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise _unrestorable(session, f"{violations[0]}{more}")


def _unrestorable(session: SessionRow, why: str) -> LiveUnsupported:
    return LiveUnsupported(
        f"cannot take a live snapshot of session {session.name}: it could not be restored: {plain(why, 300)}",
        hint="the session continues, no snapshot was kept; `--kind filesystem` keeps its files only",
    )


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error)


def digests(
    paths: Iterable[str], layers: Iterable[Path | CopiedFiles], elsewhere: Iterable[str]
) -> list[RecordedFile]:
    """Return the digest of each path, or why it has none.

    Args:
        paths: absolute paths in the session, without links.
        layers: the image's layers, the topmost first, as folders or copies; none if unknown. Iterated for
            each path.
        elsewhere: folders of the session that are not in the image.
    """
    places = tuple(place.rstrip("/") for place in elsewhere)
    room = MAX_TOTAL
    found: list[RecordedFile] = []
    for path in sorted(set(paths))[:MAX_FILES]:
        if any(path == place or path.startswith(f"{place}/") for place in places):
            found.append(RecordedFile(path=path, skipped="it is not in the snapshot's image"))
            continue
        one = _digest(path, layers, min(MAX_FILE, room))
        if one.digest:
            room -= one.size
        found.append(one)
    return found


def _digest(path: str, layers: Iterable[Path | CopiedFiles], room: int) -> RecordedFile:
    for layer in layers:
        try:
            if isinstance(layer, CopiedFiles):
                size, data = layer.digest(path, room)
            else:
                size, data = beneath.digest(layer, path, room)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except beneath.FileTooLarge as error:
            return RecordedFile(path=path, size=error.size, skipped="it is too large")
        except OSError as error:
            return RecordedFile(path=path, skipped=f"it cannot be read ({error.strerror or error})")
        return RecordedFile(path=path, size=size, digest=data)
    return RecordedFile(path=path, skipped="it is not in a layer that can be read here")


def requirements_of(engine: Engine, about: Mapping[str, Any] | None, staged: Path) -> Needs:
    """Return the requirements of the snapshot in the folder `staged`.

    Args:
        engine: the engine that runs the session.
        about: what the checkpointer reported of the machine; None for a snapshot of files.
        staged: the folder with the snapshot's parts.
    """
    return Needs(
        live=about is not None,
        machine=machine_features(about or {}),
        uses=[] if about is None else sorted(name for form, name in _USES.items() if _any(staged, form)),
        engine=engine.title,
        holdfast=VERSION,
    )


def machine_features(about: Mapping[str, Any]) -> MachineFeatures:
    """Return the machine of this process, with the valid part of the checkpointer's report."""
    known = {"arch": platform.machine(), "kernel": platform.release()}
    try:
        return MachineFeatures.model_validate({**known, **about})
    except ValidationError:
        return MachineFeatures.model_validate(known)


def _any(staged: Path, form: str) -> bool:
    return next(staged.glob(f"images/{form}"), None) is not None


class Records(GuestValue):
    """The end of the journal, and of the output of each shell."""

    journal_seq: Count
    at: Seconds = 0.0
    offsets: Annotated[dict[Annotated[str, shown(100)], Count], Field(max_length=1000)]


class SupervisorCounters(Records):
    """The same, with the number of requests to the supervisor since it began."""

    requests: Count
    supervisor_pid: Annotated[int, Field(ge=2, le=GREATEST)]


def root_of(frame: Frame) -> int:
    """Return the inner pid of the root of a session's tree: the keeper, or an older supervisor itself."""
    key = "root_pid" if "root_pid" in frame.head else "supervisor_pid"
    return wire_fields.integer(frame, key, least=2)


def token_of(frame: Frame) -> str:
    """Return the token that ends a pause; it becomes part of a file name."""
    token = wire_fields.text(frame, "token")
    if not _TOKEN.fullmatch(token):
        raise ProtocolError("cannot understand the session: its token is not valid")
    return token


def moment_of(frame: Frame) -> SnapshotDetails:
    """Return where the session's journal and the output of each shell ended, for a snapshot's details.

    Empty if the session is of an older version.

    Raises:
        ProtocolError: the reply is not valid.
    """
    if "journal_seq" not in frame.head:
        return SnapshotDetails()
    return SnapshotDetails.of(moment=Records.of(frame.head).model_dump())
