"""Verbs: key new, key list, key trust, key rm."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.runtime.cli import output
from holdfast.runtime.cli.arguments import Json, wants_json
from holdfast.runtime.cli.moving import PASSPHRASE
from holdfast.runtime.home import Home

if TYPE_CHECKING:
    from holdfast.snapshots.bundle.keys import Keys, Known

app = typer.Typer(name="key", no_args_is_help=True, help="Keys that sign snapshots, and whose count here.")


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="What it is called here.")] = "default",
    passphrase: Annotated[
        bool, typer.Option("--passphrase", help=f"Ask for one, or take it from {PASSPHRASE}.")
    ] = False,
    json: Json = False,
) -> None:
    """Make a key; what is exported from here is signed with it."""
    secret = None
    if passphrase:
        secret = os.environ.get(PASSPHRASE) or str(
            typer.prompt("passphrase", hide_input=True, confirmation_prompt=True, err=True)
        )
    made = _keys().new(name, secret)
    if not wants_json(json):
        output.note(f"where it is to count: `holdfast key trust {made.public}`")
    _tell(made, as_json=wants_json(json))


@app.command()
def trust(
    key: Annotated[str, typer.Argument(metavar="KEY", help="ed25519:..., as `key list` shows it there.")],
    name: Annotated[str | None, typer.Option("--name", help="What to call it here.")] = None,
    json: Json = False,
) -> None:
    """Let what this key has signed be imported: it can then run here, in a session."""
    _tell(_keys().trust(key, name), as_json=wants_json(json))


@app.command("list")
def list_(json: Json = False) -> None:
    """Keys of this home, and those it trusts."""
    found = _keys().known()
    if wants_json(json):
        output.emit([_told(one) for one in found])
    else:
        output.table(
            ("NAME", "KEY", "USE", "ENCRYPT TO"),
            [(one.name, one.public, "signs" if one.own else "is trusted", one.recipient) for one in found],
        )


@app.command()
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, or the key itself.")],
    json: Json = False,
) -> None:
    """Forget a key. What was signed with it stays signed; nothing more is imported because of it."""
    _tell(_keys().remove(name), as_json=wants_json(json))


def _keys() -> Keys:
    from holdfast.snapshots.bundle.keys import Keys

    return Keys(Home.default().create())


def _told(one: Known) -> dict[str, Any]:
    return {
        "name": one.name,
        "key": one.public,
        "own": one.own,
        "passphrase": one.locked,
        "recipient": one.recipient or None,
    }


def _tell(one: Known, *, as_json: bool) -> None:
    if as_json:
        output.emit(_told(one))
    else:
        output.say(f"{one.name} {one.public}")
