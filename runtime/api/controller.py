"""The controller: creates, finds and removes sessions.

Any number of controllers, in any number of processes, can use one home: their knowledge is in the store, and
no session belongs to any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from holdfast.base import actors
from holdfast.base.delegation import late
from holdfast.base.home import Home
from holdfast.errors import (
    InvalidArgument,
    SessionNotFound,
    SnapshotNotFound,
)
from holdfast.runtime.api.session import Session
from holdfast.runtime.operations import recovery
from holdfast.runtime.operations.context import Context, Progress, Watcher, no_progress
from holdfast.runtime.sessions import health

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Unpack

    from holdfast.engine.engine import Engine
    from holdfast.runtime.api.artifact_handles import HomeArtifacts
    from holdfast.runtime.api.bundles import Incoming
    from holdfast.runtime.api.image_sources import ImageSources
    from holdfast.runtime.api.keeping import Keeping
    from holdfast.runtime.api.option_types import NewOptions, PolicyOptions
    from holdfast.runtime.api.session_pool import SessionPool
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.api.thawing import Thawing
    from holdfast.runtime.guest_rpc.results import Check
    from holdfast.runtime.history.diff.diff_result import Diff
    from holdfast.runtime.storage.verify_storage import Verified
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store
    from holdfast.runtime.task.task_standing import TaskStanding
    from holdfast.runtime.task.work_report import WorkReport
    from holdfast.snapshots.fitness import Ladder


def _fill_undo_table() -> None:
    """Import every module that carries out operations."""
    from holdfast.runtime.capture import snapshot_service  # noqa: F401
    from holdfast.runtime.ci import run_job  # noqa: F401
    from holdfast.runtime.egress import network_changes  # noqa: F401
    from holdfast.runtime.flaky import repeat  # noqa: F401
    from holdfast.runtime.lifecycle import create as creating  # noqa: F401
    from holdfast.runtime.lifecycle import image_build, waiting_session  # noqa: F401
    from holdfast.runtime.moving import move_session  # noqa: F401
    from holdfast.runtime.restore import restore_service, resume_session, rewind  # noqa: F401
    from holdfast.runtime.transfer import receive, send  # noqa: F401


def _wake(context: Context, session_id: str) -> SessionRow:
    from holdfast.runtime.lifetimes import waking

    return waking.wake(context, session_id)


def _incoming() -> type[Incoming]:
    from holdfast.runtime.api.bundles import Incoming

    return Incoming


def _thawing() -> type[Thawing]:
    from holdfast.runtime.api.thawing import Thawing

    return Thawing


class Holdfast:
    """All sessions and snapshots of one home.

    Opening it undoes unfinished operations of ended processes, and continues the packing of snapshots.
    The engine is connected on first use: a command in a running session does not need it.

    With the URL of a server instead of a home (`http://…`, `unix:///…`) it is a `RemoteHoldfast`,
    which has the same methods.

    Args:
        home: the state directory; by default HOLDFAST_HOME, or `holdfast` in the XDG state directory.
        progress: receives a line for each step of something slow (the first build of an image).
        on_step: is called with each `Step` of an operation as it begins (checking, freezing, creating a
            container, …), and with None when the operation has ended; from whatever thread does it.
        actor: the user of this controller, for the journal: `agent`, `person` or `system`, optionally with a
            name (`person:alice`). By default the value of HOLDFAST_ACTOR, else `agent`.
        reason: why, for the journal.
        token: of the server, if that is what `home` names.

    Raises:
        StoreError: the state directory cannot be used.
        InvalidArgument: the actor is not valid.
    """

    def __new__(cls, home: Home | Path | str | None = None, **options: Any) -> Holdfast:
        """Return the controller of a home, or a server's."""
        if not (isinstance(home, str) and "://" in home):
            return super().__new__(cls)
        from holdfast.runtime.client.blocking.remote_holdfast import RemoteHoldfast

        return RemoteHoldfast(home, **options)  # type: ignore[return-value]

    def __init__(
        self,
        home: Home | Path | str | None = None,
        *,
        progress: Progress | None = None,
        on_step: Watcher | None = None,
        actor: str | None = None,
        reason: str | None = None,
        token: str | None = None,
    ) -> None:
        if token is not None:
            raise InvalidArgument(
                "cannot use a token for a home: it is for the URL of a server", hint="leave it out"
            )
        acting = actors.checked(actor)
        how = (acting, reason, progress or no_progress, on_step)
        self.context = Context(Home.at(home).create(), *how, waker=_wake)
        recovery.recover(self.context, _fill_undo_table)
        if self.home.has_unpacked:
            from holdfast.runtime.storage import packing_request

            packing_request.start(self.home)

    @property
    def home(self) -> Home:
        """The state directory."""
        return self.context.home

    @property
    def store(self) -> Store:
        """The records of sessions, snapshots and operations."""
        return self.context.store

    @property
    def engine(self) -> Engine:
        """The engine that sessions run in.

        Raises:
            EngineUnavailable: no engine answers.
        """
        return self.context.engine

    @cached_property
    def keeping(self) -> Keeping:
        """Retention in this home: quota, garbage, idle captures."""
        from holdfast.runtime.api.keeping import Keeping

        return Keeping(self.context)

    @cached_property
    def pool(self) -> SessionPool:
        """Sessions of this home that wait until `new` asks for one."""
        from holdfast.runtime.api.session_pool import SessionPool

        return SessionPool(self.context)

    @cached_property
    def images(self) -> ImageSources:
        """The sources of images for sessions: built, loaded, or pulled."""
        from holdfast.runtime.api.image_sources import ImageSources

        return ImageSources(self.context)

    # Sessions.

    def new(
        self,
        name: str | None = None,
        *,
        remove: bool = False,
        policy: Mapping[str, Any] | PolicyOptions | None = None,
        template: str | None = None,
        warm: bool = False,
        devcontainer: Path | str | None = None,
        entrypoint: bool = False,
        build_network: str | None = None,
        remote_sources: bool = False,
        labels: Mapping[str, str] | Sequence[str] | None = None,
        life: float | str | None = None,
        then: str | None = None,
        idle: float | str | None = None,
        **options: Unpack[NewOptions],
    ) -> Session:
        """Create a session and wait until its shell can be used.

        It outlives this process; `with hf.new(remove=True) as session:` makes one that does not.

        Args:
            name: must be free; by default one is generated.
            remove: remove the session at the end of a `with` block, however that ends.
            policy: when it is captured automatically, as for `Session.policy`.
            template: start from this template, or other snapshot; of the options, network, allow, deny,
                memory, cpus and pids can then be chosen, and those of the captured session are the default.
            warm: start from a template of a fresh session of this image and these options, whose kernel is
                ready. The first such start makes it.
            devcontainer: a folder with a devcontainer.json: its image, variables and user; the folder is
                copied into the session, and its commands run there. The other options win.
            entrypoint: run the image's ENTRYPOINT with CMD, as a job called `entrypoint`; else it is not run.
            build_network: of the steps, if a devcontainer builds its image, as for `images.build`.
            remote_sources: what its Dockerfile names may be fetched by the engine, as for `images.build`.
            labels: pairs to find it by, as for `Session.set_labels`.
            life: how long it lives from when it is ready, as for `Session.lifetime`, like `then` and `idle`.
            then: see `life`.
            idle: see `life`.
            options: image, network, allow, deny, domains, secrets (texts `NAME@HOST=SOURCE`), memory, disk,
                cpus, pids, user, env, mounts, workdir, read_only, writable, shell, kernel, python, as in
                `SessionOptions`.

        Raises:
            InvalidArgument, SessionExists: the options are not valid, or the name is taken.
            EngineError, ImageError, SessionError: the session could not be created; nothing is left of it.
            SnapshotNotFound, LiveUnsupported, SnapshotDamaged, RestoreFailed: nor could it from the template.
        """
        from holdfast.runtime.api import session_start

        return session_start.start(
            self.context,
            name,
            policy,
            options,
            remove=remove,
            template=template,
            warm=warm,
            devcontainer=devcontainer,
            entrypoint=entrypoint,
            build_network=build_network,
            remote_sources=remote_sources,
            labels=labels,
            lifetime={"life": life, "then": then, "idle": idle},
        )

    def sessions(self, *, labels: Mapping[str, str | None] | Sequence[str] | None = None) -> list[Session]:
        """Return all sessions, oldest first; a session whose container has ended is found to be dead here.

        `labels`: only sessions that have all of these: a mapping, in which None is any value, or texts
        `KEY=VALUE` or `KEY`.
        """
        if labels is None:
            return [Session(self.context, row) for row in health.observe_all(self.context)]
        from holdfast.runtime.sessions import session_labels

        wanted = session_labels.wanted(labels)
        return [each for each in self.sessions() if session_labels.has(each.labels, wanted)]

    def session(self, ref: str, *, removed: bool = False) -> Session:
        """Return the session with this name, id or unique prefix of an id.

        `removed`: if there is none, one that was removed, the latest of that name, for its journal.

        Raises:
            SessionNotFound, InvalidArgument: none or several match.
        """
        if removed:
            from holdfast.runtime.journal import journal_query

            return Session(self.context, journal_query.find(self.context, ref))
        return Session(self.context, self.context.session_row(ref))

    def board(self) -> list[TaskStanding]:
        """Return the progress of all sessions' tasks; sessions without a task are left out."""
        from holdfast.runtime.task.task_standing import standings

        return standings(health.observe_all(self.context))

    def report(self, since: datetime) -> WorkReport:
        """Return the work on tasks since a time: the steps, their actors, and how they were verified.

        Removed sessions are part of it; work that a rewind has undone is not.
        """
        from holdfast.runtime.api.reported_work import reported_work

        return reported_work(self.context, since.timestamp())

    @property
    def artifacts(self) -> HomeArtifacts:
        """The artifacts that sessions have registered, also removed sessions."""
        from holdfast.runtime.api.artifact_handles import HomeArtifacts

        return HomeArtifacts(self.home)

    def remove_session(self, ref: str) -> None:
        """End a session and remove it; its snapshots stay. State that was not captured is lost.

        Raises:
            SessionNotFound: it does not exist (any more).
            SessionBusy: a snapshot of it is being taken.
        """
        from holdfast.runtime.lifecycle import teardown

        teardown.remove(self.context, ref)

    # Snapshots.

    def snapshots(self) -> list[Snapshot]:
        """Return all complete snapshots, damaged ones included, oldest first."""
        from holdfast.runtime.api.snapshot import Snapshot

        return [Snapshot(self.context, row) for row in self.store.snapshots()]

    def snapshot(self, ref: str) -> Snapshot:
        """Return the snapshot with this label, id or unique prefix of an id.

        Raises:
            SnapshotNotFound, InvalidArgument: none or several match.
        """
        from holdfast.runtime.api.snapshot import Snapshot

        return Snapshot(self.context, self.store.snapshot(ref))

    def diff(self, before: str, after: str, *, everything: bool = False) -> Diff:
        """Compare two snapshots, of any sessions and branches.

        `everything`: include caches and the like.

        Raises:
            SnapshotNotFound, InvalidArgument: one does not exist, or did not record what it held.
        """
        from holdfast.runtime.history.diff import snapshot_diff

        return snapshot_diff.compare_snapshots(self.context, before, after, everything=everything)

    import_ = late(lambda hf: _incoming()(hf.context), lambda: _incoming().import_)
    pull = late(lambda hf: _incoming()(hf.context), lambda: _incoming().pull)
    thaw = late(lambda hf: _thawing()(hf.context), lambda: _thawing().thaw)

    def remove_snapshot(self, ref: str) -> None:
        """Delete a snapshot.

        Raises:
            SnapshotNotFound: it does not exist (any more).
            SnapshotInUse: a suspended session needs it.
        """
        self.remove_snapshots(ref)

    def remove_snapshots(self, *refs: str) -> list[Snapshot]:
        """Delete snapshots, free the storage that no remaining one needs, and return the deleted rows.

        Raises:
            SnapshotNotFound: one does not exist (any more); none was deleted.
            SnapshotInUse: a suspended session needs one; the snapshots named before it were deleted.
        """
        from holdfast.runtime.storage import snapshot_storage

        found = list({each.id: each for each in map(self.snapshot, refs)}.values())
        snapshot_storage.remove_snapshots(self.context, [each.row for each in found])
        return found

    def fork(
        self,
        ref: str,
        n: int = 1,
        name: str | None = None,
        *,
        network: str | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        eager: bool = False,
    ) -> list[Session]:
        """Fork the session or snapshot that `ref` refers to, as `Session.fork` or `Snapshot.fork`."""
        try:
            source: Session | Snapshot = self.session(ref)
        except SessionNotFound as missing:
            try:
                source = self.snapshot(ref)
            except SnapshotNotFound:
                text = str(missing).replace("session", "session or snapshot", 1)
                raise SessionNotFound(text, hint=missing.hint) from None
        return source.fork(n, name, network=network, allow=allow, deny=deny, eager=eager)

    def fits(self, source: str, *, plain_http: bool = False) -> Ladder:
        """Return the rungs that are possible here for a snapshot, or for a bundle at a path or reference,
        and why not more.
        """
        from holdfast.runtime.transfer import ladder_sources

        return ladder_sources.ladder(self.context, source, plain_http=plain_http)

    def verify(self, *refs: str) -> Verified:
        """Verify every byte of all or the named snapshots; repair damage where possible, else mark the
        snapshot as damaged.

        Raises:
            SnapshotNotFound: the snapshot does not exist.
            StoreError: another process keeps changing what is stored.
        """
        from holdfast.runtime.storage import verify_storage

        chosen = [self.store.snapshot(ref) for ref in refs] or self.store.snapshots()
        return verify_storage.verify(self.context, chosen)

    def doctor(self) -> list[Check]:
        """Check everything that Holdfast needs, with a remedy for each missing requirement."""
        from holdfast.runtime.doctor import doctor

        return doctor.checks(self.context)

    def close(self) -> None:
        """Close connections. Sessions keep running."""
        self.context.close()

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
