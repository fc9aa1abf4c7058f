"""Verbs: push, pull."""

from __future__ import annotations

import os

from holdfast.runtime.cli import printing
from holdfast.runtime.cli.arguments import ALLOW, JSON, NETWORK, SNAPSHOT_REF
from holdfast.runtime.cli.caller import controller, wants_json
from holdfast.runtime.cli.grammar import argument, examples
from holdfast.runtime.cli.transfer_verbs import (
    COMPRESSION,
    CORES,
    ENCRYPT_TO,
    FILES_ONLY,
    KEY_NAME,
    LABEL,
    MEMORY,
    OPENING_PASSPHRASE,
    PASSPHRASE,
    PLAIN_HTTP,
    SECRETS,
    WITH_PASSPHRASE,
    about,
    arrived,
    bar,
    bundle_passphrase,
    given,
    notes,
    opening_passphrase,
)

REFERENCE = argument("REFERENCE", help="host[:port]/name[:tag]")


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
        printing.note(f"{printing.size(done.bytes)}, of which {printing.size(done.sent)} were not there")


@examples("pull registry.example.com/team/work:before")
def pull(
    reference: str = argument("REFERENCE", help="host[:port]/name[:tag][@digest]"),
    label: str | None = LABEL,
    files_only: bool = FILES_ONLY,
    memory: str | None = MEMORY,
    cpus: float | None = CORES,
    network: str | None = NETWORK,
    allow: list[str] | None = ALLOW,
    passphrase: bool = OPENING_PASSPHRASE,
    plain_http: bool = PLAIN_HTTP,
    json: bool = JSON,
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
