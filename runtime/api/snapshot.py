"""A handle on one snapshot.

How sessions are restored is in `runtime.bringing_back`, imported when it is needed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.base.delegation import delegate
from holdfast.errors import InvalidArgument
from holdfast.runtime.api.bundle_files import Exporting
from holdfast.runtime.api.bundle_registries import Pushing
from holdfast.runtime.store.rows import SnapshotKind, SnapshotRow

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.runtime.api.session import Session
    from holdfast.runtime.flaky.repeat import Keep, KeepAs, Series
    from holdfast.runtime.flaky.spread import Run, Spread
    from holdfast.runtime.operations.context import Context
    from holdfast.runtime.restore.compat.command_history import Recorded
    from holdfast.snapshots.failure import Failure
    from holdfast.snapshots.fitness import Ladder, Name

# More than this at once is a slip of the finger; each takes the memory of a session.
FORKS = 256


class Snapshot:
    """One snapshot."""

    def __init__(self, context: Context, row: SnapshotRow) -> None:
        self._context = context
        self._row = row

    @property
    def _exporting(self) -> Exporting:
        return Exporting(self._context, self._row)

    @property
    def _pushing(self) -> Pushing:
        return Pushing(self._context, self._row)

    export = delegate("_exporting", Exporting.export)
    push = delegate("_pushing", Pushing.push)

    def __repr__(self) -> str:
        return f"<Snapshot {self.name} {self.kind} {self.state}>"

    @property
    def id(self) -> str:
        """12 hex digits."""
        return self._row.id

    @property
    def name(self) -> str:
        """Its label, or its id if it has none."""
        return self._row.name

    @property
    def label(self) -> str | None:
        """The name it was given."""
        return self._row.label

    @property
    def kind(self) -> SnapshotKind:
        """`live` or `filesystem`."""
        return self._row.kind

    @property
    def state(self) -> str:
        """`ready`, or `damaged` if a part was found missing or changed."""
        return self._row.state

    @property
    def size(self) -> int:
        """Bytes it takes on this host beyond the image its session was made from, and what it shares."""
        return self._row.bytes

    @property
    def shared(self) -> int:
        """Bytes that pages of its memory take which older snapshots need, too."""
        stored = self._row.details.storage
        return 0 if stored is None else int(stored["shared"])

    @property
    def created_at(self) -> datetime:
        """When it was taken, in UTC."""
        return self._row.created_at

    @property
    def session_id(self) -> str:
        """The session it was taken of."""
        return self._row.session_id

    @property
    def parent_id(self) -> str | None:
        """The snapshot before it in the lineage."""
        return self._row.parent_snapshot_id

    @property
    def reason(self) -> str | None:
        """Why it was taken, in the words of who took it."""
        return self._row.reason

    @property
    def failure(self) -> Failure | None:
        """What had failed when it was taken; None if it was taken for another reason."""
        from holdfast.snapshots.failure import of_row

        return of_row(self._row.details)

    @property
    def pinned(self) -> bool:
        """Whether it is kept until somebody removes it."""
        return self._row.pinned

    @property
    def row(self) -> SnapshotRow:
        """What the store knows."""
        return self._row

    def restore(
        self,
        name: str | None = None,
        *,
        rung: Name | None = None,
        network: str | None = None,
        allow: Sequence[str] = (),
    ) -> Session:
        """Make a session that continues from here.

        Args:
            name: must be free; by default one is made up.
            rung: `files`: one that has the files only. `commands`: with what was run as a script beside them,
                which nobody runs. By default all that was kept, and nothing less.
            network: what it reaches, `internet`, `none` or `open`; by default what the captured one did.
            allow: exceptions, HOST:PORT, besides those of the captured one.

        Raises:
            LiveUnsupported: that is not possible on this machine. `findings` tells why, `fits` what is.
            SessionExists, SnapshotDamaged, RestoreFailed: nothing is left of it; the snapshot is untouched.
        """
        return self.fork(1, name, rung=rung, network=network, allow=allow)[0]

    def recorded(self) -> list[Recorded]:
        """What was run up to it since its processes began, as far as that is known."""
        from holdfast.runtime.restore.compat import command_history as recorded

        return recorded.recorded(self._context, self._row)

    def fits(self) -> Ladder:
        """What can be done with it on this machine, and why not more. Nothing is begun."""
        from holdfast.runtime.restore.compat import choose_rung

        return choose_rung.ladder(self._context, self._row)

    def fork(
        self,
        n: int = 1,
        name: str | None = None,
        *,
        rung: Name | None = None,
        network: str | None = None,
        allow: Sequence[str] = (),
    ) -> list[Session]:
        """Make n sessions that go on from here: called name, or name-1, name-2, … All of them or none.

        `network` and `allow` are as for `restore`.
        """
        from holdfast.runtime.api.session import Session
        from holdfast.runtime.restore import restore_service

        if not 1 <= n <= FORKS:
            raise InvalidArgument(f"cannot fork {n} times: the number must be from 1 to {FORKS}")
        rows = restore_service.restore(self._context, self._row, name, n, rung, network, allow)
        return [Session(self._context, row) for row in rows]

    def retry(
        self,
        command: str | Sequence[str],
        n: int = 20,
        *,
        jobs: int = 4,
        timeout: float | None = None,
        keep: Keep = "diverging",
        keep_as: KeepAs = "sessions",
        until_differs: bool = False,
        compare_output: bool = False,
        name: str | None = None,
    ) -> Spread:
        """Run a command n times from here, each in a copy of its own, and tell how it spreads.

        In the shell as it was captured, where it stood; if a command runs in it, as a task beside that.

        Args:
            command: text for bash, or words.
            n: how many runs.
            jobs: how many at once, if there is memory for them.
            timeout: seconds for each; what is not over then, or waits for somebody, is an outcome.
            keep: `diverging` (one or two of each kind, if there are several), `all`, `none`.
            keep_as: `sessions` that go on, or `snapshots`.
            until_differs: begin no more when two came out differently.
            compare_output: output of runs that pass makes kinds, too.
            name: copies are called name-1, name-2, …

        Raises:
            InvalidArgument, SessionExists: nothing was begun.
            LiveUnsupported, RestoreFailed, SnapshotDamaged: no copies can be made; nothing is left of any.
        """
        from holdfast.runtime.flaky.repeat import Series

        text = command if isinstance(command, str) else shlex.join(command)
        series = Series(text, n, jobs, timeout, keep, keep_as, until_differs, compare_output, name)
        return self.tried(series)

    def tried(self, series: Series, told: Callable[[Run], None] = lambda _run: None) -> Spread:
        """As `retry`, with all of it in one value; `told` is given each run when it is over."""
        from holdfast.runtime.flaky import repeat

        return repeat.retry(self._context, self._row, series, told)

    def pin(self, *, pinned: bool = True) -> Snapshot:
        """Keep it until somebody removes it by hand; without `pinned`, leave it to policy and quota again."""
        self._row = self._context.store.update_snapshot(self.id, pinned=pinned)
        return self

    def remove(self) -> None:
        """Delete it.

        Raises:
            SnapshotInUse: a suspended session needs it.
        """
        from holdfast.runtime.storage import remove_snapshot

        remove_snapshot.remove_snapshot(self._context, self._row)
