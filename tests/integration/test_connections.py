"""What becomes of connections: within a session all of them go on, to outside only the parent's do."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.runtime.controller import Holdfast

pytestmark = pytest.mark.engine

WITHIN = ("tcp", "tcp6", "tcp-own", "unix", "pair", "udp", "udp6", "udp-own", "unix-datagrams", "packets")


def test_streams_within_a_session_lose_no_byte(hf: Holdfast, witnesses: Any) -> None:
    """Both directions, full buffers, TCP on ::1, 127.0.0.1 and the own address, UNIX sockets, datagrams."""
    session = hf.new("talking")
    witnesses.start(hf, session, *WITHIN)
    copy = session.snapshot().restore("copy")
    again = copy.snapshot().restore("again")
    for each in (session, copy, again):
        assert witnesses.wrong(each, 20) == {}
    # A datagram may be lost in a copy, as anywhere; in the parent none is.
    assert {kind: said["notes"] for kind, said in witnesses.ask(session).items() if said["notes"]} == {}
