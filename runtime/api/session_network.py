"""The network rules of a session, as its handle reads and changes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.runtime.api.session import Session
    from holdfast.runtime.egress.network_changes import Reach
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.store.rows import SessionRow


class SessionNetwork:
    """The network of one session. `became` is called with its new row after a change."""

    def __init__(self, line: SessionChannel, became: Callable[[SessionRow], Session]) -> None:
        self._line = line
        self._became = became

    def network(self) -> Reach:
        """Return the hosts that the session can reach, and recent refusals.

        Raises:
            SessionNotFound, StoreError, HoldfastError: the rules cannot be read.
        """
        from holdfast.runtime.egress import network_changes

        return network_changes.reach(self._line.context, self._line.row)

    def allow_domains(self, *names: str) -> Session:
        """Allow further domains for a session with a list of domains: NAME, `*.NAME` or NAME:PORT.

        Raises:
            InvalidArgument: the session was not made with domains, or one of these is not valid.
            NetworkNotClosed, SessionBusy, StoreError, EngineError: nothing was changed.
        """
        return self.change_network(domains=names)

    def disallow_domains(self, *names: str) -> Session:
        """Remove domains. Open connections continue. Raises as `allow_domains` does."""
        return self.change_network(no_domains=names)

    def allow(self, *places: str) -> Session:
        """Let the session also reach HOST:PORT: immediately if it runs, otherwise once it is resumed.

        An address or a network without a port is exempt from denials; that opens nothing private. A name
        stands for the addresses it has now, also in earlier exceptions.

        Raises:
            InvalidArgument: the session does not have a network, or a name does not have an address.
            NetworkNotClosed, SessionBusy, StoreError, EngineError: nothing was changed.
        """
        return self.change_network(allow=places)

    def disallow(self, *places: str) -> Session:
        """Remove exceptions. Open connections end with the next packet that the session sends.

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
        deny: Sequence[str] = (),
        no_deny: Sequence[str] = (),
        domains: Sequence[str] = (),
        no_domains: Sequence[str] = (),
    ) -> Session:
        """Change the network rules in one step. `network` is `internet` or `open`.

        `deny` closes addresses and networks, except for allowed ones; `no_deny` lifts denials.

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
            deny=deny,
            no_deny=no_deny,
            domains=domains,
            no_domains=no_domains,
        )
        return self._became(changed)
