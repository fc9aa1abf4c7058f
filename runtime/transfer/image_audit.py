"""Judges the processes of a foreign snapshot before any of its files is where restores look.

What counts are CRIU's images, not the bundle's description of them: the checkpointer decodes them here, and
the bundle's record must describe the same processes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import BundleNewer, BundleRefused, SnapshotDamaged, SnapshotNewer
from holdfast.runtime.verification.gate import ALLOWED
from holdfast.snapshots import record, seccomp_filters, service, snapshot_policy
from holdfast.snapshots.link import CheckpointerFailed, LinkLost
from holdfast.snapshots.record import RecordedTree
from holdfast.snapshots.snapshot_policy import Violation

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.snapshots.manifest import Manifest


def judge(context: Context, staging: Path, kept: Manifest) -> None:
    """Judge the images below a folder of `staging/`.

    Raises:
        BundleNewer: a newer version recorded their processes.
        BundleRefused: they give processes more than a session may have, or do not match the bundle's
            record.
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
    assert kept.processes is not None
    weak = _weak(tree, filters, kept.processes.machine)
    found = [*snapshot_policy.judge(tree, ALLOWED), *snapshot_policy.strange(answer["strange"]), *weak]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise BundleRefused(
            f"cannot import: {plain(str(found[0]), 300)}{more}",
            hint="no session can have made it; nothing of it was run",
        )
    _check_record(staging, tree, kept)


def _weak(tree: RecordedTree, programs: Mapping[str, bytes], machine: str) -> list[Violation]:
    """Return processes whose oldest filter, the container's own, permits what no session may do."""
    used: dict[str, tuple[int, str]] = {}
    for process in tree.processes:
        for thread in process.threads:
            if thread.filter_digests:
                used.setdefault(thread.filter_digests[0], (process.pid, process.name))
    return [Violation(*used[digest], text) for digest, text in seccomp_filters.weak(programs, used, machine)]


def _check_record(staging: Path, tree: RecordedTree, kept: Manifest) -> None:
    """Check that manifest and record describe these images."""
    assert kept.processes is not None
    if kept.processes.root_pid not in {process.pid for process in tree.processes}:
        raise BundleRefused("cannot import: its manifest names a root that is not among its processes")
    try:
        known = record.read(staging)
    except SnapshotNewer as error:
        raise BundleNewer(f"cannot import: {str(error).partition(': ')[2]}", hint=error.hint) from error
    except SnapshotDamaged as error:
        raise BundleRefused("cannot import: its record cannot be read") from error
    if known is None:
        raise BundleRefused("cannot import: it brings no record of its processes")
    if _names(known.tree) != _names(tree):
        raise BundleRefused("cannot import: its record is of other processes than its images")


def _names(tree: RecordedTree) -> set[tuple[int, int, str, str]]:
    return {(one.pid, one.ppid, one.state, one.name) for one in tree.processes}
