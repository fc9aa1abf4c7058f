"""Each session's policy for the gateway: written before its first process is released, and removed.

A policy is a file named by the source address of its session. A session that gets an address first replaces
or removes the file there, so that no session inherits a policy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.base.home import Home
from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, NetworkNotClosed, StoreError
from holdfast.runtime.egress import gateway, home_network, vault
from holdfast.runtime.gateway import refusal_log
from holdfast.runtime.gateway.names import Domain
from holdfast.runtime.gateway.refusal_log import RefusedHost
from holdfast.runtime.gateway.session_rules import NetworkOpening, SessionRules, load
from holdfast.runtime.sessions.network_exceptions import Allowed

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine
    from holdfast.runtime.sessions.session_options import SessionOptions
    from holdfast.snapshots.checkpointer.egress.netrules import NetworkRules


@dataclass(frozen=True, slots=True)
class Caller:
    """A session's container: its session, its addresses, and the host's addresses in its network."""

    session: str
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]


def begin(
    engine: Engine,
    home: Home,
    progress: Callable[[str], None],
    options: SessionOptions,
    caller: Caller,
    rules: NetworkRules,
) -> gateway.GatewayAddress:
    """Write the policy of a session that is about to run, and return where the gateway is.

    `rules` are the networks it cannot reach through the gateway.

    Raises:
        NetworkNotClosed: the gateway does not start.
        EngineError, ImageError, StoreError, SessionBusy: the same as for `gateway.ensure`.
    """
    host = next((address for address in caller.gateways if ip_address(address).version == 4), None)
    if host is None or not caller.addresses:
        raise NetworkNotClosed(
            "cannot start session: its network lacks an address of the host for the gateway"
        )
    text = _policy(home, options, caller, rules, progress).dump()
    with gateway.alone(home):
        place = gateway.ensure(engine, home, progress, host)
        for address in caller.addresses:
            vault.write_private(_path(home, address), text, vault.owner())
    return place


def clear(home: Home, addresses: Iterable[str]) -> None:
    """Remove the policies of these addresses, whose present session has none.

    Raises:
        StoreError: one cannot be removed.
    """
    for address in addresses:
        _remove(_path(home, address))


def leave(home: Home, session_id: str) -> None:
    """Remove the policy of a session that stops; it gets one when it resumes. Raises what `end` raises."""
    with gateway.alone(home):
        _forget(home, session_id)


def end(engine: Engine, home: Home, session_id: str) -> None:
    """Remove all data of a removed session; after the last one, the gateway as well.

    Raises:
        StoreError, EngineError, SessionBusy: it cannot be removed now.
    """
    import shutil

    if not home.has_gateway:
        return
    with gateway.alone(home):
        _forget(home, session_id)
        shutil.rmtree(home.gateway / "trust" / session_id, ignore_errors=True)
        for name in (session_id, f"{session_id}.old"):
            _remove(home.gateway / "refused" / name)
        if not any(_all(home)):
            gateway.stop(engine, home)


def domains(home: Home, session_id: str) -> tuple[str, ...]:
    """Return the domains a running session can reach now."""
    found = [policy for _, policy in _all(home) if policy.session == session_id]
    return tuple(str(one) for one in found[0].domains) if found else ()


def parse_domain(text: str) -> Domain:
    """Return a domain that a person wrote.

    Raises:
        InvalidArgument: it is not valid.
    """
    try:
        return Domain.parse(text)
    except ValueError as error:
        raise InvalidArgument(
            f"cannot allow domain '{plain(text, 100)}': {error}",
            hint="for example --domain api.example.com, '*.example.org' or example.org:8443",
        ) from error


def refused(home: Home, session_id: str) -> list[RefusedHost]:
    """Return the gateway's refusals of a session, oldest first."""
    return refusal_log.read(home.gateway / "refused", session_id)


def _forget(home: Home, session_id: str) -> None:
    known = dict(_all(home))
    for path in _files(home):
        # An unreadable policy, of another version for one, belongs to no session.
        if path not in known or known[path].session == session_id:
            _remove(path)


def _policy(
    home: Home, options: SessionOptions, caller: Caller, rules: NetworkRules, progress: Callable[[str], None]
) -> SessionRules:
    text = home_network.read(home)
    opened = [*map(Allowed.parse, options.allow), *text.every]
    found = []
    for one in options.secrets:
        kept = vault.find(home, one.placeholder)
        if kept is None:
            progress(f"secret {one.name}: its value is not in this home; its placeholder is sent unchanged")
        else:
            found.append(kept)
    return SessionRules(
        session=caller.session,
        only_domains=options.network == "domains",
        domains=tuple(map(parse_domain, options.domains)),
        secrets=tuple(found),
        refused=rules.refused,
        denied=rules.denied,
        allowed=rules.allowed,
        opened=tuple(NetworkOpening(one.network, one.port) for one in rules.opened),
        opened_names=tuple((one.host, one.port) for one in opened if one.is_name and one.port is not None),
        names=text.hosts,
    )


def _files(home: Home) -> list[Path]:
    return sorted((home.gateway / "sessions").glob("*.json"))


def _all(home: Home) -> Iterator[tuple[Path, SessionRules]]:
    for path in _files(home):
        with suppress(OSError, ValueError, KeyError, TypeError, json.JSONDecodeError):
            yield path, load(path.read_text())


def _path(home: Home, address: str) -> Path:
    return home.gateway / "sessions" / f"{ip_address(address)}.json"


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot remove {path}: {error.strerror or error}") from error
