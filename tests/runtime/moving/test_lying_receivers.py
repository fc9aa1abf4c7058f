"""A receiver's power over the source of a move: each wait for an answer ends, and answers are not
overrated.

Receivers are programs in place of ssh; the effect on a session is tested with an engine
(`tests/integration/test_hostile_receiver.py`).
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.moving import lying_receiver

from holdfast.base.ssh_command import SSH
from holdfast.runtime.moving import move_wire, receiver_channel
from holdfast.runtime.moving.move_wire import Refused, WireBroken
from holdfast.runtime.moving.receiver_channel import ReceiverAddress, ReceiverChannel, ReceiverDestination
from holdfast.snapshots.bundle.endpoints import BlobDescriptor

PART = BlobDescriptor("application/octet-stream", "sha256:" + "0" * 64, 1 << 20)
Reaching = Callable[[str, str], ReceiverChannel]


@pytest.fixture
def reaching(monkeypatch: pytest.MonkeyPatch) -> Reaching:
    """Reach a receiver that misbehaves. Only messages that never come have little time: the machine can be
    busy."""

    def reach(how: str, where: str) -> ReceiverChannel:
        program = [sys.executable, str(Path(lying_receiver.__file__)), how, where]
        monkeypatch.setenv(SSH, shlex.join(program))
        monkeypatch.setattr(receiver_channel, "_LONG", {where: 0.5} if how in ("silent", "drips") else {})
        return ReceiverChannel(ReceiverAddress("box"))

    monkeypatch.setattr(receiver_channel, "_ENDING", 0.1)
    return reach


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("silent", "it has not answered for 0.5 s"),
        ("drips", "it has not answered for 0.5 s"),
        ("endless", "it sent an endless line"),
        ("half-closed", "the connection ended"),
        ("gone", "the connection ended"),
        ("[]", r"it sent '\[\]', which is not of this protocol"),
    ],
)
@pytest.mark.parametrize("where", ["prepare", "import", "start", "find"])
def test_no_answer_is_waited_for_without_end(reaching: Reaching, how: str, where: str, said: str) -> None:
    """A session is suspended while most of these are asked, and an interrupt waits while one is."""
    with reaching(how, where) as receiver:
        receiver.ask("has", digest=PART.digest, size=1)
        with pytest.raises(WireBroken, match=said):
            receiver.ask(where)


def test_a_receiver_that_reads_nothing_ends_the_sending(
    reaching: Reaching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pipe fills, and then nothing more is taken."""
    monkeypatch.setattr(receiver_channel, "STUCK", 0.5)
    with (
        reaching("silent", "put") as receiver,
        pytest.raises(WireBroken, match=r"it has not read anything for 0.5 s"),
    ):
        receiver.put(PART.digest, 64 << 20, io.BytesIO(bytes(64 << 20)))


@pytest.mark.parametrize("there", [-1, 3, 10**30, True, 1.5, "1", None, [1]])
def test_no_layers_are_believed_that_were_not_asked_for(reaching: Reaching, there: object) -> None:
    answer = json.dumps({"ok": True, "there": there})
    with (
        reaching(answer, "layers") as receiver,
        pytest.raises(WireBroken, match="an invalid number of there"),
    ):
        ReceiverDestination(receiver, "here").layers_there(["a", "b"])


@pytest.mark.parametrize("answer", ['{"ok": true}', '{"ok": true, "has": "yes"}', '{"ok": true, "has": 1}'])
def test_a_part_is_sent_unless_reported_as_present(reaching: Reaching, answer: str) -> None:
    with reaching(answer, "has") as receiver:
        assert not ReceiverDestination(receiver, "here").has(PART)


def test_a_failed_import_without_a_name_is_not_this_sides_failure(reaching: Reaching) -> None:
    with reaching('{"ok": true, "kept": "yes", "snapshot": "\\u001b[2J"}', "import") as receiver:
        destination = ReceiverDestination(receiver, "here")
        assert destination.finish(b"{}").isprintable()
        assert not destination.kept


GOOD = lying_receiver.GOOD["start"]
NONE: list[dict[str, Any]] = [
    {},
    {"session": None},
    {"session": "\x1b[2J"},
    {"session": "../../etc"},
    {"session": "0" * 100_000},
    {"session": ["0123456789ab"]},
    GOOD | {"deviations": 7},
    GOOD | {"deviations": {"a": 1}},
    GOOD | {"hooks": "all"},
]


@pytest.mark.parametrize("fields", NONE)
def test_no_session_is_removed_for_an_answer_that_names_none(fields: dict[str, Any]) -> None:
    """A malformed line is not an answer: the session stays, and is asked for again."""
    with pytest.raises(WireBroken):
        move_wire.session_there(move_wire.reply({"ok": True, **fields}))


def test_remarks_are_few_and_plain() -> None:
    many = {"deviations": ["\x1b]52;c;x\x07\u202e" + "x" * 10_000] * 10_000, "hooks": [{}, None, 7]}
    found = move_wire.session_there(GOOD | many)
    assert len(found.deviations) <= 100
    assert all(text.isprintable() and len(text) <= 2000 for text in (*found.deviations, *found.hooks))


@pytest.mark.parametrize("state", [None, 7, ["absent"], "", "Absent", "\x1b[2J", "x" * 30])
def test_a_state_is_a_word(state: object) -> None:
    with pytest.raises(WireBroken, match="in which state"):
        move_wire.state_of({"state": state})
    assert move_wire.state_of({"state": "absent"}) == "absent"


def test_a_refusal_is_one_plain_line() -> None:
    said = {"error": ["x"], "text": "no\n\x1b[2J" + "x" * 9000, "hint": {"a": "\u202e"}}
    with pytest.raises(Refused) as refused:
        move_wire.reply(said)
    for text in (str(refused.value), refused.value.code, refused.value.hint):
        assert text.isprintable()
        assert len(text) <= 2000
