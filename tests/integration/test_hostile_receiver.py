"""A session whose receiver lies or is silent: it stays here, and runs unless it could be running there."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.moving import lying_receiver

from holdfast.base.ssh_command import SSH
from holdfast.errors import MoveFailed, OutcomeUnknown
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.moving import move_session, receiver_channel

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]


def _is(monkeypatch: pytest.MonkeyPatch, how: str, where: str, *more: str) -> None:
    """Let the receiver misbehave; only an answer that never comes has little time."""
    program = [sys.executable, str(Path(lying_receiver.__file__)), how, where, *more]
    monkeypatch.setenv(SSH, shlex.join(program))
    monkeypatch.setattr(receiver_channel, "_LONG", {where: 2.0} if how == "silent" else {})


def test_a_session_outlives_its_receivers(hf: Holdfast, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is suspended, after it is sent, and when it could have been started: its programs
    continue."""
    session = hf.new("work")
    session.exec("x=kept")
    for how, where, said in (
        ("silent", "import", "it has not answered for 2 s"),
        ('{"ok": true}', "start", "it does not say which session it has started"),
    ):
        _is(monkeypatch, how, where)
        with pytest.raises(MoveFailed, match=said) as failed:
            hf.session("work").move("box")
        assert "it continues here" in failed.value.hint
        assert hf.session("work").exec("echo $x").text == "kept\n"
    assert [each.name for each in hf.sessions()] == ["work"]

    monkeypatch.setattr(move_session, "ASKING", 1.0)
    _is(monkeypatch, '{"ok": true}', "start", '{"ok": true, "state": 7}', "find")
    with pytest.raises(OutcomeUnknown, match="cannot tell whether work runs at box"):
        hf.session("work").move("box")
    assert [each.state for each in hf.sessions()] == ["suspended"]
    assert cli("resume", "work", "--here").code == 0
    assert hf.session("work").exec("echo $x").text == "kept\n"
