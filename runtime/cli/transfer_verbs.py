"""Verbs that move snapshots between machines: export, import, push, pull, and the keys that sign them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument
from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import ALLOW, DENY, JSON, NETWORK, SNAPSHOT_REF
from holdfast.runtime.cli.caller import EarlyOptions, controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples, option
from holdfast.runtime.transfer import transfer_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.runtime.api.bundles import Progress
    from holdfast.runtime.api.snapshot import Snapshot
    from holdfast.runtime.transfer.push_pull import Exported, Pushed
    from holdfast.snapshots.bundle.keys import Keys, KnownKey

PASSPHRASE = "HOLDFAST_KEY_PASSPHRASE"  # noqa: S105 - the name of a variable
BUNDLE_PASSPHRASE = "HOLDFAST_BUNDLE_PASSPHRASE"  # noqa: S105 - the name of a variable
KEY_NAME = option("--key", metavar="NAME", help="Sign with this key (default: the only one, or `default`).")
COMPRESSION = option(
    "--compression",
    default="gzip",
    help="Compression of file layers: gzip, or zstd (needs Docker 23 or newer).",
)
ENCRYPT_TO = option("--encrypt-to", metavar="KEY", help="Encrypt it for x25519:…. Repeatable.")
WITH_PASSPHRASE = option(
    "--passphrase", help=(f"Encrypt it with a passphrase, from a prompt or {BUNDLE_PASSPHRASE}.")
)
SECRETS = option(
    "--secrets",
    metavar="warn|refuse|ignore",
    help="Treatment of secrets found in memory and files (default: as scrub.json says, else warn).",
)
OPENING_PASSPHRASE = option(
    "--passphrase", help=f"Decrypt it with a passphrase, from a prompt or {BUNDLE_PASSPHRASE}."
)
LABEL = option("--label", "-l", help="A name for the snapshot here.")
MEMORY = option("--memory", help="Memory limit of sessions restored from it, such as 512m or 4g.")
CORES = option("--cpus", help="Cores.")
FILES_ONLY = option("--files-only", help="Import the files without memory and processes, from any signer.")
PLAIN_HTTP = option("--plain-http", help="Do not use TLS, even if the registry is on a different machine.")
REFERENCE = argument("REFERENCE", help="host[:port]/name[:tag]")


@examples("export before before.holdfast")
def export(
    snapshot: str = SNAPSHOT_REF,
    file: Path = argument("FILE", help="File to write (replaced if it exists), or - for a pipe."),
    key: str | None = KEY_NAME,
    compression: str = COMPRESSION,
    encrypt_to: list[str] | None = ENCRYPT_TO,
    passphrase: bool = WITH_PASSPHRASE,
    secrets: str | None = SECRETS,
    shared: bool = option(
        "--shared", help="Keep its parts in `blobs` next to FILE, shared with other snapshots."
    ),
    thin: bool = option(
        "--thin", help=("Leave out layers of the session image that the receiving engine has.")
    ),
    json: bool = JSON,
) -> None:
    """Write a snapshot to a signed file that can be imported elsewhere."""
    where = _end(file, sys.stdout.fileno, "export to")
    if isinstance(where, int) and wants_json(json):
        raise InvalidArgument("cannot export to a pipe with --json: both would be written to standard output")
    secret = bundle_passphrase(wanted=passphrase)
    with controller() as holdfast, bar("exporting") as progress:
        done = holdfast.snapshot(snapshot).export(
            where,
            key=key,
            passphrase=os.environ.get(PASSPHRASE),
            compression=compression,
            secrets=secrets,
            encrypt_to=encrypt_to or (),
            bundle_passphrase=secret,
            shared=shared,
            thin=thin,
            progress=progress,
        )
    notes(done, encrypted=bool(secret or encrypt_to))
    if isinstance(where, int):
        printing.note(f"{done.digest} {printing.size(done.bytes)}")
    elif wants_json(json):
        printing.emit(
            {
                "path": str(done.path),
                "digest": done.digest,
                "bytes": done.bytes,
                "sent": done.sent,
                **about(done),
            }
        )
    else:
        new = "" if done.sent == done.bytes else f", {printing.size(done.sent)} of it new"
        printing.say(f"{done.path} {printing.size(done.bytes)}{new}")


@examples("import before.holdfast")
def import_(
    file: Path = argument("FILE", help="A file written by `holdfast export`; or - (pipe)."),
    label: str | None = LABEL,
    files_only: bool = FILES_ONLY,
    memory: str | None = MEMORY,
    cpus: float | None = CORES,
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    deny: list[str] | None = DENY,
    passphrase: bool = OPENING_PASSPHRASE,
    json: bool = JSON,
) -> None:
    """Import a snapshot from a file. It must be signed by a key you trust."""
    where = _end(file, sys.stdin.fileno, "import from")
    limits = given(memory=memory, cpus=cpus, network=network, allow=allow, deny=deny)
    secret = opening_passphrase(ask=passphrase)
    with controller() as holdfast, bar("importing") as progress:
        found = holdfast.import_(
            where,
            label=label,
            files_only=files_only,
            passphrase=secret,
            key_passphrase=os.environ.get(PASSPHRASE),
            progress=progress,
            **limits,
        )
    arrived(found, label, as_json=wants_json(json))


def _end(file: Path, descriptor: Callable[[], int], what: str) -> Path | int:
    """Return the file, or the descriptor that `-` stands for."""
    if str(file) != "-":
        return file
    if os.isatty(descriptor()):
        raise InvalidArgument(
            f"cannot {what} a terminal: a bundle is not text",
            hint="connect a pipe: `holdfast export SNAP - | ssh HOST holdfast import -`",
        )
    return descriptor()


def given(**limits: Any) -> dict[str, Any]:
    """Return the given limits of sessions."""
    return {key: value for key, value in limits.items() if value is not None}


def arrived(found: Snapshot, label: str | None, *, as_json: bool) -> None:
    """Report an imported snapshot, whose label differs from the given one if it was here before."""
    if label is not None and found.label != label:
        printing.note(f"it is here already, as {found.name}")
    if as_json:
        printing.emit(found.as_dict() | {"origin": found.row.details.origin})
    else:
        printing.say(found.name)


def notes(done: Exported | Pushed, *, encrypted: bool) -> None:
    """Print a sender's warnings about a snapshot."""
    for warning in done.warnings:
        printing.note(warning)
    if done.warnings and not encrypted:
        printing.note("anyone who gets it can read them; encrypt with --encrypt-to KEY or --passphrase")
    if done.new_key:
        printing.note(transfer_options.made_key(done.signed_by))


def about(done: Exported | Pushed) -> dict[str, Any]:
    """Return the result of sending a snapshot for programs, at either end."""
    return {
        "signed_by": done.signed_by,
        "new_key": done.new_key,
        "warnings": list(done.warnings),
        "findings": [one.as_dict() for one in done.findings],
        "scrubbed": dict(done.scrubbed),
    }


def bundle_passphrase(*, wanted: bool) -> str | None:
    """Return the passphrase to encrypt with, if one is wanted."""
    if not wanted:
        return None
    given = os.environ.get(BUNDLE_PASSPHRASE)
    return given or asked_passphrase(twice=True)


def opening_passphrase(*, ask: bool) -> str | None:
    """Return the passphrase to decrypt with, if known; otherwise ask for it if `ask` says so."""
    given = os.environ.get(BUNDLE_PASSPHRASE)
    return asked_passphrase() if ask and not given else given


def asked_passphrase(*, twice: bool = False) -> str:
    """Ask the person at the terminal for a passphrase, or `twice` until both are the same."""
    import getpass

    while True:
        try:
            typed = getpass.getpass("passphrase: ")
            if typed and (not twice or getpass.getpass("the same again: ") == typed):
                return typed
        except EOFError:
            raise KeyboardInterrupt from None
        printing.note("the two differ" if typed else "it is empty")


@contextmanager
def bar(what: str) -> Iterator[Progress]:
    """Show progress on a terminal, and only there."""
    if not sys.stderr.isatty():
        yield lambda _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    before, EarlyOptions.quiet = EarlyOptions.quiet, True  # steps would be written into the bar's line
    try:
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task(what, total=None)
            yield lambda done, all_: shown.update(task, completed=done, total=all_)
    finally:
        EarlyOptions.quiet = before


@examples("push before registry.example.com/team/work:before")
def push(
    snapshot: str = SNAPSHOT_REF,
    reference: str = REFERENCE,
    key: str | None = KEY_NAME,
    compression: str = COMPRESSION,
    encrypt_to: list[str] | None = ENCRYPT_TO,
    passphrase: bool = WITH_PASSPHRASE,
    plain_http: bool = PLAIN_HTTP,
    secrets: str | None = SECRETS,
    json: bool = JSON,
) -> None:
    """Send a snapshot to a registry, skipping what is already there."""
    secret = bundle_passphrase(wanted=passphrase)
    with controller() as holdfast, bar("pushing") as progress:
        done = holdfast.snapshot(snapshot).push(
            reference,
            key=key,
            passphrase=os.environ.get(PASSPHRASE),
            compression=compression,
            secrets=secrets,
            encrypt_to=encrypt_to or (),
            bundle_passphrase=secret,
            plain_http=plain_http,
            progress=progress,
        )
    notes(done, encrypted=bool(secret or encrypt_to))
    if wants_json(json):
        printing.emit(
            {
                "reference": done.reference,
                "digest": done.digest,
                "pinned": done.pinned,
                "bytes": done.bytes,
                "sent": done.sent,
                **about(done),
            }
        )
    else:
        printing.say(done.pinned)
        printing.note(f"{printing.size(done.bytes)}, of which {printing.size(done.sent)} were sent")


@examples("pull registry.example.com/team/work:before")
def pull(
    reference: str = argument("REFERENCE", help="host[:port]/name[:tag][@digest]"),
    label: str | None = LABEL,
    files_only: bool = FILES_ONLY,
    memory: str | None = MEMORY,
    cpus: float | None = CORES,
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    deny: list[str] | None = DENY,
    passphrase: bool = OPENING_PASSPHRASE,
    plain_http: bool = PLAIN_HTTP,
    json: bool = JSON,
) -> None:
    """Import a snapshot from a registry. It must be signed by a key you trust."""
    limits = given(memory=memory, cpus=cpus, network=network, allow=allow, deny=deny)
    secret = opening_passphrase(ask=passphrase)
    with controller() as holdfast, bar("pulling") as progress:
        found = holdfast.pull(
            reference,
            label=label,
            files_only=files_only,
            passphrase=secret,
            key_passphrase=os.environ.get(PASSPHRASE),
            plain_http=plain_http,
            progress=progress,
            **limits,
        )
    arrived(found, label, as_json=wants_json(json))


@examples("key new", "key new ci --passphrase")
def new(
    name: str = argument("[NAME]", default="default", help="Name of the key in this home."),
    passphrase: bool = option(
        "--passphrase", help=(f"Protect the key with a passphrase, from a prompt or {PASSPHRASE}.")
    ),
    json: bool = JSON,
) -> None:
    """Create a key that signs exports from here."""
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
    """Trust a key: snapshots that it signed can be imported here, and run in sessions."""
    _report(_keys().trust(key, name), as_json=wants_json(json))


@examples("key list")
def list_(json: bool = JSON) -> None:
    """List this home's keys and the trusted keys."""
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
    """Remove a key. Bundles signed with it are no longer trusted."""
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
