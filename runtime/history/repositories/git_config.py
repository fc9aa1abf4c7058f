"""Git's configuration: the parts of a file that can leave this machine, and single values. Pure.

A configuration names programs that Git runs, and files that it reads. Nothing here follows any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from holdfast.runtime.guest.records import masking

LONGEST = 1 << 20
"""Bytes of a configuration."""
_CREDENTIALS = re.compile(
    r'(\s*\[[^"\]]*+(?:"(?:[^"\\]|\\.)*+"\s*+)?\])?\s*(?:extraheader|helper|sshcommand|askpass)\s*(?:=.*)?',
    re.IGNORECASE,
)
_PLACE = re.compile(r"(?:^|.*/)\.git/(?:modules/.+/|worktrees/[^/]+/)?config(?:\.worktree)?")
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"((?:[^"\\]|\\.)*)")?\s*\]\s*(.*)')
_SETTING = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?")


def is_one(path: str) -> bool:
    """Check whether a file of a project, by its path there, is a configuration of a repository."""
    return _PLACE.fullmatch(path) is not None


def edit(path: str) -> Callable[[bytes], bytes] | None:
    """Return the safe form of a project's file before it leaves; None for most, which are unchanged."""
    return harmless_bytes if is_one(path) else None


def harmless(text: str) -> str:
    """Return a configuration without credentials, and without programs that would be run for them."""
    lines = []
    for line in _joined(text):
        held = _CREDENTIALS.fullmatch(line)
        if held is None or held[1]:  # a section may begin on the same line
            lines.append(_without_password(line if held is None else held[1]))
    return "\n".join(lines) + "\n"


def harmless_bytes(data: bytes) -> bytes:
    """Return the same for a file; empty if it is too long for a configuration."""
    text = data.decode("utf-8", "surrogateescape") if len(data) <= LONGEST else ""
    return harmless(text).encode("utf-8", "surrogateescape")


def values(text: str, section: str, key: str) -> list[str]:
    """Return the values of `section.key`, in order; not those of its subsections."""
    found, current = [], ""
    for line in _joined(text):
        rest = line
        if begun := _SECTION.match(line):
            current = begun[1].lower() + (f".{begun[2]}" if begun[2] is not None else "")
            rest = begun[3]
        setting = _SETTING.fullmatch(rest)
        if setting and current == section.lower() and setting[1].lower() == key.lower():
            found.append(_value(setting[2] or ""))
    return found


def _value(text: str) -> str:
    """Return a value without quotes, escapes, and a comment behind it."""
    # A string without an end reaches to the end: it is not looked for again from each place within it.
    plain = re.sub(r'("(?:[^"\\]|\\.)*+"?)|[#;].*$', lambda one: one[1] or "", text).strip()
    return re.sub(r"\\(.)", r"\1", plain.replace('\\"', "\0").replace('"', "").replace("\0", '"'))


def _joined(text: str) -> list[str]:
    """Return the lines; one that ends with a backslash continues on the next."""
    if re.search(r"\\\r?\n", text):
        text = re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n", r"\1", text)
    lines = re.split(r"\r?\n", text)  # for Git, other ends of lines are part of a value
    return lines[:-1] if not lines[-1] else lines


def _without_password(line: str) -> str:
    masked = masking.address(line)
    return masked.replace(f":{masking.MASK}@", "@") if masked != line else line
