"""The ladder of one snapshot on this machine, and the refusal of what is not on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base.suggestion import command
from holdfast.errors import LiveUnsupported
from holdfast.runtime.restore.compat import command_history, probe_host
from holdfast.runtime.restore.compat import command_script as script
from holdfast.snapshots import manifest
from holdfast.snapshots.fitness import Ladder, Name, Needs, compare
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
    needs = Needs.of_manifest(manifest.read(context.home.snapshots / snapshot.id))
    commands = len(command_history.recorded(context, snapshot))
    return compare(needs, probe_host.look(context, live=needs.live), commands=commands)


def choose(context: Context, snapshot: SnapshotRow, kept: Manifest, rung: Name | None) -> Chosen:
    """Take a rung: the one asked for, else all that was kept.

    Raises:
        LiveUnsupported: it is not possible here; `findings` are the reasons.
        EngineUnavailable: no engine answers.
    """
    needs = Needs.of_manifest(kept)
    wanted: Name = rung or ("live" if needs.live else "files")
    commands = command_history.recorded(context, snapshot) if wanted == "commands" else None
    here = probe_host.look(context, live=wanted == "live")
    found = compare(needs, here, commands=None if commands is None else len(commands))
    if not found.rung(wanted).possible:
        raise refusal(snapshot.name, found, wanted)
    if wanted == "live":
        return Chosen(wanted, kept)
    files = [entry for entry in kept.files if not entry.name.startswith("images/")]
    without = kept.model_copy(update={"processes": None, "files": files})
    return Chosen(wanted, without, script.script(commands, snapshot.name) if commands else None)


def refusal(name: str, found: Ladder, wanted: Name) -> LiveUnsupported:
    """Why a rung cannot be taken, and which can."""
    reasons = found.rung(wanted).reasons
    lower = next((rung for rung in found.rungs if rung.possible), None)
    hint = "nothing of it can be had on this machine"
    if lower is not None:
        lost = ", ".join(lower.lost)
        instead = command("restore", name, "--as", lower.name) or f"--as {lower.name}"
        hint = f"`{instead}` is possible; without {lost}"
    return LiveUnsupported(
        f"cannot restore {name}{'' if wanted == 'live' else f' as {wanted}'}: {'; '.join(reasons)}",
        hint=hint,
        findings=tuple({"rung": wanted, "reason": reason} for reason in reasons),
    )
