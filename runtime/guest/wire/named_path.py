"""The path that a request names, the user whose rights apply, and the owner of new files.

Names are any bytes except NUL and slash: they travel in the payload, as JSON whose lone surrogates are
bytes that are not UTF-8 (os.fsencode).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard

from holdfast.runtime.guest.files.as_user import as_user
from holdfast.runtime.guest.files.uploads import NotWritable
from holdfast.runtime.guest.guest import Guest
from holdfast.runtime.guest.layout import MAIN
from holdfast.runtime.guest.wire.call import ClientCall
from holdfast.runtime.guest.wire.connection import RequestRefused

_CODES = {
    errno.ENOENT: "no_file",
    errno.ENOTDIR: "no_file",
    errno.EACCES: "file_denied",
    errno.EPERM: "file_denied",
}


class NamedPath:
    """The path that a request names, and its user."""

    def __init__(self, guest: Guest, call: ClientCall) -> None:
        self._guest = guest
        self._call = call
        try:
            asked = json.loads(call.frame.payload)
        except (ValueError, RecursionError):
            asked = None
        self._asked = asked if isinstance(asked, dict) else {}
        self.follow = call.frame.head.get("follow") is True
        self.account = call.account(guest.account)
        self.owner = call.account(self.account, "owner")
        self._from_home = call.frame.head.get("owner") is not None
        self.path = self.other("path")

    @property
    def shown(self) -> str:
        """The path in a message."""
        return repr(self.path)

    def other(self, name: str, *, resolve: bool = True) -> str:
        """Return a path; a relative one begins in the shell's directory, `~` is the user's home.

        With an owner a relative one begins in the home of that.
        """
        value = self._asked.get(name)
        if not _is_path(value):
            raise RequestRefused("invalid", f"cannot do {self._call.frame.op}: {name} must be a path")
        if not resolve:
            return value
        if value == "~" or value.startswith("~/"):
            value = f"{self.owner.home}{value[1:]}"
        if value.startswith("/"):
            return value
        return f"{self.owner.home if self._from_home else self._guest.shell(MAIN).kept.cwd()}/{value}"

    def text(self, name: str) -> bytes | None:
        """Return a requested text; None if there is none."""
        value = self._asked.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value or "\n" in value:
            raise RequestRefused("invalid", f"cannot do {self._call.frame.op}: {name} must be a line of text")
        return value.encode("utf-8", "surrogateescape")

    @contextmanager
    def rights(self, what: str) -> Iterator[None]:
        """Act as the account; refusals of the kernel become messages."""
        with refusing(f"{what} {self.shown}"), as_user(self.account):
            yield


def _is_path(value: object) -> TypeGuard[str]:
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Turn refusals of the kernel or of file operations into messages."""
    try:
        yield
    except NotWritable as error:
        raise RequestRefused("not_a_file", f"cannot {what}: {error}") from None
    except LookupError:
        raise RequestRefused("no_file", f"cannot {what}: it was never begun, or has expired") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise RequestRefused(_CODES.get(error.errno or 0, "file"), f"cannot {what}: {reason}") from None


def json_bytes(value: object) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()
