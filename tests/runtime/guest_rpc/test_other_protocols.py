"""Supervisors of different versions: shared requests are carried out, and the rest is refused in words."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.errors import GuestError, ProtocolError
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.wire import protocol
from holdfast.runtime.guest.wire.call import ClientCall
from holdfast.runtime.guest.wire.protocol import OLDEST, VERSION, Frame
from holdfast.runtime.guest.wire.supervisor_server import Server
from holdfast.runtime.guest_rpc.guest_client import GuestClient, raise_error


class _Idle:
    """As much of a session as the server asks."""

    past = None
    requests = 0

    def arrive(self) -> None:
        """Do nothing."""


async def _done(_: Guest, call: ClientCall) -> None:
    await call.finish("done")


def _asked(folder: Path, op: str) -> Frame:
    """Return a supervisor's answer to a request of this version."""

    async def ask() -> Frame:
        server = Server(folder / "guest.sock", cast("Guest", _Idle()), {"exec": _done, "weigh": _done})
        await server.listen()
        try:
            return await asyncio.to_thread(GuestClient(folder).request, op)
        finally:
            await server.close()

    return asyncio.run(ask())


def _speaking(monkeypatch: pytest.MonkeyPatch, oldest: int, newest: int) -> None:
    """Give the supervisor a different version."""
    monkeypatch.setattr(protocol, "OLDEST", oldest)
    monkeypatch.setattr(protocol, "VERSION", newest)
    monkeypatch.setattr("holdfast.runtime.guest.wire.supervisor_server.VERSION", newest)


def test_a_newer_supervisor_carries_out_an_older_hosts_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as it knows that version."""
    head = protocol.request("exec", {})
    _speaking(monkeypatch, OLDEST, VERSION + 3)
    monkeypatch.setattr(protocol, "request", lambda op, fields: {**head, "op": op, **fields})
    assert _asked(tmp_path, "exec").event == "done"
    _speaking(monkeypatch, VERSION + 1, VERSION + 3)
    with pytest.raises(ProtocolError, match="a newer version of Holdfast made its supervisor") as refused:
        _asked(tmp_path, "exec")
    assert refused.value.hint == "upgrade Holdfast"


def test_an_older_supervisor_carries_out_known_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request whose meaning has changed since is refused by it, not misunderstood."""
    monkeypatch.setattr(protocol, "SINCE", {"weigh": VERSION + 1})
    assert _asked(tmp_path, "exec").event == "done"
    with pytest.raises(ProtocolError, match="an older version of Holdfast made its supervisor") as refused:
        _asked(tmp_path, "weigh")
    assert f"(protocol {VERSION}; it takes {VERSION + 1})" in str(refused.value)
    assert "everything else works as before" in refused.value.hint
    monkeypatch.setattr(protocol, "VERSION", VERSION + 1)
    assert _asked(tmp_path, "weigh").event == "done"


def test_missing_operations_of_an_older_supervisor_are_named(tmp_path: Path) -> None:
    with pytest.raises(GuestError, match="cannot do 'unheard': no such operation") as refused:
        _asked(tmp_path, "unheard")
    assert "an older version of Holdfast made the session" in refused.value.hint


@pytest.mark.parametrize("version", [None, True, "1", 1.0, [1], -1, 0, VERSION + 1, 10**30])
def test_unknown_versions_are_refused(version: Any) -> None:
    """Whatever a client sends in its place, only a number in the range counts."""
    assert protocol.is_understood(VERSION)
    assert not protocol.is_understood(json.loads(json.dumps(version)))


def test_invalid_numbers_are_not_shown() -> None:
    frame = Frame({"event": "error", "code": "version", "message": "speaks protocol \x1b[2J" + "9" * 50})
    with pytest.raises(ProtocolError, match="cannot use the session") as refused:
        raise_error(frame)
    assert "999" not in str(refused.value)
