"""The ladder of one snapshot on this machine: the possible rungs, the chosen one, and the restored parts.

`restore`, `thaw` and `fits` share the meaning of these options: `as_` is exactly this rung, `require` at
least this one, and neither of them all that was captured. The choice is pure; `probe_machine` asks the
checkpointer and the engine.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base.suggestion import command
from holdfast.base.text import plain
from holdfast.base.version import VERSION
from holdfast.errors import EngineUnavailable, HoldfastError, InvalidArgument, LiveUnsupported
from holdfast.runtime.capture import capture_record
from holdfast.runtime.restore.compat import command_history
from holdfast.snapshots import manifest as manifests
from holdfast.snapshots import service
from holdfast.snapshots.fitness import Here, Ladder, Name, compare
from holdfast.snapshots.link import CheckpointerFailed
from holdfast.snapshots.manifest import Manifest

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.store.rows import SnapshotRow
    from holdfast.snapshots.fitness import Ladder, Name

RUNGS: tuple[Name, ...] = ("live", "commands", "files")
"""The best first."""
_NOTHING = "no part of it can be restored on this machine"


def choose_rung(ladder: Ladder, as_: Name | None, require: Name | None, *, verb: str, source: str) -> Name:
    """Return the rung to take: the requested one, else the best that is possible and enough.

    Args:
        ladder: what is possible.
        as_: exactly this rung.
        require: at least this rung; without it and `as_`, `live` of what was captured live.
        verb: the command that would take a rung, for messages: `restore` or `thaw`.
        source: what it is taken of, in the words of the command.

    Raises:
        InvalidArgument: `as_` is less than `require`.
        LiveUnsupported: it is not possible; `findings` are the reasons.
    """
    check(as_, require, verb)
    least = require or ("live" if ladder.live else "files")
    found = best(ladder, least) if as_ is None else (as_ if ladder.rung(as_).possible else None)
    if found is not None:
        return found
    missing = as_ or least
    reasons = ladder.rung(missing).reasons or [_NOTHING]
    raise LiveUnsupported(
        f"cannot {verb} {plain(source, 200)} as {missing}: {'; '.join(reasons)}",
        hint=instead(ladder, None, verb, source) or _NOTHING,
        findings=tuple({"rung": missing, "reason": reason} for reason in reasons),
    )


def check(as_: Name | None, require: Name | None, verb: str) -> None:
    """Raise InvalidArgument if `as_` is less than `require`: no rung could satisfy both."""
    if as_ and require and RUNGS.index(as_) > RUNGS.index(require):
        raise InvalidArgument(f"cannot require {require} and {verb} as {as_}", hint="leave one out")


def best(ladder: Ladder, least: Name) -> Name | None:
    """Return the best rung that is possible, None if it is lower than `least`."""
    enough = RUNGS[: RUNGS.index(least) + 1]
    return next((name for name in enough if ladder.rung(name).possible), None)


def instead(ladder: Ladder, tried: Name | None, verb: str, source: str) -> str:
    """Return a hint at the best possible rung, below the failed one if there was one."""
    for name in RUNGS if tried is None else RUNGS[RUNGS.index(tried) + 1 :]:
        rung = ladder.rung(name)
        if rung.possible:
            return f"`{take(verb, source, name)}` is possible; without {', '.join(rung.lost)}"
    return ""


def take(verb: str, source: str, rung: Name) -> str:
    """Return the command that takes a rung; only its option, if the source cannot be part of a command."""
    return command(verb, source, "--as", rung) or f"--as {rung}"


def probe_machine(context: Context, *, live: bool) -> Here:
    """Return this machine's offers; with `live` also the ones that a restore of processes depends on.

    The latter starts the checkpointer.

    Raises:
        EngineUnavailable: no engine answers.
    """
    engine = context.engine
    here = Here(
        machine=capture_record.machine_features({}),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        engine=engine.title,
        platform=engine.platform,
        holdfast=VERSION,
    )
    if not live:
        return here
    try:
        with service.ask(engine, context.home, context.progress, "hello", container=None) as link:
            said = link.until("done")
    except EngineUnavailable:
        raise
    except (HoldfastError, CheckpointerFailed) as error:
        return here.model_copy(update={"no_live": f"processes cannot be restored here ({error})"})
    about = {**(said.get("about") or {}), "arch": said["machine"], "kernel": said["kernel"]}
    return here.model_copy(
        update={"machine": capture_record.machine_features({**about, "criu": said["criu"]})}
    )


@dataclass(frozen=True, slots=True)
class ChosenRung:
    """The chosen rung: the restored parts, and its script, if it has one."""

    rung: Name
    manifest: Manifest
    script: str | None = None


def ladder(context: Context, snapshot: SnapshotRow) -> Ladder:
    """Return the possible rungs of a snapshot here.

    Raises:
        SnapshotDamaged: its manifest cannot be read.
        EngineUnavailable: no engine answers.
    """
    needs = manifests.read(context.home.snapshots / snapshot.id).all_needs()
    commands = len(command_history.recorded(context, snapshot))
    return compare(needs, probe_machine(context, live=needs.live), commands=commands)


def choose_parts(
    context: Context, snapshot: SnapshotRow, manifest: Manifest, rung: Name | None
) -> ChosenRung:
    """Choose a rung: the requested one, else all that was kept.

    Raises:
        LiveUnsupported: it is not possible here; `findings` are the reasons.
        EngineUnavailable: no engine answers.
    """
    needs = manifest.all_needs()
    wanted: Name = rung or ("live" if needs.live else "files")
    commands = command_history.recorded(context, snapshot) if wanted == "commands" else None
    here = probe_machine(context, live=wanted == "live")
    found = compare(needs, here, commands=None if commands is None else len(commands))
    choose_rung(found, wanted, None, verb="restore", source=snapshot.name)
    if wanted == "live":
        return ChosenRung(wanted, manifest)
    files = [entry for entry in manifest.files if not entry.name.startswith("images/")]
    without = manifest.model_copy(update={"processes": None, "files": files})
    return ChosenRung(
        wanted, without, command_history.shell_script(commands, snapshot.name) if commands else None
    )
