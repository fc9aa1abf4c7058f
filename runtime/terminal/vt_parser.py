"""The grammar of terminal output: text and control functions, found in bytes cut anywhere.  Pure.

The state machine is Paul Williams's (https://vt100.net/emu/dec_ansi_parser), which describes DEC's VT500
terminals, on characters instead of bytes as xterm does in UTF-8 mode: C1 controls are U+0080 to U+009F, and
control characters inside a sequence are executed immediately. It knows the forms of functions, and nothing
of their effects. The contents of strings (OSC, DCS, SOS, PM, APC) are never kept, so that memory is bounded
however long one is.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

# A longer sequence is dropped up to its final character. xterm takes 30 parameters; a color with all of its
# sub-parameters has 7.
LONGEST = 256

CAN, SUB, ESC, DEL, ST = "\x18", "\x1a", "\x1b", "\x7f", "\x9c"
_PLAIN = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
# The terminators of strings: OSC also ends with BEL (xterm).
_STRING_END = re.compile("[\x18\x1a\x1b\x9c]")
_OSC_END = re.compile("[\x07\x18\x1a\x1b\x9c]")
# A whole, ordinary control sequence. This only saves time: the state machine has the same result.
_WHOLE = re.compile(r"\x1b\[([<-?]?)([0-9;:]{0,128})([ -/]{0,2})([@-~])")
# Characters that begin a string, as C1 control or after ESC; `k` is tmux's and screen's, for a title.
_STRINGS = "PX^_k"


@dataclass(frozen=True, slots=True)
class Text:
    """Displayed characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Control:
    """A C0 control character, also one from the middle of a sequence."""

    char: str


@dataclass(frozen=True, slots=True)
class Escape:
    """`ESC`, intermediate characters, a final one; a C1 control also has this form."""

    intermediates: str
    final: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """A control sequence (`CSI`): a private prefix, parameters, intermediate characters, a final one."""

    prefix: str
    parameters: str
    intermediates: str
    final: str


Function = Text | Control | Escape | Sequence


class _State(Enum):
    GROUND = auto()
    ESCAPE = auto()
    SEQUENCE = auto()
    IGNORED = auto()  # a control sequence that is malformed or too long
    STRING = auto()
    OSC = auto()


class Parser:
    """Processes output in pieces, and returns the complete parts.

    Text that `known` matches in ground state is reported as one `Text`, for callers that do not have to see
    each function. It is an optimization, and must match complete functions only.
    """

    def __init__(self, known: re.Pattern[str] = _PLAIN) -> None:
        self._known = known
        # Overlong forms, surrogates and lone bytes become U+FFFD, so that all terminals decode them alike.
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._state = _State.GROUND
        self._held = ""  # a sequence so far, after its ESC or CSI

    def feed(self, data: bytes) -> Iterator[Function]:
        """Process more output."""
        return self.feed_text(self._decode(data))

    def feed_text(self, text: str) -> Iterator[Function]:
        """Process more decoded output."""
        at = 0
        while at < len(text):
            if self._state is _State.GROUND:
                if known := self._known.match(text, at):
                    yield Text(known[0])
                    at = known.end()
                elif whole := _WHOLE.match(text, at):
                    yield Sequence(whole[1], whole[2], whole[3], whole[4])
                    at = whole.end()
                else:
                    yield from self._take(text[at])
                    at += 1
            elif self._state in (_State.STRING, _State.OSC):
                end = (_OSC_END if self._state is _State.OSC else _STRING_END).search(text, at)
                if end is None:
                    return
                at = end.end()
                self._enter(_State.ESCAPE if end[0] == ESC else _State.GROUND)
            else:
                yield from self._take(text[at])
                at += 1

    def _take(self, char: str) -> Iterator[Function]:
        """Process one character outside of a string."""
        if char in (CAN, SUB):
            self._enter(_State.GROUND)
        elif char == ESC:
            self._enter(_State.ESCAPE)
        elif char < " ":
            yield Control(char)
        elif char == DEL:
            return
        elif "\x80" <= char <= "\x9f":
            yield from self._escape("", chr(ord(char) - 0x40))
        elif self._state is _State.GROUND or char > DEL:
            # In the middle of a sequence it is an error: the sequence is dropped, the character is text.
            self._enter(_State.GROUND)
            yield Text(char)
        elif self._state is _State.ESCAPE:
            yield from self._behind_escape(char)
        else:
            yield from self._in_sequence(char)

    def _behind_escape(self, char: str) -> Iterator[Function]:
        if char > "/":
            yield from self._escape(self._held, char)
        elif len(self._held) < LONGEST:
            self._held += char

    def _escape(self, intermediates: str, final: str) -> Iterator[Function]:
        self._enter(_State.GROUND)
        if not intermediates and final == "[":
            self._enter(_State.SEQUENCE)
        elif not intermediates and final == "]":
            self._enter(_State.OSC)
        elif not intermediates and final in _STRINGS:
            self._enter(_State.STRING)
        else:
            yield Escape(intermediates, final)

    def _in_sequence(self, char: str) -> Iterator[Function]:
        if char < "@":
            if self._state is _State.SEQUENCE and not self._fits(char):
                self._enter(_State.IGNORED)
            elif self._state is _State.SEQUENCE:
                self._held += char
            return
        state, held = self._state, self._held
        self._enter(_State.GROUND)
        if state is _State.SEQUENCE:
            prefix = held[:1] if held[:1] in ("<", "=", ">", "?") else ""
            parameters = held[len(prefix) :].rstrip("".join(map(chr, range(0x20, 0x30))))
            yield Sequence(prefix, parameters, held[len(prefix) + len(parameters) :], char)

    def _fits(self, char: str) -> bool:
        """Return whether it can continue a control sequence: prefix, then parameters, then intermediates."""
        if len(self._held) >= LONGEST:
            return False
        if char in "<=>?":
            return not self._held
        return char < "0" or not self._held or self._held[-1] >= "0"

    def _enter(self, state: _State) -> None:
        self._state, self._held = state, ""
