from __future__ import annotations

import shlex
import subprocess
import time
from typing import cast

import pytest

from holdfast.base import suggestion
from holdfast.base.text import plain
from holdfast.runtime.api.thawing import Thawed
from holdfast.runtime.cli.elsewhere_verbs import how
from holdfast.runtime.guest.pulse.state import State
from holdfast.runtime.guest_rpc.wait_state import advice
from holdfast.runtime.pytest_plugin import holdfast_pytest
from holdfast.runtime.restore.compat.snapshot_ladder import instead
from holdfast.snapshots.failure import Debugger
from holdfast.snapshots.fitness import Ladder, Name, Rung

HOSTILE = (
    "holdfast-debug 1; touch CANARY; echo",
    "$(touch CANARY)",
    "`touch CANARY`",
    "x' ; touch CANARY; '",
    'x" && touch CANARY; "',
    "x | touch CANARY",
    "x\ntouch CANARY",
    "\x1b[2J\x1b]52;c;eA==\x07 \x9b6n",
    "a \u202etxt.exe\u202c \u200b b",
    "~ * ? {a,b} !x #y \\",
    "",
    "é 日本",
)


class _Session:
    name = "th"


class _Thawed:
    session = _Session()

    def __init__(self, debugger: Debugger | None) -> None:
        self.debugger = debugger


def suggested(debugger: Debugger | None) -> list[str]:
    return how(cast(Thawed, _Thawed(debugger)))


def words_of(line: str) -> list[bytes]:
    """The words that bash makes of a command, without running it."""
    printed = subprocess.run(
        ["bash", "-c", f"holdfast() {{ printf '%s\\0' holdfast \"$@\"; }}; {line}"],
        capture_output=True,
        check=True,
    ).stdout
    return printed.split(b"\0")[:-1]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_word_stays_the_word_it_is(text: str) -> None:
    """A shell runs no part of it, and the whole word is shown."""
    line = suggestion.command("exec", "name", text)

    assert words_of(line) == [b"holdfast", b"exec", b"name", text.encode()]
    assert plain(line) == line


@pytest.mark.parametrize("text", [text for text in HOSTILE if text])
def test_commands_that_thaw_suggests_are_quoted(text: str) -> None:
    """Where the debugger is comes from the program that was captured."""
    kept = Debugger(command=text).command or ""
    first, last = suggested(Debugger(command=text))
    assert words_of(first) == [b"holdfast", b"exec", b"th", kept.encode()]
    assert last == "holdfast attach th"

    kept = Debugger(job=text).job or ""
    shown, sent = suggested(Debugger(job=text))
    assert words_of(shown) == [b"holdfast", b"output", b"th", b"-f", kept.encode()]
    assert words_of(sent) == [b"holdfast", b"send", b"th", b"--job", kept.encode(), b"-e", b"TEXT"]


def test_words_in_commands_that_thaw_suggests_are_not_options() -> None:
    """Neither for `exec`, which has --raw, nor for `output`."""
    assert suggested(Debugger(command="--raw x"))[0] == "holdfast exec th ' --raw x'"
    assert suggested(Debugger(job="--raw")) == []
    assert suggested(None) == ["holdfast attach th"]
    assert suggested(Debugger(command="holdfast-debug 3"))[0] == "holdfast exec th 'holdfast-debug 3'"


def test_a_command_that_cannot_be_shown_whole_is_not_suggested() -> None:
    """A truncated command would be a different command."""
    assert suggestion.command("exec", "th", "x" * 400) == ""
    assert suggested(Debugger(command="x" * 400)) == ["holdfast attach th"]


def test_siblings_are_quoted() -> None:
    """Suggestions for answering a job, for restoring differently, for thawing a captured test."""
    asks = State("waiting", "line", since=time.time())
    assert "--job 'x; touch CANARY' -e TEXT" in advice("name", asks, "x; touch CANARY")
    assert "`holdfast send name -e TEXT`" in advice("name", asks)

    names: tuple[Name, ...] = ("live", "commands", "files")
    found = Ladder(rungs=[Rung(name=name, possible=name == "files") for name in names])
    assert "`holdfast restore 'a;b' --as files`" in instead(found, "live", "restore", "a;b")

    thaw = holdfast_pytest._thaw("captured/a test;touch CANARY.holdfast")
    assert shlex.split(thaw) == ["holdfast", "thaw", "captured/a test;touch CANARY.holdfast"]
