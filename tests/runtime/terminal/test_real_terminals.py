"""The effect of hostile output on real terminals, unfiltered and filtered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.hostile_output import COPIED, MARK, cases
from tests.terminals import real

from holdfast.runtime.attachment.screen_state import shown
from holdfast.runtime.terminal.allowed_controls import Use
from holdfast.runtime.terminal.emulator import MODES, Emulator
from holdfast.runtime.terminal.safe_output import SafeOutput

HOSTILE = cases()
# Output of real programs for a terminal of 24 x 80: vim, less, top, htop, ls, bash, tmux, progress bars …
# Most are cut while the program runs.
RECORDINGS = sorted((Path(__file__).parents[2] / "recordings").glob("*.vt"))
# Asked at the end, as it is: what is in the clipboard, and what the title is. xterm 379 crashes when it is
# asked for its clipboard here.
CLIPBOARD = [b"\x1b]52;c;?\x07", b"\x1b]52;p;?\x07"]
LEFT = {"tmux": CLIPBOARD, "screen": [], "xterm": [b"\x1b[21t", b"\x1b[20t"]}
# The known answers of each terminal, so that a probe that receives nothing is noticed.
ANSWERED = {
    "tmux": {
        "question: DA1",
        "question: DA2",
        "question: DSR status",
        "question: DSR cursor",
        "question: XTVERSION",
        "question around VT: DSR cursor",
        "shape: a NUL inside",
        "shape: a control behind ESC",
        "shape: a question in a title",
    },
    "screen": {
        "question: DA1",
        "question: DA2",
        "question: DSR status",
        "question: DSR cursor",
        "shape: a vertical tab inside",
    },
    "xterm": {
        "question: DA1",
        "question: DECRQCRA of the screen",
        "question: XTWINOPS title",
        "question around VT: DSR cursor",
        "OSC: palette read",
        "OSC: highlight read",
        "other: DECRQSS style",
        "other: XTGETTCAP",
        "other: DECID",
        "other: ENQ",
    },
}


@pytest.mark.parametrize("terminal", ANSWERED)
def test_a_terminal_answers_nothing_and_keeps_nothing(terminal: str, tmp_path: Path) -> None:
    """Of more than 500 attacks, filtered for a viewer and for a writer."""
    passed = [SafeOutput(use).feed(data) for use in Use for data in HOSTILE.values()]
    said, held = real.answers(terminal, [*passed, *LEFT[terminal]], tmp_path)

    names = [f"{use.value}: {name}" for use in Use for name in HOSTILE]
    assert {name: answer for name, answer in zip(names, said, strict=False) if answer} == {}
    left = b"".join(said[len(names) :])
    assert MARK not in held
    assert MARK.encode() not in left
    assert COPIED.rstrip("=").encode() not in left


@pytest.mark.parametrize("terminal", ANSWERED)
def test_the_same_attacks_succeed_unfiltered(terminal: str, tmp_path: Path) -> None:
    """So the test above would notice: the terminal answers, and holds what the guest gave it."""
    asks = re.compile(rb"(?:\x1b\]|\xc2?\x9d)52;.;\?")
    shown = {name: data for name, data in HOSTILE.items() if terminal != "xterm" or not asks.match(data)}
    last = [HOSTILE["OSC by ST: clipboard"], HOSTILE["OSC: title"]]
    said, held = real.answers(terminal, [*shown.values(), *last, *LEFT[terminal]], tmp_path)

    answered = {name for name, answer in zip(shown, said, strict=False) if answer}
    assert not any(b"and then nothing" in answer for answer in said)
    assert ANSWERED[terminal] - answered == set()
    if terminal == "tmux":
        title, *buffers = held.splitlines()
        assert MARK in title
        assert MARK in "".join(buffers)
        assert COPIED.rstrip("=").encode() in said[-1]
    elif terminal == "xterm":
        assert MARK.encode() in said[-2]


def seen(terminal: Emulator) -> dict[str, object]:
    """Return all that it shows."""
    return {
        "text": shown(terminal).text,
        "cells": [terminal.cells(row) for row in range(terminal.lines)],
        "cursor": (terminal.cursor.y, terminal.cursor.x, terminal.cursor.hidden, terminal.cursor.attrs),
        "alternate": terminal.alternate,
        "margins": terminal.margins,
    }


def emulated(data: bytes) -> Emulator:
    terminal = Emulator(24, 80)
    terminal.feed_bytes(data)
    return terminal


def test_there_are_recordings() -> None:
    """An empty folder would show nothing."""
    assert len(RECORDINGS) >= 12


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_output_of_programs_looks_the_same(path: Path) -> None:
    """Text, colors, cursor and screen; and, for a writer, the modes of keys, mouse and pastes."""
    data = path.read_bytes()
    before = emulated(data)

    assert before.first is not None or shown(before).text
    assert seen(emulated(SafeOutput(Use.SHOW).feed(data))) == seen(before)
    typed = emulated(SafeOutput(Use.ATTACH).feed(data))
    assert seen(typed) == seen(before)
    assert [typed.private(mode) for mode in MODES] == [before.private(mode) for mode in MODES]
    assert typed.keypad == before.keypad


def test_output_of_programs_looks_the_same_in_tmux(tmp_path: Path) -> None:
    """A real terminal shows the same, with its colors and characters for lines."""
    with real.tmux(tmp_path) as server:
        for path in RECORDINGS:
            screens = []
            data = path.read_bytes()
            for number, shown_data in enumerate([data, SafeOutput(Use.ATTACH).feed(data)]):
                file = tmp_path / f"{path.stem}-{number}"
                file.write_bytes(shown_data)
                pane = server.run(["sh", "-c", 'stty raw -echo; cat "$0"', str(file)])
                screens.append(server.screen(pane))
            assert screens[0].strip(), path.stem
            assert screens[1] == screens[0], path.stem
