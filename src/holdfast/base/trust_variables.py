"""The files of certificate authorities that the environment names. Pure; does not read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

REPLACING = "SSL_CERT_FILE"
"""Names the authorities instead of the system's, for OpenSSL and whatever is built on it."""
ADDING = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Many machines of companies set only these. Without SSL_CERT_FILE they are trusted beside the system's."""


def added(environ: Mapping[str, str]) -> dict[Path, str]:
    """Return the files or folders trusted in addition to the system's, each with its variable."""
    if environ.get(REPLACING):
        return {}
    return {Path(environ[name]): name for name in reversed(ADDING) if environ.get(name)}
