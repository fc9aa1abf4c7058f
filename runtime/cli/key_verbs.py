"""Verbs: key new, key list, key trust, key rm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.base.home import Home
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import JSON
from holdfast.runtime.cli.caller import wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.cli.transfer_verbs import PASSPHRASE, asked_passphrase

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.keys import Keys, KnownKey


@examples("key new", "key new ci --passphrase")
def new(
    name: str = argument("[NAME]", default="default", help="Name of the key in this home."),
    passphrase: bool = option("--passphrase", help=f"Ask for one, or take it from {PASSPHRASE}."),
    json: bool = JSON,
) -> None:
    """Create a key that signs what is exported from here."""
    secret = None
    if passphrase:
        secret = os.environ.get(PASSPHRASE) or asked_passphrase(twice=True)
    made = _keys().new(name, secret)
    if not wants_json(json):
        printing.note(f"to trust it elsewhere: `holdfast key trust {made.public}`")
    _report(made, as_json=wants_json(json))


@examples("key trust ed25519:KEY --name colleague    # as their `key list` prints it")
def trust(
    key: str = argument("KEY", help="ed25519:…, as `key list` prints it on the other machine."),
    name: str | None = option("--name", help="Name for it in this home."),
    json: bool = JSON,
) -> None:
    """Trust a key: snapshots it has signed may be imported and run here, in sessions."""
    _report(_keys().trust(key, name), as_json=wants_json(json))


@examples("key list")
def list_(json: bool = JSON) -> None:
    """List this home's keys and those it trusts."""
    found = _keys().known()
    if wants_json(json):
        printing.emit([_row(one) for one in found])
    else:
        printing.table(
            ("NAME", "KEY", "USE", "ENCRYPT TO"),
            [(one.name, one.public, "signs" if one.own else "is trusted", one.recipient) for one in found],
        )


@examples("key rm colleague")
def rm(
    name: str = argument("NAME", help="Name of the key, or the key itself."),
    json: bool = JSON,
) -> None:
    """Remove a key. What it has signed is no longer trusted."""
    _report(_keys().remove(name), as_json=wants_json(json))


def _keys() -> Keys:
    from holdfast.snapshots.bundle.keys import Keys

    return Keys(Home.default().create())


def _row(one: KnownKey) -> dict[str, Any]:
    return {
        "name": one.name,
        "key": one.public,
        "own": one.own,
        "passphrase": one.locked,
        "recipient": one.recipient or None,
    }


def _report(one: KnownKey, *, as_json: bool) -> None:
    if as_json:
        printing.emit(_row(one))
    else:
        printing.say(f"{one.name} {one.public}")
