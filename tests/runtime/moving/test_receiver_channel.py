"""The fate of a connection to another program."""

from __future__ import annotations

import pytest

from holdfast.base.ssh_command import ALIVE, SSH
from holdfast.errors import InvalidArgument, MoveFailed
from holdfast.runtime.moving import receiver_channel
from holdfast.runtime.moving.receiver_channel import ReceiverAddress, ReceiverChannel


@pytest.mark.parametrize(
    ("ssh", "said"),
    [
        ("/no/such/ssh", "/no/such/ssh: No such file"),
        ("false", "the connection ended, and ended with 1"),
        ("sh -c 'exit 127'", "there is no command holdfast"),
        ("sh -c 'echo Menu; exit 0'", "it sent 'Menu' instead of a greeting"),
        ("sh -c 'echo Menu; exec sleep 60'", "it sent 'Menu' instead of a greeting"),
        ("sh -c 'exec cat /dev/zero'", "instead of a greeting"),
    ],
)
def test_other_programs_are_not_taken_for_a_receiver(
    ssh: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that only waits."""
    monkeypatch.setenv(SSH, ssh)
    monkeypatch.setattr(receiver_channel, "GREETING", 0.5)
    with (
        pytest.raises(MoveFailed, match=r"cannot reach .*box: ") as failed,
        ReceiverChannel(ReceiverAddress("box")),
    ):
        pass
    assert said in str(failed.value)
    assert failed.value.hint


@pytest.mark.parametrize(
    ("text", "ssh"),
    [
        ("box", ["box"]),
        ("ann@box.example", ["ann@box.example"]),
        ("ssh://box", ["box"]),
        ("ssh://ann@box:2222/", ["-p", "2222", "ann@box"]),
        ("ssh://[fe80::1]:22", ["-p", "22", "fe80::1"]),
        ("ann@[::1]", ["ann@::1"]),
    ],
)
def test_addresses_are_given_to_ssh(text: str, ssh: list[str]) -> None:
    command = ReceiverAddress.parse(text).command({})
    assert command == ["ssh", *ALIVE, *ssh, "holdfast receive"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "-oProxyCommand=x", "ssh://-oProxyCommand=x", "a b", "a;b", "a\nb", "ann@", "@box", "a@b@c"),
        *(
            "box:22",
            "ssh://box:0",
            "ssh://box:65536",
            "ssh://box:x",
            "tcp://box",
            "ssh://box/path",
            "b\u00f6x",
        ),
    ],
)
def test_ambiguous_ssh_arguments_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot move to"):
        ReceiverAddress.parse(text)


def test_an_empty_command_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="empty"):
        ReceiverAddress.parse("box", " ")


def test_another_ssh_can_be_named() -> None:
    address = ReceiverAddress.parse("ssh://box:22", "/opt/holdfast --json")
    given = {"HOLDFAST_SSH": "ssh -F 'my config'"}
    expected = ["ssh", "-F", "my config", "-p", "22", "box", "/opt/holdfast --json receive"]
    assert address.command(given) == expected
    with pytest.raises(InvalidArgument, match="HOLDFAST_SSH"):
        address.command({"HOLDFAST_SSH": "ssh 'open"})
