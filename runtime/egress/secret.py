"""Secrets as they are given: `NAME@HOST[,HOST…]=SOURCE`, and the part of them that sessions and snapshots
know.

A session has a placeholder in their place. Once kept, their values are elsewhere (`vault`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument
from holdfast.runtime.gateway.exchange import new_placeholder
from holdfast.runtime.gateway.session_rules import SecretHost

FORM = "NAME@HOST[,HOST...]=SOURCE, where SOURCE is env:VARIABLE, @FILE, or @- for standard input"
MOST = 50
"""Limits of secrets per session, and of hosts per secret."""
LEAST, LONGEST = 8, 8192
"""Minimal length of a value: a shorter one would be found in responses by chance."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class Given:
    """A secret with its value, and the placeholder that stands for it."""

    name: str
    hosts: tuple[SecretHost, ...]
    value: str = field(repr=False)
    placeholder: str = field(default_factory=new_placeholder)

    def option(self) -> dict[str, object]:
        """Return its entry in the options of a session."""
        return {"name": self.name, "hosts": list(map(str, self.hosts)), "placeholder": self.placeholder}


def parse(text: str, environ: Mapping[str, str] = os.environ) -> Given:
    """Return the secret of an option; reads the source it names. Messages never contain a value.

    Raises:
        InvalidArgument: it is not of the form, or there is no such source.
    """
    head, equals, source = text.partition("=")
    name, at, hosts = head.partition("@")
    if not _NAME.fullmatch(name):
        raise _refused("a secret", "its name is not a valid variable name")
    if not equals or not at or not hosts:
        raise _refused(name, "it does not name the hosts that receive it")
    return Given(name, parse_hosts(name, hosts), _checked(name, _read(name, source, environ)))


def parse_hosts(name: str, text: str) -> tuple[SecretHost, ...]:
    """Return the hosts of a secret, separated by commas.

    Raises:
        InvalidArgument: one is not valid, or there are too many.
    """
    parts = text.split(",")
    if len(parts) > MOST:
        raise _refused(name, f"it has more than {MOST} hosts")
    found = []
    for part in parts:
        try:
            found.append(SecretHost.parse(part))
        except ValueError as error:
            raise _refused(name, f"'{plain(part, 100)}' is not a host: {error}") from error
    return tuple(dict.fromkeys(found))


def _read(name: str, source: str, environ: Mapping[str, str]) -> str:
    if source.startswith("env:"):
        variable = source.removeprefix("env:")
        if variable not in environ:
            raise _refused(name, f"there is no variable {plain(variable, 100)} here")
        return environ[variable]
    if not source.startswith("@"):
        return source
    try:
        if source == "@-":
            data = sys.stdin.buffer.read(LONGEST + 2)
        else:
            with Path(source[1:]).expanduser().open("rb") as file:
                data = file.read(LONGEST + 2)
        return data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise _refused(name, f"cannot read {plain(source[1:], 200)}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _refused(name, "its value is not text") from error


def _checked(name: str, value: str) -> str:
    if not LEAST <= len(value) <= LONGEST:
        raise _refused(name, f"its value has {len(value)} characters, and must have {LEAST} to {LONGEST}")
    if not value.isprintable():
        raise _refused(name, "its value has characters that no header can have, such as a line break")
    return value


def _refused(name: str, why: str) -> InvalidArgument:
    return InvalidArgument(f"cannot keep secret {name}: {why}", hint=f"it is {FORM}")
