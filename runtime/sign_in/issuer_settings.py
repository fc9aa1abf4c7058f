"""The settings of sign-in: which issuers a server trusts, and which role a person of each has.  Pure.

They are read from a file in TOML at the start of a server. Whatever it says wrongly is refused there: a
rule that is spelled wrongly must not let everyone in. Does not know requests and keys.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, NotPermitted
from holdfast.runtime.access import permissions
from holdfast.runtime.http_doors.sign_in_wire import checked_url

PERSON_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
"""A name as an access key can have it."""
UNIX = "unix"
"""In place of the address of a proxy: one that connects to the server's unix socket."""
MOST_VALUES = 1000
"""Values of one claim that are compared: groups of a person."""


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class _SettingsTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=_dashed)


class RoleRule(_SettingsTable):
    """The role in a team of people with a value in a claim; without a claim, of everyone else.

    Of several rules that fit, the first for each team counts.
    """

    role: str
    claim: str = ""
    value: str = ""
    team: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9-]{0,31})?$")] = ""
    """Empty for the server's own home."""

    @field_validator("role")
    @classmethod
    def _known(cls, role: str) -> str:
        if role not in permissions.ROLES:
            raise ValueError(f"roles are {', '.join(permissions.ROLES)}")
        return role

    @model_validator(mode="after")
    def _whole(self) -> RoleRule:
        if bool(self.claim) != bool(self.value):
            raise ValueError("a claim needs a value, and a value a claim")
        return self

    def is_met(self, claims: Mapping[str, Any]) -> bool:
        """Return whether a person with these claims has the role."""
        return not self.claim or self.value in _values(claims, self.claim)


class DeviceLogin(_SettingsTable):
    """The client of an issuer that `holdfast login` uses."""

    client: str
    nonce: Literal["required", "optional"] = "required"
    """Whether tokens must name this server in their nonce; some issuers leave it out of this flow."""
    days: Annotated[float, Field(gt=0, le=366)] = 30


class Issuer(_SettingsTable):
    """An issuer of identity tokens, and the rules for its people."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
    url: str
    client: str
    secret_file: Path | None = Field(None, strict=False)
    secret_variable: str = ""
    scopes: tuple[str, ...] = Field(("openid", "profile"), strict=False)
    person: str = "preferred_username"
    """The claim with the name of a person."""
    suffix: str = ""
    """The end that this claim must have, which is removed from the name: `@example.org`."""
    hours: Annotated[float, Field(gt=0, le=24 * 31)] = 12
    """How long a page stays signed in."""
    role: tuple[RoleRule, ...] = Field(min_length=1, strict=False)
    device: DeviceLogin | None = None

    @field_validator("url")
    @classmethod
    def _reached_safely(cls, url: str) -> str:
        return checked_url(url, "the URL of an issuer")

    @field_validator("scopes")
    @classmethod
    def _with_identity(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        return scopes if "openid" in scopes else ("openid", *scopes)

    def secret(self) -> str:
        """Return the client's secret; empty for a public client.

        Raises:
            InvalidArgument: it cannot be read.
        """
        if self.secret_file is not None:
            try:
                return self.secret_file.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidArgument(
                    f"cannot read the secret of the issuer {self.name}: {error}", hint="check `secret-file`"
                ) from error
        if self.secret_variable and self.secret_variable not in os.environ:
            raise InvalidArgument(
                f"cannot read the secret of the issuer {self.name}: {self.secret_variable} is not set"
            )
        return os.environ[self.secret_variable] if self.secret_variable else ""

    def person_of(self, claims: Mapping[str, Any]) -> Person:
        """Return the person of verified claims.

        Raises:
            NotPermitted: their name cannot be used, or a rule for them is missing.
        """
        found = _values(claims, self.person)
        text = next(iter(found)) if len(found) == 1 else ""
        if self.person == "email" and claims.get("email_verified") is not True:
            raise NotPermitted("cannot sign in: the email address is not verified by the issuer")
        name = text.lower()
        if self.suffix:
            if not name.endswith(self.suffix.lower()):
                raise NotPermitted(f"cannot sign in: the name does not end with {self.suffix}")
            name = name[: -len(self.suffix)]
        return _named(name, self.role, claims, self.name, str(claims["sub"]))


class TrustedProxy(_SettingsTable):
    """A proxy in front of the server that has people sign in, and names them in a header."""

    header: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")]
    groups: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{0,64}$")] = ""
    """The header with the groups of a person, between commas: the claim `groups` of the rules."""
    peers: tuple[str, ...] = Field(min_length=1, strict=False, alias="from")
    hours: Annotated[float, Field(gt=0, le=24 * 31)] = 12
    role: tuple[RoleRule, ...] = Field((RoleRule(role="member"),), min_length=1, strict=False)

    @field_validator("header")
    @classmethod
    def _of_its_own(cls, name: str) -> str:
        if name.lower() in ("authorization", "cookie", "host", "origin", "content-type", "x-request-id"):
            raise ValueError("this header has a meaning of its own")
        return name

    @field_validator("peers")
    @classmethod
    def _addresses(cls, peers: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(each if each == UNIX else str(ipaddress.ip_address(each)) for each in peers)

    def trusts(self, peer: str) -> bool:
        """Return whether a connection from an address, or `unix`, is the proxy's."""
        return peer in self.peers

    def person_of(self, name: str, groups: str) -> Person:
        """Return the person that the headers name; raises as `Issuer.person_of` does."""
        claims = {"groups": [each.strip() for each in groups.split(",") if each.strip()]}
        return _named(name.strip().lower(), self.role, claims, "proxy", name.strip().lower())


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who has shown who they are."""

    name: str
    roles: Mapping[str, str]
    """By team, in the order of the rules; the empty name is the server's own home."""
    issuer: str
    """The name of the issuer in the settings; `proxy` for a trusted proxy."""
    subject: str
    """The issuer's own name for the person, for ever."""


class SignInSettings(_SettingsTable):
    """The file: the address at which browsers reach the server, the issuers, and the proxy."""

    url: str = ""
    issuer: tuple[Issuer, ...] = Field((), strict=False)
    proxy: TrustedProxy | None = None

    @field_validator("url")
    @classmethod
    def _origin(cls, url: str) -> str:
        parts = urlsplit(checked_url(url, "the URL of the server"))
        if parts.path.strip("/"):
            raise ValueError("it ends with a host and port")
        return f"{parts.scheme}://{parts.netloc}".lower()

    @model_validator(mode="after")
    def _consistent(self) -> SignInSettings:
        names = [each.name for each in self.issuer]
        if (
            len(set(names)) < len(names)
            or "proxy" in names
            or len({each.url for each in self.issuer}) < len(names)
        ):
            raise ValueError("each issuer needs a name and a URL of its own, and none is called proxy")
        if self.issuer and not self.url:
            raise ValueError("`url` is missing: the address at which browsers reach this server")
        return self

    @property
    def is_secure(self) -> bool:
        """Whether browsers come over TLS."""
        return self.url.startswith("https:")

    def named(self, name: object) -> Issuer | None:
        """Return the issuer of a name."""
        return next((each for each in self.issuer if each.name == name), None)


def read(path: Path) -> SignInSettings:
    """Return the settings in a file.

    Raises:
        InvalidArgument: it cannot be read, or says something wrong.
    """
    try:
        return SignInSettings.model_validate(tomllib.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArgument(f"cannot read the settings of sign-in in {path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise InvalidArgument(
            f"cannot use the settings of sign-in in {path}: {where}: {first['msg']}",
            hint="docs/sign-in.md has all settings",
        ) from error


def of_header(text: str) -> TrustedProxy:
    """Return the proxy of an option `HEADER=PEER`, whose people are members.

    Raises:
        InvalidArgument: it has a different form.
    """
    header, _, peers = text.partition("=")
    try:
        return TrustedProxy.model_validate({"header": header, "from": peers.split(",")})
    except ValidationError as error:
        raise InvalidArgument(
            f"cannot trust the proxy header '{plain(text, 80)}': it is not HEADER=ADDRESS",
            hint="for example X-Forwarded-User=127.0.0.1, or X-Forwarded-User=unix for a unix socket",
        ) from error


def _named(
    name: str, rules: tuple[RoleRule, ...], claims: Mapping[str, Any], issuer: str, subject: str
) -> Person:
    if not PERSON_NAME.fullmatch(name):
        raise NotPermitted(
            f"cannot sign in: '{plain(name, 40)}' cannot be a name here",
            hint="a name has 1 to 32 of a-z, 0-9, . _ -; `person` in the settings chooses the claim",
        )
    roles: dict[str, str] = {}
    for rule in rules:
        if rule.claim and rule.is_met(claims):
            roles.setdefault(rule.team, rule.role)
        elif not rule.claim:  # everyone else
            roles = roles or {rule.team: rule.role}
            break
    if not roles:
        raise NotPermitted(
            f"cannot sign in: {name} is not given a role by any rule", hint="ask the server's owner"
        )
    return Person(name, roles, issuer, subject)


def _values(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the texts in a claim; a name with dots can lead into tables: `realm_access.roles`."""
    found: Any = claims.get(name)
    if found is None and "." in name:
        found = claims
        for part in name.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    return frozenset(_texts(found))


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, str):
        yield found
    elif isinstance(found, list):
        yield from (each for each in found[:MOST_VALUES] if isinstance(each, str))
