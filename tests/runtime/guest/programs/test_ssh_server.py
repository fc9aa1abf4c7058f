"""Servers of ssh in a session: their input, and the end of a connection without one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.programs.ssh_server import PLACE, settings


def test_a_server_takes_the_callers_key_and_nothing_else() -> None:
    lines = settings(Path("/var/lib/holdfast/ssh/000001"), {}, ()).splitlines()
    assert "AuthorizedKeysFile /var/lib/holdfast/ssh/000001/client_keys" in lines
    assert {
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "AllowAgentForwarding no",
        "X11Forwarding no",
        "PermitTunnel no",
    } <= set(lines)
    assert not [line for line in lines if line.startswith(("SetEnv", "Sshd"))]


def test_the_parts_of_a_server_stand_next_to_it() -> None:
    """Older releases of OpenSSH have one program and refuse the names of others."""
    said = settings(Path("/f"), {}, ("sshd", "sshd-session", "lib"))
    assert f"SshdSessionPath {PLACE}/sshd-session\n" in said
    assert "SshdAuthPath" not in said


def test_no_variable_is_read_as_more_than_one() -> None:
    environment = {
        "PATH": "/opt/python/bin:/bin",
        "SAID": 'a "b" \\ c #d',
        "HOME": "/elsewhere",
        "LINES\nPermitTunnel yes": "x",
        "CUT": "a\nPermitTunnel yes",
        "LONG": "x" * 5000,
    }
    last = settings(Path("/f"), environment, ()).splitlines()[-1]
    assert last == 'SetEnv "PATH=/opt/python/bin:/bin" "SAID=a \\"b\\" \\\\ c #d"'


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b"{" * 100_000, b'{"host_key": "a"}'])
def test_invalid_key_files_are_refused(guest: Guest, payload: bytes) -> None:
    with pytest.raises(Refused, match="its keys must be texts") as refused:
        guest.ask("ssh_connect", payload)
    assert refused.value.code == "invalid"


def test_a_session_without_the_server_says_so(guest: Guest) -> None:
    """As one does that was captured before there was any."""
    assert not PLACE.exists()
    with pytest.raises(Refused, match="lacks an ssh server") as refused:
        guest.ask("ssh_connect", json.dumps({"host_key": "a", "client_keys": "b"}).encode())
    assert refused.value.code == "no_ssh"
    assert guest.ask("hello")[0].head["ssh"] == 0
