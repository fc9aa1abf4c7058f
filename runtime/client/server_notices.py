"""Notices of a server's sessions: the subscriptions of one actor, made, tried and removed over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from holdfast.base import actors
from holdfast.runtime.client import client_address, client_values
from holdfast.runtime.client.blocking.remote_transport import RemoteTransport
from holdfast.runtime.client.http_call import HttpCall, place
from holdfast.runtime.http_doors.admission import ACTOR_HEADER
from holdfast.runtime.serve.models.notice_models import SubscriptionAnswer

_PATH = "notices"


class Notices:
    """The subscriptions of an actor at a server, which sends the notices.

    Args:
        url: of the server; by default HOLDFAST_URL, else a running server of this home.
        token: its token, or an access key; by default as for `Holdfast(url)`.
        actor: whose subscriptions; by default the person at this terminal, or the actor of the key.

    Raises:
        ServerUnavailable: no server runs.
        InvalidArgument: the URL is not valid, or the token is missing.
    """

    def __init__(self, url: str | None = None, token: str | None = None, *, actor: str | None = None) -> None:
        address = (
            client_address.served("use notices") if url is None else client_address.address_of(url, token)
        )
        headers = {ACTOR_HEADER: actors.checked(actor)} if actor else {}
        self._transport = RemoteTransport(address, headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the server. Subscriptions continue."""
        self._transport.close()

    def list(self) -> list[SubscriptionAnswer]:
        """Return the subscriptions, the oldest first, with the reason why the last notice did not arrive."""
        found = self._ask("GET")
        return [SubscriptionAnswer.model_validate(each) for each in client_values.tables(found)]

    def add(
        self,
        webhook: str,
        *,
        session: str | None = None,
        kinds: Iterable[str] | None = None,
        after: float = 60.0,
        quiet: str = "",
    ) -> SubscriptionAnswer:
        """Subscribe a URL, which gets a signed POST for each notice; the answer has the secret, once.

        Args:
            webhook: the URL; it must be public and `https`, unless the server allows its network.
            session: the only session; all of the server by default.
            kinds: of notices: `waiting`, `ended`, `failed`, `died`; all by default.
            after: the seconds that a command must have run for a notice of its end.
            quiet: hours without notices, such as `22:00-07:00 Europe/Berlin`.

        Raises:
            InvalidArgument: one of them is not valid, or there are too many subscriptions.
        """
        body: dict[str, Any] = {"webhook": webhook, "after": after, "quiet": quiet}
        body |= {"session": session} if session else {}
        body |= {"kinds": list(kinds)} if kinds is not None else {}
        return SubscriptionAnswer.model_validate(client_values.table(self._ask("POST", body=body)))

    def test(self, subscription: str) -> str:
        """Send a trial, and return why it did not arrive; empty if it did.

        Raises:
            InvalidArgument: the actor does not have a subscription with that id.
        """
        return str(client_values.table(self._ask("POST", subscription, "try")).get("trouble", ""))

    def remove(self, subscription: str) -> None:
        """Remove a subscription; raises as `test` does."""
        self._ask("DELETE", subscription)

    def _ask(self, method: str, *what: str, body: dict[str, Any] | None = None) -> Any:
        return self._transport.ask(HttpCall(method, place(_PATH, *what), body=body))
