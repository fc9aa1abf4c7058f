"""What becomes of a connection that is none."""

from __future__ import annotations

import pytest

from holdfast.base.ssh_command import SSH
from holdfast.errors import MoveFailed
from holdfast.runtime.moving import receiver_channel
from holdfast.runtime.moving.receiver_address import ReceiverAddress
from holdfast.runtime.moving.receiver_channel import ReceiverChannel


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
def test_what_is_no_receiver_is_told_from_one(ssh: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
