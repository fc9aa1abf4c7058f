"""The controller: makes sessions, finds them again, and removes them.

Any number of controllers, in any number of processes, may use one home: what they know is in the store, and a
session belongs to none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from holdfast.errors import (
    SessionExists,
    SessionNotFound,
    SnapshotNotFound,
)
from holdfast.runtime import actors, ballast, health, ids, locks, naming, recovery
from holdfast.runtime.delegation import delegate
from holdfast.runtime.engine import Engine
from holdfast.runtime.home import Home
from holdfast.runtime.keeping import policy as policies
from holdfast.runtime.keeping.keeping import Keeping
from holdfast.runtime.moving.handles import Importing
from holdfast.runtime.moving.remote import Pulling
from holdfast.runtime.session import Session
from holdfast.runtime.snapshot import Snapshot, machinery
from holdfast.runtime.store import peek
from holdfast.runtime.store.rows import OperationRow, SessionRow
from holdfast.runtime.thawing import Thawing

if TYPE_CHECKING:
    from holdfast.runtime.diff.result import Diff
    from holdfast.runtime.results import Check
    from holdfast.runtime.session_options import SessionOptions
    from holdfast.runtime.store.store import Store
    from holdfast.runtime.verifying import Verified
    from holdfast.snapshots.fitness import Ladder

Progress = Callable[[str], None]


class Holdfast:
    """All sessions and snapshots of one home.

    Opening it undoes what processes that are gone had left unfinished.  The engine is connected to when it is
    first needed: a command in a running session needs none.

    Args:
        home: the state directory; by default that of HOLDFAST_HOME or the XDG state directory.
        progress: is given a line for each step of something slow (the first build of an image).
        actor: who does what is done through this controller, for the journal: `agent`, `person` or `system`,
            with a name if wanted (`person:alice`). By default that of HOLDFAST_ACTOR, else `agent`.
        reason: why, for the journal.

    Raises:
        StoreError: the state directory cannot be used.
        InvalidArgument: the actor is not valid.
    """

    def __init__(
        self,
        home: Home | Path | str | None = None,
        *,
        progress: Progress | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.home = Home.at(home).create()
        self.progress: Progress = progress or (lambda _line: None)
        self.actor = actors.checked(actor)
        self.reason = reason
        recovery.recover(self)

    @cached_property
    def store(self) -> Store:
        """The store of this home."""
        from holdfast.runtime.store.store import Store  # 0.2 s that `exec` does not need to spend

        return Store.open(self.home.database)

    @cached_property
    def engine(self) -> Engine:
        """The engine sessions run in.

        Raises:
            EngineUnavailable: none answers.
        """
        return Engine.connect()

    @cached_property
    def keeping(self) -> Keeping:
        """What is kept of all this, and what is cleared away: quota, garbage."""
        return Keeping(self)

    # Sessions.

    def new(
        self,
        name: str | None = None,
        *,
        remove: bool = False,
        policy: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Session:
        """Make a session and wait until its shell can be used.

        It goes on when this process ends; `with hf.new(remove=True) as session:` is for one that shall not.

        Args:
            name: must be free; by default one is made up.
            remove: remove it at the end of a `with` that it is used in, however that ends.
            policy: when it is captured by itself, as for `Session.policy`.
            options: image, network, allow, domains, secrets (texts `NAME@HOST=SOURCE`), memory, disk, cpus,
                pids, user, env, mounts, workdir, as in
                `SessionOptions`.

        Raises:
            InvalidArgument, SessionExists: what was asked for cannot be.
            EngineError, ImageError, SessionError: it could not be made; nothing is left of it.
        """
        from holdfast.runtime import init_program, provision
        from holdfast.runtime.egress.closing import Closing
        from holdfast.runtime.journal import happenings
        from holdfast.runtime.session_options import SessionOptions

        given = options.pop("secrets", None) or ()
        if name is not None:
            ids.check_name(name)
        chosen, kept = SessionOptions.parse(**options), policies.parse(policy or {})
        if name is not None and any(row.name == name for row in self.store.sessions()):
            raise SessionExists(
                f"cannot name session '{name}': the name is taken",
                hint=f"choose another name, or `holdfast rm {name}`",
            )
        network = Closing(self.engine, self.home, self.progress)
        network.check_names(chosen)
        if given:
            chosen = self._with_secrets(chosen, given)
        image = provision.image(self.engine, chosen.image, self.progress)
        with self.operation("new") as operation:
            self.store.operations.update(operation.id, session_id=(session_id := ids.new_id()))
            row = naming.add(self.store, name, image, chosen.model_dump(mode="json"), session_id=session_id)
            self.store.keep_details(row.id, policy=kept.as_dict() or None)
            folder = provision.prepare_run_dir(self, row)
            init = init_program.obtain(self.engine, self.home, self.progress)
            with network.ahead(chosen):
                container = provision.create_container(self.engine, self.home, row, operation.id, init)
                row = self.store.update_session(row.id, container_id=container)
                provision.start(self.engine, container)
            network.close(chosen, container)
            provision.await_guest(self.engine, container, folder)
            self.store.operations.complete(operation.id, sessions={row.id: {"state": "running"}})
        happenings.note(self, row.id, "created", name=row.name, image=row.image)
        return Session(self, self.session_row(row.id), remove=remove)

    def _with_secrets(self, options: SessionOptions, given: Sequence[str]) -> SessionOptions:
        """Keep the values of secrets on this host; the session is made with placeholders."""
        from holdfast.runtime.egress import secret, vault

        kept = [secret.parse(text) for text in given]
        told = options.model_dump(mode="json") | {"secrets": [one.option() for one in kept]}
        chosen = type(options).parse(**told)
        vault.keep(self.home, kept)
        return chosen

    def sessions(self) -> list[Session]:
        """All sessions, oldest first. Those whose container ended meanwhile are found to be dead here."""
        rows = self.store.sessions()
        if any(row.state == "running" for row in rows):
            running = self.engine.running(holdfast_home=self.home.digest)
            rows = [health.observed(self, row, running) for row in rows]
        return [Session(self, row) for row in rows]

    def session(self, ref: str) -> Session:
        """The session with this name, id or unique prefix of an id.

        Raises:
            SessionNotFound, InvalidArgument: none or several fit.
        """
        return Session(self, self.session_row(ref))

    def session_row(self, ref: str) -> SessionRow:
        """The row of a session as it is now. Raises as `session` does."""
        return peek.session(self.home.database, ref) or self.store.session(ref)

    def remove_session(self, ref: str) -> None:
        """End a session and forget it; its snapshots stay. What was not captured is lost.

        Raises:
            SessionNotFound: there is none (any more).
            SessionBusy: a snapshot of it is being taken.
        """
        from holdfast.runtime.erasing import erase, free

        row = self.session_row(ref)
        _ = self.engine  # nothing is begun that could not be carried through
        with ballast.given_up(self.home) as roomy, self.lock(row.id, f"remove session {row.name}"):
            if not roomy:  # what makes room comes first then, although it cannot be recorded
                free(self, row)
            with self.operation("remove", session_id=row.id):
                erase(self, row.id)
                locks.discard(self.home.locks, row.id)
        if row.parent_snapshot_id is not None:
            machinery().sweep_images(self)

    # Snapshots.

    def snapshots(self) -> list[Snapshot]:
        """All snapshots that are whole, or were and are damaged, oldest first."""
        return [Snapshot(self, row) for row in self.store.snapshots()]

    def snapshot(self, ref: str) -> Snapshot:
        """The snapshot with this label, id or unique prefix of an id.

        Raises:
            SnapshotNotFound, InvalidArgument: none or several fit.
        """
        return Snapshot(self, self.store.snapshot(ref))

    def diff(self, before: str, after: str, *, everything: bool = False) -> Diff:
        """What differs between two snapshots, of whatever sessions and branches.

        `everything`: include caches and the like.

        Raises:
            SnapshotNotFound, InvalidArgument: there is none, or it does not know what it held.
        """
        from holdfast.runtime.diff import of_snapshots

        return of_snapshots.compare(self, before, after, everything=everything)

    import_ = delegate(Importing, Importing.import_)
    pull = delegate(Pulling, Pulling.pull)
    thaw = delegate(Thawing, Thawing.thaw)

    def remove_snapshot(self, ref: str) -> None:
        """Delete a snapshot.

        Raises:
            SnapshotNotFound: there is none (any more).
            SnapshotInUse: a suspended session needs it.
        """
        self.snapshot(ref).remove()

    def fork(
        self,
        ref: str,
        n: int = 1,
        name: str | None = None,
        *,
        network: str | None = None,
        allow: Sequence[str] = (),
    ) -> list[Session]:
        """Fork a session or a snapshot, whichever ref means. Raises as they do."""
        try:
            source: Session | Snapshot = self.session(ref)
        except SessionNotFound as missing:
            try:
                source = self.snapshot(ref)
            except SnapshotNotFound:
                text = str(missing).replace("session", "session or snapshot", 1)
                raise SessionNotFound(text, hint=missing.hint) from None
        return source.fork(n, name, network=network, allow=allow)

    def fits(self, source: str, *, plain_http: bool = False) -> Ladder:
        """What can be done here with a snapshot, or with a bundle at a path or reference; why not more."""
        from holdfast.runtime.fitness import sources

        return sources.ladder(self, source, plain_http=plain_http)

    def verify(self, *refs: str) -> Verified:
        """Look at every byte of snapshots, of all or of those named; repair what can be, mark the rest.

        Raises:
            SnapshotNotFound: there is no such snapshot.
            StoreError: another process changes what is stored and does not end.
        """
        from holdfast.runtime import verifying

        chosen = [self.store.snapshot(ref) for ref in refs] or self.store.snapshots()
        return verifying.verify(self, chosen)

    def doctor(self) -> list[Check]:
        """Look at everything Holdfast needs, and say what to do where something is missing."""
        from holdfast.runtime import doctor

        return doctor.checks(self)

    # What operations are made of.

    @contextmanager
    def operation(
        self,
        kind: str,
        *,
        session_id: str | None = None,
        snapshot_id: str | None = None,
        details: dict[str, Any] | None = None,
    ) -> Iterator[OperationRow]:
        """Do something that takes several steps, all of it or nothing.

        The intent is recorded first.  If the block fails or is interrupted, what it had begun is undone; if
        the process dies, the next controller undoes it.  A block that ends with `store.operations.complete`
        has nothing to undo from there on.
        """
        begin = partial(
            self.store.operations.begin,
            kind,
            session_id=session_id,
            snapshot_id=snapshot_id,
            details=details,
        )
        with recovery.carried_out(self, begin) as begun:
            yield begun

    def lock(self, session_id: str, what: str) -> AbstractContextManager[None]:
        """Hold the exclusive lock of a session; waits up to `locks.PATIENCE` seconds for its holder.

        Raises:
            SessionBusy: it is still held; the message is "cannot <what>: …".
        """
        return locks.exclusive(self.home.locks, session_id, what, locks.PATIENCE)

    def close(self) -> None:
        """Close connections. Sessions keep running."""
        self.keeping.background.settle()
        if "engine" in self.__dict__:
            self.engine.close()
            del self.__dict__["engine"]

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()
