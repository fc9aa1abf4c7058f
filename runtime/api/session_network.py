"""What a session reaches over the network, as its handle tells and changes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.egress.network_changes import Reach
    from holdfast.runtime.guest_rpc.session_channel import Line
    from holdfast.runtime.store.rows import SessionRow


class SessionNetwork:
    """The network of one session. `became` is told its row when that changed."""

    def __init__(self, line: Line, became: Callable[[SessionRow], Session]) -> None:
        self._line = line
        self._became = became

    def network(self) -> Reach:
        """What the session reaches, and what it was refused lately.

        Raises:
            SessionNotFound, StoreError, HoldfastError: it cannot be told.
        """
        from holdfast.runtime.egress import network_changes

        return network_changes.reach(self._line.context, self._line.row)

    def allow_domains(self, *names: str) -> Session:
        """Let a session that goes by domains reach these as well: NAME, `*.NAME` or NAME:PORT.

        Raises:
            InvalidArgument: the session was not made with domains, or one of these is none.
            NetworkNotClosed, SessionBusy, StoreError, EngineError: nothing was changed.
        """
        return self.change_network(domains=names)

    def disallow_domains(self, *names: str) -> Session:
        """Take domains away. Connections that are open go on. Raises as `allow_domains`."""
        return self.change_network(no_domains=names)

    def allow(self, *places: str) -> Session:
        """Let the session reach HOST:PORT as well: at once if it runs, else from when it goes on.

        A name counts as the addresses it has now, also for places that were allowed before.

        Raises:
            InvalidArgument: the session has no network, or a name no address.
            NetworkNotClosed, SessionBusy, StoreError, EngineError: nothing was changed.
        """
        return self.change_network(allow=places)

    def disallow(self, *places: str) -> Session:
        """Take exceptions away. Connections that are open end with the next packet the session sends.

        Raises:
            InvalidArgument: one of them is not an exception of this session.
            NetworkNotClosed, SessionBusy, StoreError, EngineError: nothing was changed.
        """
        return self.change_network(disallow=places)

    def change_network(
        self,
        network: str | None = None,
        *,
        allow: Sequence[str] = (),
        disallow: Sequence[str] = (),
        domains: Sequence[str] = (),
        no_domains: Sequence[str] = (),
    ) -> Session:
        """Change what the session reaches, in one step. `network` is `internet` or `open`.

        Raises:
            InvalidArgument, NetworkNotClosed, SessionBusy, StoreError, EngineError: nothing was changed.
        """
        from holdfast.runtime.egress import network_changes

        context, row = self._line.context, self._line.row
        changed = network_changes.change(
            context,
            row,
            network=network,
            allow=allow,
            disallow=disallow,
            domains=domains,
            no_domains=no_domains,
        )
        return self._became(changed)
