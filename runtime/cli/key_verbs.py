"""Verbs: key new, key list, key trust, key rm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.base.home import Home
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Json
from holdfast.runtime.cli.caller import wants_json
from holdfast.runtime.cli.transfer_verbs import PASSPHRASE

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.keys import Keys, KnownKey

app = typer.Typer(name="key", no_args_is_help=True, help="Manage the keys that sign snapshots.")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Name of the key in this home.")] = "default",
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Ask for one, or take it from {PASSPHRASE}.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a key that signs what is exported from here."""
    secret = None
    if passphrase:
        secret = os.environ.get(PASSPHRASE) or str(
            typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True)
        )
    made = _keys().new(name, secret)
    if not wants_json(json):
        printing.note(f"to trust it elsewhere: `holdfast key trust {made.public}`")
    _report(made, as_json=wants_json(json))


@app.command()
def trust(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="ed25519:…, as `key list` prints it on the other machine.")
    ],
    name: Annotated[str | None, typer.Option("--name", help="Name for it in this home.")] = None,
    json: Json = False,
) -> None:
    """Trust a key: snapshots it has signed may be imported and run here, in sessions."""
    _report(_keys().trust(key, name), as_json=wants_json(json))


@app.command("list")
def list_(json: Json = False) -> None:
    """List this home's keys and those it trusts."""
    found = _keys().known()
    if wants_json(json):
        printing.emit([_row(one) for one in found])
    else:
        printing.table(
            ("NAME", "KEY", "USE", "ENCRYPT TO"),
            [(one.name, one.public, "signs" if one.own else "is trusted", one.recipient) for one in found],
        )


@app.command()
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the key, or the key itself.")],
    json: Json = False,
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
