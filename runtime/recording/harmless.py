"""Recorded output made fit to be shown again: the terminal answers nothing, its user's input stays. Pure.

Questions (cursor position, attributes, colours), clipboard access, and modes that turn the mouse, focus or
pastes into input are taken out; what is seen stays.
"""

from __future__ import annotations

import re

_UNWANTED = re.compile(
    r"\x1b\[[?>=]?[0-9;]*[cn]"  # DA, DSR
    r"|\x1b\[[?>=]?[0-9;]*\$p|\x1b\[>[0-9;]*q|\x1b\[[0-9;]*t|\x1b\[[?<>=][0-9;]*u|\x1b\[>[0-9;]*m"
    r"|\x1b\[\?(?:9|100[0-6]|1015|1016|2004|2031|2048)(?:;[0-9;]*)?[hl]"
    r"|\x1b\](?:4|5|10|11|12|52|7)[;][^\x07\x1b]*(?:\x07|\x1b\\)"
    r"|\x1b[P_^X][^\x1b]*\x1b\\|\x05"
)
_OPEN = re.compile(r"\x1b(?:\[[?<>=]?[0-9;]*\$?|[\]P_^X][^\x07\x1b]*\x1b?)?$")
_LONGEST = 4096


class Harmless:
    """Takes text in pieces; a sequence may be cut by their borders."""

    def __init__(self) -> None:
        self._tail = ""

    def feed(self, text: str) -> str:
        """Return what can be shown now."""
        text, self._tail = self._tail + text, ""
        if "\x1b" not in text and "\x05" not in text:
            return text
        text = _UNWANTED.sub("", text)
        found = _OPEN.search(text, max(0, len(text) - _LONGEST))
        if found:
            text, self._tail = text[: found.start()], text[found.start() :]
        return text
