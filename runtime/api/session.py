"""A handle on one session: its shell, its kernel, its snapshots.

It holds no state that matters: any number of handles, in any process, may refer to one session.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.base.delegation import delegate
from holdfast.errors import SessionNotFound
from holdfast.runtime.api.running_program import SessionPrograms
from holdfast.runtime.api.session_files import SessionFiles
from holdfast.runtime.api.session_insight import SessionInsight
from holdfast.runtime.api.session_kernel import SessionKernel
from holdfast.runtime.api.session_network import SessionNetwork
from holdfast.runtime.api.session_shell import SessionShell
from holdfast.runtime.api.session_snapshots import SessionSnapshots
from holdfast.runtime.api.terminal_handle import SessionTerminal
from holdfast.runtime.guest import layout
from holdfast.runtime.guest_rpc.session_channel import SessionChannel
from holdfast.runtime.sessions import health
from holdfast.runtime.store.rows import SessionRow

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.runtime.guest_rpc.shell_report import ShellInfo
    from holdfast.runtime.operations.context import Context
    from holdfast.snapshots.verification import Verification


class Session:
    """One session. Attributes are as of the last call that updated them; `refresh` updates them now.

    Used as a context manager, it is removed at the end if it was made with `new(remove=True)`.
    """

    def __init__(self, context: Context, row: SessionRow, *, remove: bool = False) -> None:
        self._context = context
        self._remove = remove
        self._row = row
        self._line = SessionChannel(context, lambda: self._row)
        self._shell = SessionShell(self._line)
        self._insight = SessionInsight(self._line)
        self._captures = SessionSnapshots(self._line, self._became)
        self._egress = SessionNetwork(self._line, self._became)
        self.kernel = SessionKernel(self._line)
        self.files = SessionFiles(self._line)
        self.programs = SessionPrograms(self._line)

    run = delegate("programs", SessionPrograms.run)
    exec = delegate("_shell", SessionShell.exec)
    check_syntax = delegate("_shell", SessionShell.check_syntax)
    join = delegate("_shell", SessionShell.join)
    send = delegate("_shell", SessionShell.send)
    answer = delegate("_shell", SessionShell.answer)
    interrupt = delegate("_shell", SessionShell.interrupt)
    detach = delegate("_shell", SessionShell.detach)
    tasks = delegate("_insight", SessionInsight.tasks)
    task = delegate("_insight", SessionInsight.task)
    cell = delegate("kernel", SessionKernel.cell)

    pulse = delegate("_insight", SessionInsight.pulse)
    port = delegate("_insight", SessionInsight.port)
    events = delegate("_insight", SessionInsight.events)
    journal = delegate("_insight", SessionInsight.journal)
    drift = delegate("_insight", SessionInsight.drift)

    snapshot = delegate("_captures", SessionSnapshots.snapshot)
    check = delegate("_captures", SessionSnapshots.check)
    fork = delegate("_captures", SessionSnapshots.fork)
    suspend = delegate("_captures", SessionSnapshots.suspend)
    resume = delegate("_captures", SessionSnapshots.resume)
    rewind = delegate("_captures", SessionSnapshots.rewind)
    move = delegate("_captures", SessionSnapshots.move)
    policy = delegate("_captures", SessionSnapshots.policy)
    serve_captures = delegate("_captures", SessionSnapshots.serve_captures)

    network = delegate("_egress", SessionNetwork.network)
    change_network = delegate("_egress", SessionNetwork.change_network)
    allow = delegate("_egress", SessionNetwork.allow)
    disallow = delegate("_egress", SessionNetwork.disallow)
    allow_domains = delegate("_egress", SessionNetwork.allow_domains)
    disallow_domains = delegate("_egress", SessionNetwork.disallow_domains)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        """Leave the session as it is, or remove it if it was made for that (`new(remove=True)`)."""
        if self._remove:
            with contextlib.suppress(SessionNotFound):  # it is gone already
                self.remove()

    def __repr__(self) -> str:
        return f"<Session {self.name} {self.id} {self.state}>"

    @property
    def id(self) -> str:
        """12 hex digits."""
        return self._row.id

    @property
    def name(self) -> str:
        """Unique among existing sessions."""
        return self._row.name

    @property
    def state(self) -> str:
        """`running`, `suspended`, `dead`, `creating` or `removed`."""
        return self._row.state

    @property
    def image(self) -> str:
        """The image it was made from."""
        return self._row.image

    @property
    def created_at(self) -> datetime:
        """When it was made, in UTC."""
        return self._row.created_at

    @property
    def parent_snapshot_id(self) -> str | None:
        """The snapshot it was restored from, if any."""
        return self._row.parent_snapshot_id

    @property
    def verification(self) -> Verification | None:
        """The verification of its last restore; None if its processes were never restored."""
        from holdfast.runtime.verification import verification_result

        return verification_result.of(self._row)

    @property
    def row(self) -> SessionRow:
        """The session's row in the store."""
        return self._row

    def refresh(self) -> Session:
        """Read the store and the state of the container again."""
        with contextlib.suppress(SessionNotFound):
            health.observed(self._context, self._row, set())
        self._row = self._context.store.find_session(self.id, removed=True) or self._row
        return self

    # Terminals.

    @property
    def terminal(self) -> SessionTerminal:
        """The terminal of the main shell: its screen, its keys, its holder."""
        return self.terminal_of(layout.MAIN)

    def terminal_of(self, shell: str) -> SessionTerminal:
        """Return the terminal of a shell."""
        return SessionTerminal(self._line, shell)

    def shell(self, name: str = layout.MAIN) -> ShellInfo:
        """Return what the supervisor reports of a shell."""
        return self.terminal_of(name).info()

    def remove(self) -> None:
        """End the session and remove it; its snapshots stay."""
        from holdfast.runtime.lifecycle import teardown

        teardown.remove(self._context, self.id)

    def _became(self, row: SessionRow) -> Session:
        """Take over the session's new row."""
        self._row = row
        return self
