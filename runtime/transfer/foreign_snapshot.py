"""Decides which parts of a foreign snapshot's description to accept: as few as possible; and judges its
processes before its files reach the place of restores.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import ids
from holdfast.base.text import plain
from holdfast.errors import BundleNewer, BundleRefused, InvalidArgument, SnapshotDamaged, SnapshotNewer
from holdfast.runtime.sessions.option_table import TAKEN_OVER
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store.row_details import RecordsEnd, SnapshotDetails
from holdfast.runtime.task import task_form
from holdfast.runtime.verification.gate import ALLOWED
from holdfast.snapshots import failure, record, seccomp_filters, service, snapshot_policy
from holdfast.snapshots.bundle import form
from holdfast.snapshots.link import CheckpointerFailed, LinkLost
from holdfast.snapshots.manifest import Manifest, Processes
from holdfast.snapshots.record import RecordedTree
from holdfast.snapshots.snapshot_policy import Violation

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context


_ID = re.compile(r"[0-9a-f]{12}")
_TOKEN = re.compile(r"[0-9a-f]{16,128}")
_LAST_PID = 1 << 22
MOST_ABOUT = 1 << 17
"""Characters, as JSON, of a session's own details in a snapshot."""
MEMORY_TMPFS = "/dev/shm"  # noqa: S108 - the session's, by its well-known name
"""The only file system in memory that a session has."""


def taken_options(given: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of sessions to be made; `chosen` are the importer's, and apply unchanged.

    Raises:
        InvalidArgument: an option that was chosen is not valid.
        BundleRefused: an option of the bundle is not valid.
    """
    default = SessionOptions()
    kept: dict[str, Any] = {}
    if given.get("network") == "none":
        kept["network"] = "none"
    for key in ("memory", "pids"):
        value = given.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            kept[key] = min(value, getattr(default, key))
    for key in TAKEN_OVER:
        if given.get(key) is not None:
            kept[key] = given[key]
    try:
        denied = SessionOptions.parse(**kept).deny
    except InvalidArgument as error:
        raise BundleRefused(f"cannot import: its options are not valid ({plain(str(error), 200)})") from error
    # What the original may not reach, a copy may not either.
    more = {"deny": [*denied, *(chosen.get("deny") or ())]}
    return SessionOptions.parse(**(kept | dict(chosen) | more)).model_dump(mode="json")


def check_manifest(manifest: Manifest) -> None:
    """Check that the manifest of a foreign snapshot is plausible.

    Raises:
        BundleRefused: it is not.
    """
    if (manifest.kind == "live") != (manifest.processes is not None):
        raise _refused("its processes contradict its kind")
    if not _ID.fullmatch(manifest.id) or not _ID.fullmatch(manifest.session):
        raise _refused("it has an invalid id")
    try:
        ids.check_name(manifest.session_name)
        if manifest.label is not None:
            ids.check_name(manifest.label, "snapshot")
    except InvalidArgument as error:
        raise _refused("it has an impossible name") from error
    if not 0 <= manifest.generation < 1 << 20:
        raise _refused("it has an impossible generation")
    if manifest.processes is not None:
        _check_processes(manifest.processes)


def _check_processes(processes: Processes) -> None:
    if not 1 < processes.root_pid < _LAST_PID or not 1 < processes.last_pid < _LAST_PID:
        raise _refused("it has impossible process ids")
    if not _TOKEN.fullmatch(processes.token):
        raise _refused("it has an impossible token")
    if len(processes.addresses) > 16 or processes.memory_bytes < 0:
        raise _refused("it has impossible addresses or an impossible size")
    for address in processes.addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise _refused("it has invalid addresses") from error


def check_facts(data: bytes) -> None:
    """Check that a session can have these file systems in memory.

    Raises:
        BundleRefused: it cannot.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _refused("its facts are not valid JSON") from error
    if not isinstance(found, dict) or found.get("tmpfs") not in ([], [MEMORY_TMPFS]):
        raise _refused("it has in-memory file systems that no session can have")


def taken_positions(given: Any, first: int, end: int) -> list[int]:
    """Return the positions of layers where those of one container begin: sorted, from `first`, below `end`.

    A bundle that gives others only has its layers merged differently when it leaves again.
    """
    found = given if isinstance(given, list) and len(given) <= end else []
    return sorted({each for each in found if type(each) is int and first <= each < end})


def taken_details(given: Mapping[str, Any]) -> SnapshotDetails:
    """Return the details for the store: the position in the journal, the failure, the task record, the
    earlier machines of its session, and, unread, the session's own details.

    Raises:
        BundleRefused: the record is not valid.
    """
    moment, found = given.get("moment"), failure.of_row(given)
    if isinstance(moment, dict) and _number(moment.get("journal_seq")) and _number(moment.get("at")):
        moment = asdict(RecordsEnd(int(moment["journal_seq"]), float(moment["at"])))
    else:
        moment = None
    failed = found.as_details() if found else None
    chain = Tenures.parse(given.get("tenures")).kept() or None
    about = given.get("about")
    taken = about if isinstance(about, dict) and len(json.dumps(about)) <= MOST_ABOUT else None
    return SnapshotDetails.of(moment=moment, failure=failed, task=_task(given.get("task"))).plus(
        tenures=chain, about=taken
    )


def _task(given: Any) -> dict[str, Any] | None:
    try:
        return None if given is None else task_form.dump(task_form.load(given))
    except InvalidArgument as error:
        why = str(error).removeprefix("cannot read the task record: ")
        raise BundleRefused(f"cannot import: its task record: {plain(why, 200)}", hint=error.hint) from error


def origin_of(name: str, index: bytes, key: str | None, manifest: Manifest) -> dict[str, Any]:
    """Return the record of a snapshot's origin."""
    return {
        "from": plain(name, 500),
        "digest": form.described("", index).digest,
        "key": key,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "snapshot": manifest.id,
        "session": manifest.session,
        "session_name": manifest.session_name,
        "created_at": manifest.created_at.isoformat(),
    }


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**53


def _refused(why: str) -> BundleRefused:
    return BundleRefused(f"cannot import: {why}", hint="it is forged, or a newer version made it")


def judge_processes(context: Context, staging: Path, manifest: Manifest) -> None:
    """Judge the images below a folder of `staging/`.

    Raises:
        BundleNewer: a newer version recorded their processes.
        BundleRefused: they give processes more than a session's rights, or do not match the bundle's record.
    """
    try:
        with service.ask(
            context.engine, context.home, context.progress, "describe", folder=staging.name
        ) as link:
            answer: dict[str, Any] = link.until("done")
        tree = RecordedTree.model_validate(answer["tree"])
        answer["strange"] = list(answer["strange"])
        filters = {str(name): base64.b64decode(text) for name, text in dict(answer["filters"]).items()}
    except (CheckpointerFailed, LinkLost, KeyError, ValueError, TypeError) as error:
        raise BundleRefused(
            f"cannot import: its process images cannot be read ({plain(str(error), 200)})",
            hint="they are damaged or forged, or a newer version made them",
        ) from error
    assert manifest.processes is not None
    weak = _weak(tree, filters, manifest.processes.machine)
    found = [*snapshot_policy.judge(tree, ALLOWED), *snapshot_policy.strange(answer["strange"]), *weak]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise BundleRefused(
            f"cannot import: {plain(str(found[0]), 300)}{more}",
            hint="no session can have made it; nothing was run",
        )
    _check_record(staging, tree, manifest)


def _weak(tree: RecordedTree, programs: Mapping[str, bytes], machine: str) -> list[Violation]:
    """Return processes whose oldest filter, the container's own, permits calls forbidden to sessions."""
    used: dict[str, tuple[int, str]] = {}
    for process in tree.processes:
        for thread in process.threads:
            if thread.filter_digests:
                used.setdefault(thread.filter_digests[0], (process.pid, process.name))
    return [Violation(*used[digest], text) for digest, text in seccomp_filters.weak(programs, used, machine)]


def _check_record(staging: Path, tree: RecordedTree, manifest: Manifest) -> None:
    """Check that manifest and record describe these images."""
    assert manifest.processes is not None
    if manifest.processes.root_pid not in {process.pid for process in tree.processes}:
        raise BundleRefused("cannot import: its manifest names a root that is not among its processes")
    try:
        known = record.read(staging)
    except SnapshotNewer as error:
        raise BundleNewer(f"cannot import: {str(error).partition(': ')[2]}", hint=error.hint) from error
    except SnapshotDamaged as error:
        raise BundleRefused("cannot import: its record cannot be read") from error
    if known is None:
        raise BundleRefused("cannot import: the record of its processes is missing")
    if _names(known.tree) != _names(tree):
        raise BundleRefused("cannot import: its record describes different processes than its images")


def _names(tree: RecordedTree) -> set[tuple[int, int, str, str]]:
    return {(one.pid, one.ppid, one.state, one.name) for one in tree.processes}
