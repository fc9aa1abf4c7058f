"""The ladder of one snapshot on this machine, and what is restored by a rung of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.runtime.restore.compat import command_history, probe_host
from holdfast.runtime.restore.compat import command_script as script
from holdfast.runtime.restore.compat.choose_rung import choose_rung
from holdfast.snapshots import manifest
from holdfast.snapshots.fitness import Ladder, Name, compare
from holdfast.snapshots.manifest import Manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rung that is taken: what is restored by it, and the script that goes with it, if one does."""

    rung: Name
    kept: Manifest
    script: str | None = None


def ladder(context: Context, snapshot: SnapshotRow) -> Ladder:
    """What can be done with a snapshot here.

    Raises:
        SnapshotDamaged: its manifest cannot be read.
        EngineUnavailable: no engine answers.
    """
    needs = manifest.read(context.home.snapshots / snapshot.id).all_needs()
    commands = len(command_history.recorded(context, snapshot))
    return compare(needs, probe_host.look(context, live=needs.live), commands=commands)


def choose(context: Context, snapshot: SnapshotRow, kept: Manifest, rung: Name | None) -> Chosen:
    """Take a rung: the one asked for, else all that was kept.

    Raises:
        LiveUnsupported: it is not possible here; `findings` are the reasons.
        EngineUnavailable: no engine answers.
    """
    needs = kept.all_needs()
    wanted: Name = rung or ("live" if needs.live else "files")
    commands = command_history.recorded(context, snapshot) if wanted == "commands" else None
    here = probe_host.look(context, live=wanted == "live")
    found = compare(needs, here, commands=None if commands is None else len(commands))
    choose_rung(found, wanted, None, verb="restore", source=snapshot.name)
    if wanted == "live":
        return Chosen(wanted, kept)
    files = [entry for entry in kept.files if not entry.name.startswith("images/")]
    without = kept.model_copy(update={"processes": None, "files": files})
    return Chosen(wanted, without, script.script(commands, snapshot.name) if commands else None)
