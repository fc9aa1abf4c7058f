"""Signed addresses of files: a holder reads, or writes, that one file until it expires. Pure.

Their form is the wire of sandboxes', whose door checks them; here they are made.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import urlencode

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.serve.callers import FileSigner

_BASE = re.compile(
    r"(https?://(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*(?=[a-z0-9-]*[a-z])[a-z0-9-]{1,63}(?::[0-9]{1,5})?)/?"
)
DOOR = 49983
"""The port of a session's name at which the server itself answers for its files."""


def address(
    sign: FileSigner, base: str, session: str, path: str, operation: str, user: str | None, expires_at: int
) -> str:
    """Return the address of a file.

    Args:
        sign: makes the signature.
        base: the scheme, host and port by which the caller has reached the server.
        session: the id of the session.
        path: of the file, absolute: what another directory makes of it is not for the holder to choose.
        operation: `read` or `write`.
        user: whose rights its holder has; the session's own user's if None.
        expires_at: when it ends, in seconds since 1970.

    Raises:
        InvalidArgument: the path is not absolute, or not in its shortest form.
    """
    if not path.startswith("/") or posixpath.normpath(path) != path or path.startswith("//"):
        raise InvalidArgument(
            f"cannot sign an address for {plain(path, 200)!r}: the path must be absolute, without `..`"
        )
    said = {"path": path, "username": user or "", "signature_expiration": str(expires_at)}
    said["signature"] = sign(session, path, operation, user or "", expires_at)
    scheme, _, host = base.partition("://")
    return f"{scheme}://{DOOR}-{session}.{named_host(host)}/files?{urlencode(said)}"


def preview_base(url: str) -> str:
    """Return the address that names of ports are below, as `https://previews.example.org`.

    Raises:
        InvalidArgument: it is not the scheme and name of a server, with a port or without.
    """
    found = _BASE.fullmatch(url.lower())
    if found is None:
        raise InvalidArgument(
            f"cannot make links below {plain(url, 200)!r}: it is not the address of a server by name",
            hint="for example https://previews.example.org, where *.previews.example.org leads here",
        )
    return found[1]


def names_of(base: str) -> list[str]:
    """Return the name in such an address, without its port; none in an empty one."""
    return [base.partition("://")[2].partition(":")[0]] if base else []


def named_host(host: str) -> str:
    """Return a name of the server that can have subdomains: numeric addresses cannot."""
    name, _, port = host.rpartition(":") if host.count(":") == 1 or host.startswith("[") else (host, "", "")
    if not name.endswith("]") and any(char.isalpha() for char in name):
        return host
    return f"localhost:{port}" if port else "localhost"
