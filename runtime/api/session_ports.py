"""The ports of a session for people: the listening programs, their answers, and links that open one port.

A program of the session is hostile: its answer has two seconds and some bytes. To look is not activity.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.base import serving_record
from holdfast.errors import HoldfastError, ServerUnavailable
from holdfast.runtime.api import pulse_calls
from holdfast.runtime.pulse.listening_ports import ListeningPort, Preview, page_title
from holdfast.runtime.sessions import preview_grants

if TYPE_CHECKING:
    from holdfast.runtime.guest_rpc.session_channel import SessionChannel
    from holdfast.runtime.pulse.facts import Socket
    from holdfast.runtime.pulse.pulse import Probe, Pulse
    from holdfast.runtime.store.rows import SessionRow
    from holdfast.runtime.store.store import Store

ANSWER_SECONDS = 2.0
"""For all ports together to answer in."""
MOST_TRIED = 32
"""Ports that are asked together; each takes a connection into the session, which has room for 128."""
ENGINE_RESOLVER = "127.0.0.11"
"""Docker's own resolver listens there in the session's network, as no process of the session."""


class SessionPorts:
    """The ports of one session."""

    def __init__(self, line: SessionChannel) -> None:
        self._line = line

    def ports(self) -> list[ListeningPort]:
        """Return the ports at which a program listens, by number, with its answer.

        Each is sent one request for `/`, unless its server speaks first or is a database by its number; one
        that stays silent for two seconds is reported as silent.

        Raises:
            SessionDead, SessionError: the session cannot be used.
        """
        line = self._line
        pulse = pulse_calls.look(line, line.known, parts=("processes", "sockets"))
        sockets: dict[int, list[Socket]] = {}
        for each in pulse.listening():
            resolver = each.local == ENGINE_RESOLVER and not each.owners
            if each.protocol.startswith("tcp") and each.local_port and not resolver:
                sockets.setdefault(each.local_port, []).append(each)
        until = time.monotonic() + ANSWER_SECONDS
        found = {number: _untried(pulse, number, sockets[number]) for number in sorted(sockets)}
        asking = []
        for number in list(found)[:MOST_TRIED]:
            found[number] = replace(found[number], answer="silent")
            # Of no pool: nothing waits for a thread whose server does not answer.
            thread = threading.Thread(target=_try, args=(line, sockets[number][0], found, until), daemon=True)
            thread.start()
            asking.append(thread)
        for thread in asking:
            thread.join(max(0.0, until - time.monotonic()))
        return list(dict(found).values())

    def preview(self, port: int, *, public: bool = False, seconds: float = preview_grants.SECONDS) -> Preview:
        """Return a link by which a browser sees the server at a port, through a server of this home.

        The link opens this port of this session only, whatever listens there; it stays valid when the session
        is captured, resumed or rewound, and ends with the session, or by `revoke_preview`. A link can be
        made before its program listens.

        Args:
            port: a port of the session's loopback, or of all its addresses.
            public: everyone who knows the name of the port sees it, without a link.
            seconds: how long, at most 30 days.

        Raises:
            ServerUnavailable: no server runs, or none that browsers reach.
            InvalidArgument: the port is not between 1 and 65535, or the time is too long.
            SessionNotFound: the session was removed.
        """
        context, row = self._line.context, self._line.row
        server = _server(serving_record.running(context.home), port)
        return link(context.store, row, port, server, public=public, seconds=seconds)

    def revoke_preview(self, port: int) -> None:
        """End all links of a port, and make it private; visits end within seconds."""
        preview_grants.revoke(self._line.context.store, self._line.known.id, port)


def link(
    store: Store,
    row: SessionRow,
    port: int,
    server: serving_record.ServingRecord,
    *,
    public: bool,
    seconds: float,
) -> Preview:
    """Grant a preview, and return its link at a server; raises as `SessionPorts.preview` does."""
    now = time.time()
    grant = preview_grants.grant(store, row.id, port, seconds=seconds, public=public, now=now)
    scheme, _, host = server.previews.partition("://")
    url = f"{scheme}://{preview_grants.host_label(port, row.name, row.id)}.{host}/"
    if public:
        return Preview(url, port, public=True, expires_at=grant.public_until)
    ends_at = int(now + seconds)
    token = grant.token(server.stamp, row.id, port, ends_at)
    return Preview(f"{url}?{preview_grants.PARAMETER}={token}", port, grant.is_public(now), float(ends_at))


def _server(running: list[serving_record.ServingRecord], port: int) -> serving_record.ServingRecord:
    for each in running:
        if each.previews:
            return each
    if running:
        raise ServerUnavailable(
            f"cannot preview port {port}: browsers do not reach the server at {running[0].url}",
            hint="`holdfast serve` on a port of loopback, or with --preview-url, makes links",
        )
    raise ServerUnavailable(
        f"cannot preview port {port}: no server of this home runs",
        hint="`holdfast serve` starts one; keep it running while links are used",
    )


def _untried(pulse: Pulse, number: int, sockets: list[Socket]) -> ListeningPort:
    owner = next((each.owners[0].pid for each in sockets if each.owners), None)
    process = None if owner is None else pulse.process(owner)
    addresses = tuple(dict.fromkeys(each.local or "" for each in sockets))
    return ListeningPort(number, addresses, owner, process.command if process else "", "untried")


def _try(line: SessionChannel, socket: Socket, found: dict[int, ListeningPort], until: float) -> None:
    """Find out what kind of server answers, and record it if there is time."""
    number = socket.local_port or 0
    with suppress(HoldfastError, OSError):
        noted = _of_probe(found[number], pulse_calls.probe(line, socket, speak=True, page=True))
        if time.monotonic() < until:
            found[number] = noted


def _of_probe(port: ListeningPort, probe: Probe) -> ListeningPort:
    match probe.answer:
        case "accepted" if probe.http_status is not None:
            page = (probe.page or "").encode("latin-1", "replace")
            return replace(port, answer="http", status=probe.http_status, title=page_title(page)[1])
        case "accepted":
            return replace(port, answer="other")
        case "timeout":
            return replace(port, answer="silent")
        case _:
            return replace(port, answer="unreachable")
