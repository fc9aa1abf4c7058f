"""Secrets as they are given: `NAME@HOST[,HOST…]=SOURCE`; and what of them a session and its snapshots know.

A session has a placeholder in their place. Their values are elsewhere (`vault`), never in here once kept.
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
"""Secrets of one session, and hosts of one secret."""
LEAST, LONGEST = 8, 8192
"""Characters of a value: a shorter one would be found in answers where it is not meant."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class Given:
    """A secret with its value, and the placeholder that stands for it."""

    name: str
    hosts: tuple[SecretHost, ...]
    value: str = field(repr=False)
    placeholder: str = field(default_factory=new_placeholder)

    def option(self) -> dict[str, object]:
        """What the options of a session say of it."""
        return {"name": self.name, "hosts": list(map(str, self.hosts)), "placeholder": self.placeholder}


def parse(text: str, environ: Mapping[str, str] = os.environ) -> Given:
    """What one option says; reads the source it names. No value is in any message.

    Raises:
        InvalidArgument: it is not of the form, or there is no such source.
    """
    head, equals, source = text.partition("=")
    name, at, hosts = head.partition("@")
    if not _NAME.fullmatch(name):
        raise _refused("a secret", "its name is not that of a variable")
    if not equals or not at or not hosts:
        raise _refused(name, "it does not say which hosts are given it")
    return Given(name, parse_hosts(name, hosts), _checked(name, _read(name, source, environ)))


def parse_hosts(name: str, text: str) -> tuple[SecretHost, ...]:
    """The hosts of a secret, with commas between. Raises InvalidArgument."""
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
