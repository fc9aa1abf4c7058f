"""The environments of processes of this machine: by a list of names, and of the caller's own variables.

What a project, a request or a session says is in none of them: a variable chooses programs (PATH,
DOCKER_CONFIG), libraries (LD_PRELOAD) and servers (DOCKER_HOST). This is the only place that builds such
environments; `tests/test_host_environments.py` holds that. What the processes do is not known here.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
        *("LANG", "LANGUAGE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "APT_CONFIG"),
        *("LD_LIBRARY_PATH", "DBUS_SESSION_BUS_ADDRESS", "GNUPGHOME", "GPG_TTY", "GPG_AGENT_INFO"),
    )
)
"""For people, certificates, mirrors, and the store of credentials for Docker's command."""
_PREFIXES = (
    *("DOCKER_", "BUILDX_", "BUILDKIT_", "HOLDFAST_", "LC_", "SSL_CERT_", "SSH_", "XDG_", "PYTHON"),
    *("AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_", "PASSWORD_STORE_"),
)
"""The last lines are of credential helpers, which find what they need by them."""
_PROXIES = frozenset(("http_proxy", "https_proxy", "no_proxy", "all_proxy", "ftp_proxy"))
_DECIDES = re.compile(
    r"(?:LD|DYLD|OTEL|GIT|BASH|MALLOC|GLIBC|GCONV|PERL|RUBY|JAVA|COMPOSE)_\w+|_JAVA_OPTIONS|NODE_(?:OPTIONS|PATH)"
    r"|GO[A-Z]+|PERL5\w+|PERLLIB|RUBY(?:OPT|LIB)|BASHOPTS|BASH_ENV|SHELLOPTS|ENV|IFS|CDPATH|LOCPATH|NLSPATH"
)
"""Names that are not in the lists, and by which loaders, shells and interpreters find what to run."""


def of_caller(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the caller's variables that a program of this machine can need.

    Args:
        environ: the caller's; by default those of this process.
    """
    given = os.environ if environ is None else environ
    return {name: value for name, value in given.items() if is_known(name)}


def with_settings(
    settings: Mapping[str, str],
    named: Mapping[str, str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the caller's variables, and additional ones.

    Args:
        settings: names and values that our own code chose, or a person for a process of their own.
        named: values under names that the caller chose, and that decide nothing.
        environ: the caller's; by default those of this process.

    Raises:
        ValueError: one of the names decides (`decides`).
    """
    for name in named or {}:
        if decides(name):
            raise ValueError(f"{name} decides what a program of this machine does")
    return {**of_caller(environ), **(named or {}), **settings}


def is_known(name: str) -> bool:
    """Check whether a variable is one that programs of this machine may need."""
    return name in _NAMES or name.lower() in _PROXIES or name.startswith(_PREFIXES)


def decides(name: str) -> bool:
    """Check whether a variable can influence a program, or the choice of the program."""
    return is_known(name) or _DECIDES.fullmatch(name) is not None
