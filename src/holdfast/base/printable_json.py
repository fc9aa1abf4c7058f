"""JSON that is safe to show on any terminal and in any log.  Pure.

JSON may contain C1 controls, which a terminal obeys, and invisible or direction-changing characters, which
make a reader see something else than a program reads (https://trojansource.codes). Written as \\uXXXX they
are the same values (RFC 8259, section 7).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Any

# Compiled on first use: that takes longer than dumping most values.
# Categories Cc, Cf, Cs, Zl and Zp of Unicode 15 (a test compares), and letters that render as nothing.
_UNSEEN = (
    "[\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def dumps(value: Any, **options: Any) -> str:
    """Return a value as JSON; `options` are those of `json.dumps`."""
    import json

    return escaped(json.dumps(value, ensure_ascii=False, **options))


def escaped(text: str) -> str:
    """Escape the invisible characters of JSON; they occur only in strings."""
    if text.isascii() and "\x7f" not in text:
        return text
    import re

    return re.sub(_UNSEEN, _escape, text)


def ascii_only(text: str) -> str:
    """Escape all characters of JSON beyond ASCII; they occur only in strings."""
    import re

    return re.sub("[^\x00-\x7e]", _escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
