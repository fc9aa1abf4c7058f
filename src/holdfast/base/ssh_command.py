"""The command that is used for `ssh`. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from holdfast.errors import InvalidArgument

SSH = "HOLDFAST_SSH"
"""The command used instead of `ssh`, as a shell would read it."""
ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=4")
"""Ends a connection that has not answered for a minute (ssh_config(5))."""


def chosen(environment: Mapping[str, str]) -> list[str]:
    """Return the command of HOLDFAST_SSH; empty without one.

    Raises:
        InvalidArgument: it is not a command.
    """
    try:
        return shlex.split(environment.get(SSH, ""))
    except ValueError as error:
        raise InvalidArgument(f"cannot use {SSH}: {error}", hint="write it as for a shell") from error
