"""Reaching a remote machine's engine: the command, and its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.engine_place import EnginePlace
from holdfast.errors import EngineUnavailable, InvalidArgument
from holdfast.runtime.remote import relay
from holdfast.runtime.remote.relay import connected, forwarding

LOCAL = Path("/tmp/local")


@pytest.mark.parametrize(
    ("url", "end"),
    [
        ("ssh://host", ["-L", "/tmp/local:/var/run/docker.sock", "host"]),
        ("ssh://host/", ["-L", "/tmp/local:/var/run/docker.sock", "host"]),
        ("ssh://me@host:2222", ["-L", "/tmp/local:/var/run/docker.sock", "-p", "2222", "-l", "me", "host"]),
        ("ssh://[fe80::1]/run/d.sock", ["-L", "/tmp/local:/run/d.sock", "fe80::1"]),
    ],
)
def test_the_engines_socket_is_forwarded(url: str, end: list[str]) -> None:
    command = forwarding(EnginePlace(url), LOCAL, {})
    assert command[0] == "ssh"
    assert command[-len(end) :] == end


def test_a_command_other_than_ssh() -> None:
    command = forwarding(EnginePlace("ssh://host"), LOCAL, {"HOLDFAST_SSH": "ssh -F 'my config'"})
    assert command[:3] == ["ssh", "-F", "my config"]


@pytest.mark.parametrize(
    "url",
    [
        "ssh://",
        "ssh://-oProxyCommand=x",
        "ssh://-lroot@host",
        "ssh://host:port",
        "ssh://me:word@host",
        "ssh://[x",
    ],
)
def test_invalid_addresses_are_refused(url: str) -> None:
    """An option for ssh above all."""
    with pytest.raises(InvalidArgument, match="its address is not one for ssh"):
        forwarding(EnginePlace(url), LOCAL, {})


def test_a_command_that_is_not_one() -> None:
    with pytest.raises(InvalidArgument, match="HOLDFAST_SSH"):
        forwarding(EnginePlace("ssh://host"), LOCAL, {"HOLDFAST_SSH": "ssh '"})


def test_no_ssh_at_all() -> None:
    with (
        pytest.raises(EngineUnavailable, match="no-such-ssh cannot be run"),
        connected(EnginePlace("ssh://host"), {"HOLDFAST_SSH": "no-such-ssh"}),
    ):
        pass


def test_a_login_that_fails_is_explained_by_its_last_line(tmp_path: Path) -> None:
    command = tmp_path / "ssh"
    command.write_text(
        "#!/bin/sh\nprintf 'Welcome\\n\\033[1mPermission denied (publickey).\\n' >&2\nexit 255\n"
    )
    command.chmod(0o755)
    with (
        pytest.raises(EngineUnavailable) as failed,
        connected(EnginePlace("ssh://host", "work"), {"HOLDFAST_SSH": str(command)}),
    ):
        pass
    assert "over SSH (context work): " in str(failed.value)
    assert str(failed.value).endswith("Permission denied (publickey).")
    assert "\033" not in str(failed.value)


def test_a_login_that_never_comes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_PATIENCE_SECONDS", 0.2)
    command = tmp_path / "ssh"
    command.write_text("#!/bin/sh\nexec sleep 60\n")
    command.chmod(0o755)
    with (
        pytest.raises(EngineUnavailable, match="ssh did not log in"),
        connected(EnginePlace("ssh://host"), {"HOLDFAST_SSH": str(command)}),
    ):
        pass
