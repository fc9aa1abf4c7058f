"""Text for terminals and files whose encoding lacks some characters, such as Latin-1.

Its error handler writes what people read in place of such a character. JSON escapes it (`printable_json`).
"""

from __future__ import annotations

import codecs
import sys
from io import TextIOWrapper

APPROXIMATE = "holdfast.approximate"
"""The name of the error handler of encodings."""
_LIKE = str.maketrans(
    {
        "…": "...",
        "–": "-",
        "—": "-",
        "│": "|",
        "├": "|",
        "└": "`",
        "─": "-",
        "●": "*",
        "·": ".",
        "→": "->",
        "×": "x",
    }
)


def approximate(error: UnicodeError) -> tuple[str, int]:
    """Return what stands for characters that cannot be encoded, and where to continue; see `codecs`.

    Raises:
        UnicodeError: it was not an encoder that failed.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(_LIKE)
    return "".join(char if char.isascii() else "?" for char in lacking), error.end


def never_fail() -> None:
    """Have standard output and standard error write every text, unless they are UTF-8 and can."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and not is_unicode(stream.encoding):
            codecs.register_error(APPROXIMATE, approximate)
            stream.reconfigure(errors=APPROXIMATE)


def is_unicode(encoding: str | None) -> bool:
    """Return whether an encoding has all characters."""
    return (encoding or "").lower().replace("-", "").replace("_", "").startswith("utf")
