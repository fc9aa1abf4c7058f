"""The way to a registry as the environment chooses it: proxies, and the authorities that are trusted.

Knows variables and their mistakes; nothing of requests.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from holdfast.base import trust_variables
from holdfast.errors import RegistryError
from holdfast.snapshots.registry import registry_failures

PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


REFUSED_HINT = (
    "HTTPS_PROXY may hold a name and a password, `http://NAME:PASSWORD@HOST:PORT`; "
    "NO_PROXY lists what is reached without it"
)
_FINAL = ("403", "407")
"""Answers of a proxy that asking again does not change."""


def refusal(error: httpx.TransportError) -> str:
    """Return why a proxy does not let this user through; empty if that was not the reason."""
    if isinstance(error, httpx.ProxyError) and str(error).startswith(_FINAL):
        return f"the proxy on the way refuses ({registry_failures.shown(str(error))})"
    return ""


def variables() -> str:
    """Return the names of the variables that are set for proxies, for a message; empty for none."""
    return ", ".join(
        spelled for name in PROXIES for spelled in (name.lower(), name) if os.environ.get(spelled)
    )


def authorities(host: str) -> ssl.SSLContext:
    """Return the trust for TLS: the system's authorities, SSL_CERT_FILE instead, others added.

    Raises:
        RegistryError: a variable names something that holds no certificates.
    """
    context = ssl.create_default_context()
    for path, name in trust_variables.added(os.environ).items():
        try:
            if path.is_dir():
                context.load_verify_locations(capath=path)
            else:
                context.load_verify_locations(cafile=path)
        except OSError as error:  # SSLError is one
            raise RegistryError(
                f"cannot reach {host}: {name} names {path}, which holds no certificates",
                hint="correct or unset that variable",
            ) from error
    return context


@contextmanager
def explained(host: str) -> Iterator[None]:
    """Explain, in the block, settings that no client can be made of.

    Raises:
        RegistryError: a variable names no proxy that can be used.
    """
    try:
        yield
    except (ImportError, ValueError) as error:  # SOCKS needs another package; other schemes are unknown
        why = registry_failures.shown(str(error))
        raise RegistryError(
            f"cannot reach {host}: {variables()} must name HTTP proxies ({why})",
            hint="set them to `http://HOST:PORT`, or unset them",
        ) from error
