"""Extended attributes that programs give a file: those whose names begin with "user.", see xattr(7).

Names are without that here. A file may have more than is read: an answer has a limit.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from typing import Any

PREFIX = "user."
MOST = 64
LONGEST = 4096
"""Bytes of names and values together; file systems that keep them in one block have no room for more."""
_NAME = re.compile(r"[\x21-\x7e]{1,200}")


def checked(given: Any) -> dict[str, str] | None:
    """Return attributes that a caller gives; None if they are not valid."""
    if not isinstance(given, dict) or len(given) > MOST:
        return None
    for name, value in given.items():
        if not _NAME.fullmatch(name) or not isinstance(value, str):
            return None
        if not value.isascii() or not value.isprintable():
            return None
    return given if sum(map(len, (*given, *given.values()))) <= LONGEST else None


def write(descriptor: int, attributes: dict[str, str]) -> None:
    """Give an open file attributes.

    Raises:
        OSError: its file system keeps none, or has no room for them.
    """
    for name, value in attributes.items():
        try:
            os.setxattr(descriptor, PREFIX + name, value.encode())
        except OSError as error:
            if error.errno == errno.ENOTSUP:
                raise OSError(errno.ENOTSUP, "its file system keeps no attributes of files") from None
            raise


def read(path: str) -> dict[str, str]:
    """Return the attributes of a file, as many as an answer has room for; a link is not followed."""
    found: dict[str, str] = {}
    left = LONGEST
    with suppress(OSError):  # it has none, is gone, or may not be read
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            short = name.removeprefix(PREFIX)
            if short == name or not _NAME.fullmatch(short):
                continue
            value = os.getxattr(path, name, follow_symlinks=False)
            left -= len(short) + len(value)
            if left < 0 or len(found) == MOST:
                break
            with suppress(UnicodeDecodeError):
                found[short] = value.decode("ascii")
    return found
