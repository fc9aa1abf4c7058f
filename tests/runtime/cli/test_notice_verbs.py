"""Notices that a terminal shows: the sequences, and the texts of a session, which cannot control them."""

from __future__ import annotations

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import notice_verbs
from holdfast.runtime.notices.notice_rules import SessionNotices


def test_a_terminal_is_told_in_its_own_way() -> None:
    assert notice_verbs.terminal_notice("a; b", "c; d", "osc777") == "\x1b]777;notify;a, b;c; d\x1b\\"
    assert notice_verbs.terminal_notice("a", "b", "osc9") == "\x1b]9;a: b\x1b\\"
    assert notice_verbs.terminal_notice("a", "", "osc9") == "\x1b]9;a\x1b\\"


@pytest.mark.parametrize("way", ["osc9", "osc777"])
def test_what_a_session_says_does_not_end_the_sequence(way: str) -> None:
    rules = SessionNotices("6bd7a1f3c10e", "work")
    data = {"id": "1", "command": "evil \x1b\\\x07\x9c\x1b]52;c;ZXZpbA==\x07", "exit_code": 1, "duration": 1}
    found = rules.hear("command_ended", data, 1.0, 1.0)
    assert found is not None
    sent = notice_verbs.terminal_notice(found.title, found.text, way)
    inner = sent.removeprefix("\x1b]").removesuffix("\x1b\\")
    assert not any(each < " " or "\x7f" <= each <= "\x9f" for each in inner)


def test_wishes_are_checked_before_anything_is_followed() -> None:
    with pytest.raises(InvalidArgument, match="cannot notify of 'sleeping'"):
        notice_verbs._wish("", ["sleeping"], None, None)
    with pytest.raises(InvalidArgument, match="cannot keep quiet at 'never'"):
        notice_verbs._wish("", None, None, "never")
    assert notice_verbs._wish("", ["died"], "0", "").after == 0.0
