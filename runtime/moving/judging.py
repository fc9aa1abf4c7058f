"""Has the processes of a foreign snapshot judged, before any of its files is where restores look.

What counts is what CRIU's images say, not what the bundle says of them: they are decoded here, by the
checkpointer, and its record must tell of the same processes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from holdfast.errors import BundleRefused, SnapshotDamaged
from holdfast.runtime.text import plain
from holdfast.runtime.verification.gate import ALLOWED
from holdfast.snapshots import policy, record, service
from holdfast.snapshots.link import LinkLost, Refused
from holdfast.snapshots.record import Tree

if TYPE_CHECKING:
    from holdfast.runtime.controller import Holdfast
    from holdfast.snapshots.manifest import Manifest


def judge(controller: Holdfast, staging: Path, kept: Manifest) -> None:
    """Look at the images below a folder of `staging/`.

    Raises:
        BundleRefused: they give processes more than a session may have, or are not what the bundle says.
    """
    try:
        with service.ask(
            controller.engine, controller.home, controller.progress, "describe", folder=staging.name
        ) as link:
            told: dict[str, Any] = link.until("done")
        tree = Tree.model_validate(told["tree"])
        told["strange"] = list(told["strange"])
    except (Refused, LinkLost, ValidationError, KeyError) as error:
        raise BundleRefused(
            f"cannot import: its process images cannot be read ({plain(str(error), 200)})",
            hint="they are damaged or forged, or a newer version made them",
        ) from error
    found = [*policy.judge(tree, ALLOWED), *policy.strange(told["strange"])]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise BundleRefused(
            f"cannot import: {plain(str(found[0]), 300)}{more}",
            hint="no session can have made it; nothing of it was run",
        )
    _check_told(staging, tree, kept)


def _check_told(staging: Path, tree: Tree, kept: Manifest) -> None:
    """See that manifest and record are of these images."""
    assert kept.processes is not None
    if kept.processes.root_pid not in {process.pid for process in tree.processes}:
        raise BundleRefused("cannot import: its manifest names a root that is not among its processes")
    try:
        known = record.read(staging)
    except SnapshotDamaged as error:
        raise BundleRefused("cannot import: its record cannot be read") from error
    if known is None:
        raise BundleRefused("cannot import: it brings no record of its processes")
    if _names(known.tree) != _names(tree):
        raise BundleRefused("cannot import: its record is of other processes than its images")


def _names(tree: Tree) -> set[tuple[int, int, str, str]]:
    return {(one.pid, one.ppid, one.state, one.name) for one in tree.processes}
