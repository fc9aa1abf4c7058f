"""A registry's authentication challenge: the header WWW-Authenticate (RFC 9110, 11.6.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAX_HEADER = 8192
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - as RFC 9110 calls it
_PARAMETER = re.compile(rf'\s*+(?:,\s*+)?({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))')
_SCHEME = re.compile(rf"\s*+(?:,\s*+)?({_TOKEN})(?=\s|,|$)")


@dataclass(frozen=True, slots=True)
class Challenge:
    """One way to authenticate: the scheme in lower case, and its parameters by name in lower case."""

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict)


def parse(headers: Iterable[str]) -> list[Challenge]:
    """Return every challenge in the header's values, in order; stop at the first that cannot be parsed."""
    found: list[Challenge] = []
    for value in headers:
        text, at = value[:MAX_HEADER], 0
        while scheme := _SCHEME.match(text, at):
            at = scheme.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(text, at):
                at = parameter.end()
                quoted, bare = parameter[2], parameter[3]
                parameters[parameter[1].lower()] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            found.append(Challenge(scheme[1].lower(), parameters))
    return found
