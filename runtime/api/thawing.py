"""Thaws a captured state wherever it is kept: here, in a file, in a registry.

It finds the source, imports it if it is elsewhere, climbs as high on the ladder as this machine allows or as
was requested, and says where to continue looking. The description of the failure comes from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.errors import (
    BundleRefused,
    BundleUntrusted,
    InvalidArgument,
    RestoreFailed,
    SnapshotNotFound,
)
from holdfast.runtime.api.bundles import Incoming
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.restore.compat import snapshot_ladder

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.restore.compat.command_history import Recorded
    from holdfast.snapshots.failure import Debugger, Failure
    from holdfast.snapshots.fitness import Ladder, Name
    from holdfast.snapshots.verification import Verification

SUFFIX = ".holdfast"


@dataclass(frozen=True, slots=True)
class Thawed:
    """A session that continues from a captured state.

    Attributes:
        session: it runs.
        snapshot: the snapshot it was made from, in this home.
        rung: how much was restored: `live`, `commands` or `files`.
        ladder: the other rungs that would have been possible, and why not more.
        failure: the failure; None if it was captured for another reason.
        commands: the commands that had been run, as far as recorded.
    """

    session: Session
    snapshot: Snapshot
    rung: Name
    ladder: Ladder
    failure: Failure | None
    commands: tuple[Recorded, ...]

    @property
    def verification(self) -> Verification | None:
        """The verification of its processes; None if none were restored."""
        return self.session.verification

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the session is not live, if it is not."""
        return () if self.rung == "live" else tuple(self.ladder.rung("live").reasons)

    @property
    def lost(self) -> tuple[str, ...]:
        """The parts of the captured state that it lacks."""
        return tuple(self.ladder.rung(self.rung).lost)

    @property
    def debugger(self) -> Debugger | None:
        """Where to find the program that failed, if it is stopped there."""
        return self.failure.debugger if self.failure is not None and self.rung == "live" else None


class Thawing:
    """Thaws captured states, for a controller."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def thaw(
        self,
        /,
        source: str | Path,
        *,
        as_: Name | None = None,
        require: Name | None = None,
        name: str | None = None,
        passphrase: str | None = None,
        key_passphrase: str | None = None,
        plain_http: bool = False,
        progress: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> Thawed:
        """Make a session that continues from a captured state, with as much of it as this machine allows.

        Args:
            source: the label or id of a snapshot here, the path of a file, or a reference of a registry.
                A path without a folder in it is written `./FILE` if a snapshot has that name.
            as_: exactly this rung: `live`, `commands` (files, and what was run as a script) or `files`.
            require: at least this rung; without `as_` it is `live` for a live capture.
            name: of the session; by default one is generated.
            passphrase: it was encrypted with, if it is from elsewhere.
            key_passphrase: of the key of this home that it was encrypted for.
            plain_http: without TLS, even from a registry on another machine.
            progress: called with the bytes done, and the total, during the import.
            options: network, allow and deny of the session, as for `Snapshot.restore`; memory, cpus and pids,
                if it is from elsewhere.

        Raises:
            SnapshotNotFound: there is nothing of that name.
            BundleUntrusted, BundleRefused: it must not be imported.
            LiveUnsupported: the request is not possible here; `findings` are the reasons.
            RestoreFailed, SnapshotDamaged: the session was removed again; the imported snapshot stays.
        """
        more = {"passphrase": passphrase, "key_passphrase": key_passphrase, "progress": progress}
        taking_in: dict[str, Any] = {key: value for key, value in more.items() if value is not None}
        if plain_http:
            taking_in["plain_http"] = True
        return thaw(self._context, str(source), as_, require, name, options, taking_in)


def thaw(
    context: Context,
    source: str,
    as_: Name | None,
    require: Name | None,
    name: str | None,
    options: dict[str, Any],
    taking_in: dict[str, Any],
) -> Thawed:
    """Thaw as `Thawing.thaw` does; `taking_in` is for states kept elsewhere: passphrases, progress."""
    snapshot_ladder.check(as_, require, "thaw")
    snapshot, chosen_here = _found(context, source, as_, require, options, taking_in)
    ladder = snapshot.fits()
    rung = snapshot_ladder.choose_rung(ladder, as_, require, verb="thaw", source=source)
    try:
        session = snapshot.restore(name, rung=rung, **chosen_here)
    except RestoreFailed as error:
        raise RestoreFailed(
            str(error), hint=snapshot_ladder.instead(ladder, rung, "thaw", source) or error.hint
        ) from error
    return Thawed(session, snapshot, rung, ladder, snapshot.failure, tuple(snapshot.recorded()))


def _found(
    context: Context,
    source: str,
    as_: Name | None,
    require: Name | None,
    options: dict[str, Any],
    taking_in: dict[str, Any],
) -> tuple[Snapshot, dict[str, Any]]:
    """Return the snapshot, imported if it is elsewhere, and the options that the import did not use."""
    from holdfast.runtime.transfer import ladder_sources

    if "/" not in source:
        try:
            here = Snapshot(context, context.store.snapshot(source))
        except (SnapshotNotFound, InvalidArgument):
            if not Path(source).exists() and not source.endswith(SUFFIX):
                raise
        else:
            if fixed := sorted(options.keys() - {"network", "allow", "deny"}):
                raise InvalidArgument(
                    f"cannot choose {', '.join(fixed)}: the snapshot belongs to this home",
                    hint="they apply to files and registries only",
                )
            return here, options
    file = is_file(source, exists=Path(source).exists())
    if as_ != "files" and (not file or Path(source).exists()):
        # The limits of this machine are known before anything is fetched, unless that cannot be read.
        with suppress(BundleRefused):
            ladder = ladder_sources.ladder(context, source, plain_http=bool(taking_in.get("plain_http")))
            rung = snapshot_ladder.choose_rung(ladder, as_, require, verb="thaw", source=source)
            as_ = "files" if rung == "files" else as_
    more: dict[str, Any] = {**options, **taking_in, "files_only": as_ == "files"}
    try:
        if file:
            arrived = Incoming(context).import_(
                source, **{k: v for k, v in more.items() if k != "plain_http"}
            )
        else:
            arrived = Incoming(context).pull(source, **more)
        return arrived, {}
    except BundleUntrusted as error:
        hint = error.hint.replace("--files-only", f"`{snapshot_ladder.take('thaw', source, 'files')}`")
        raise BundleUntrusted(str(error), hint=hint) from error


def is_file(source: str, *, exists: bool) -> bool:
    """Check whether a file is meant, and not a registry: those have a dot or a port in their name. Pure."""
    host, slash, _ = source.partition("/")
    if exists or not slash or source.startswith((".", "/", "~")) or source.endswith(SUFFIX):
        return True
    return not ("." in host or ":" in host or host == "localhost")


def format_failure(failure: Failure, *, lines: int = 10) -> list[str]:
    """Describe a failure record for people, in few lines. Pure."""
    found = [failure.title + (f": {failure.message}" if failure.message else "")]
    if failure.command and failure.command not in failure.title:
        found.append(f"it ran: {failure.command}")
    found += [f"{what}: {value}" for what, value in (("at", failure.revision), ("job", failure.job)) if value]
    tail = failure.tail.rstrip().splitlines()[-lines:] if lines else []
    return [plain(line, 500) for line in found] + [f"  | {plain(line, 300)}" for line in tail]
