"""Values in a form that can be shown outside their process: short, with likely secrets masked. Pure."""

from __future__ import annotations

import re

SHORT = 64
MASK = "***"
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|COOKIE|PRIVATE|SIGNATURE|(?:^|_)(?:PASS|PWD|AUTH|KEY|SALT)(?:_|$)"
    r"|APIKEY|ACCESSKEY",
    re.IGNORECASE,
)
_IN_ADDRESS = re.compile(r"(://[^/@\s:]*):[^/@\s]+@")
_OPTION = re.compile(
    r"(--?[\w-]*(?:token|secret|passw(?:or)?d|api-?key)[\w-]*[= ]"
    r"|\b\w*(?:token|secret|passw(?:or)?d|api_?key)\w*=)\S+",
    re.IGNORECASE,
)
_KNOWN = frozenset({"PWD", "OLDPWD"})


def secret(name: str) -> bool:
    """Return whether a variable of that name looks like one that holds a secret."""
    return name not in _KNOWN and _SECRET.search(name) is not None


def shown(name: str, value: str) -> str | None:
    """Return the part of a variable's value that can be shown; None if it is too long."""
    if secret(name):
        return MASK
    return address(value) if len(value) <= SHORT else None


def address(text: str) -> str:
    """Return text with the passwords in URLs masked."""
    return _IN_ADDRESS.sub(rf"\1:{MASK}@", text)


def command(text: str) -> str:
    """Return a command line with likely secrets masked."""
    return _OPTION.sub(rf"\1{MASK}", address(text))
