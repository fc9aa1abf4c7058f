"""Verbs: push, pull."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import Allow, Json, Network, SnapshotRef
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.transfer_verbs import (
    PASSPHRASE,
    Compression,
    Cores,
    EncryptTo,
    FilesOnly,
    KeyName,
    Label,
    Memory,
    OpeningPassphrase,
    PlainHttp,
    Secrets,
    WithPassphrase,
    about,
    arrived,
    bar,
    bundle_passphrase,
    given,
    notes,
    opening_passphrase,
)

Reference = Annotated[str, typer.Argument(metavar="REFERENCE", help="host[:port]/name[:tag]")]


def push(
    snapshot: SnapshotRef,
    reference: Reference,
    key: KeyName = None,
    compression: Compression = "gzip",
    encrypt_to: EncryptTo = None,
    passphrase: WithPassphrase = False,
    plain_http: PlainHttp = False,
    secrets: Secrets = None,
    json: Json = False,
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
        printing.note(f"{printing.size(done.bytes)}, of which {printing.size(done.sent)} were not there")


def pull(
    reference: Annotated[str, typer.Argument(metavar="REFERENCE", help="host[:port]/name[:tag][@digest]")],
    label: Label = None,
    files_only: FilesOnly = False,
    memory: Memory = None,
    cpus: Cores = None,
    network: Network = None,
    allow: Allow = None,
    passphrase: OpeningPassphrase = False,
    plain_http: PlainHttp = False,
    json: Json = False,
) -> None:
    """Import a snapshot from a registry. It must be signed by a key you trust."""
    limits = given(memory=memory, cpus=cpus, network=network, allow=allow)
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
