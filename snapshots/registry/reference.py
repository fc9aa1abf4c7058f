"""Names of things in registries, `host[:port]/repository[:tag][@digest]`, as Docker reads them. Pure.

The grammar is defined at https://github.com/distribution/reference; a name without a host is one of Docker
Hub.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument

HUB = "docker.io"
HUB_API = "registry-1.docker.io"
DEFAULT_TAG = "latest"
MAX_NAME = 255

_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*"
    r"|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?"
)
_REPOSITORY = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_HINT = "write it as host[:port]/name[:tag], such as registry.example.com/team/work:failed"


@dataclass(frozen=True, slots=True)
class Reference:
    """The place of an artifact: `host` as written, `repository` in it, and a tag or a digest or both."""

    host: str
    repository: str
    tag: str | None = None
    digest: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a reference.

        Raises:
            InvalidArgument: it is not valid.
        """
        host, rest = _split_host(text)
        rest, _, digest = rest.partition("@")
        slash = rest.rfind("/")
        colon = rest.find(":", slash + 1)
        name, tag = (rest[:colon], rest[colon + 1 :]) if colon >= 0 else (rest, None)
        if host == HUB and "/" not in name:
            name = f"library/{name}"
        wrong = (
            "the host is not valid"
            if not _HOST.fullmatch(host)
            else "the name must consist of lower-case letters and digits, with . _ - / between them"
            if not _REPOSITORY.fullmatch(name) or len(name) > MAX_NAME
            else "the tag is not valid"
            if tag is not None and not _TAG.fullmatch(tag)
            else "the digest has to be sha256: and 64 hexadecimal digits"
            if "@" in text and not _DIGEST.fullmatch(digest)
            else ""
        )
        if wrong:
            raise InvalidArgument(f"cannot use reference '{plain(text, 100)}': {wrong}", hint=_HINT)
        return cls(host, name, tag, digest or None)

    @property
    def wanted(self) -> str:
        """The digest, else the tag: the name a registry is asked for."""
        return self.digest or self.tag or DEFAULT_TAG

    @property
    def authority(self) -> str:
        """Host and port of the registry's API."""
        return HUB_API if self.host == HUB else self.host

    @property
    def is_loopback(self) -> bool:
        """True if the registry is on this machine."""
        return is_loopback(re.sub(r":[0-9]+$", "", self.host).strip("[]"))

    def tagged(self) -> Reference:
        """Return the reference with the default tag if it has none."""
        return self if self.tag or self.digest else replace(self, tag=DEFAULT_TAG)

    def pinned(self, digest: str) -> Reference:
        """Return the reference with a digest."""
        return replace(self, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")


def is_loopback(hostname: str) -> bool:
    """Return whether a name or address without port is this machine's own."""
    if hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(hostname).is_loopback
    except ValueError:
        return False


def _split_host(text: str) -> tuple[str, str]:
    """Split off the first part if it looks like a host: a dot, a port, or `localhost`."""
    first, slash, rest = text.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return (HUB if first in ("index.docker.io", HUB_API) else first), rest
    return HUB, text
