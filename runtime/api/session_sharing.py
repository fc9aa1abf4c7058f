"""Links by which others see a session in their browser, and can type, through a server of this home."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.base import serving_record
from holdfast.errors import ServerUnavailable

if TYPE_CHECKING:
    from holdfast.runtime.access.access_keys import AccessKeys
    from holdfast.runtime.access.shared_links import SharedLink
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel


class SessionSharing:
    """The shared links of one session."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    def share(self, *, typing: bool = False, seconds: float = 7200.0) -> SharedLink:
        """Return a link by which its holders watch the session in their browser, until it ends.

        Each page that it opens is counted, and noted in the journal. It needs `holdfast serve`.

        Args:
            typing: visitors can type, run commands and take the lease as well.
            seconds: how long, at most 30 days.

        Raises:
            ServerUnavailable: no server of this home runs, or none that browsers reach.
            InvalidArgument: it would last too long.
        """
        from holdfast.runtime.access import shared_links

        context, row = self._line.context, self._line.row
        reached = [each.url for each in serving_record.running(context.home) if each.url.startswith("http")]
        if not reached:
            raise ServerUnavailable(
                f"cannot share session {row.name}: no server of this home runs that browsers reach",
                hint="`holdfast serve` starts one; keep it running while the link is used",
            )
        server = serving_record.reached_here(reached[0])
        return shared_links.share(context, self._keys(), row, server, typing=typing, lasting=seconds)

    def shares(self) -> list[SharedLink]:
        """Return the session's links, the oldest first, with the number of their visits."""
        from holdfast.runtime.access import shared_links

        return shared_links.links(self._keys(), self._line.known.id)

    def revoke_share(self, link: str) -> SharedLink:
        """End a link, by its name: the pages that it opened are cut within a second.

        Raises:
            InvalidArgument: the session does not have a valid link with that name.
        """
        from holdfast.runtime.access import shared_links

        return shared_links.revoke(self._line.context, self._keys(), link, self._line.known.id)

    def _keys(self) -> AccessKeys:
        from holdfast.runtime.access.access_keys import AccessKeys

        return AccessKeys(self._line.context.home.root)
