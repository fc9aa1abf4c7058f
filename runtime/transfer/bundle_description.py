"""The description that travels with a snapshot: its manifest without host-specific fields, the index's facts
about its session, and warnings of secrets that it probably carries.

A push notices by the index another machine that runs the session. Warnings are by kinds, names and pids, not
by values; finding nothing does not mean that there is none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.text import plain
from holdfast.runtime.guest.records import masking
from holdfast.runtime.sessions.option_table import EXPORTED
from holdfast.runtime.sessions.tenures import Tenures
from holdfast.runtime.store.row_details import SnapshotDetails
from holdfast.snapshots.bundle import form, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.image_layers import ImageFacts
from holdfast.snapshots.layer.image import base_layers, written_from
from holdfast.snapshots.manifest import Manifest, StoredFile
from holdfast.snapshots.record import RecordedProcess, StateRecord

if TYPE_CHECKING:
    from holdfast.runtime.scrubbing.scrubber import Scrubber


IDENTITY = "io.holdfast.identity"
WRITTEN = "written"
"""The detail with the position of the first layer of each container that has several layers."""
_MOST = 20_000
# Programs whose memory consists of keys and passwords.
_KEEPERS = frozenset(
    {
        *("ssh-agent", "gpg-agent", "ssh", "sshd", "gpg", "gnome-keyring-d", "keyboxd", "scdaemon", "pass"),
        *(
            "vault",
            "op",
            "bw",
            "sops",
            "age",
            "aws-vault",
            "docker-credenti",
            "kinit",
            "krb5kdc",
            "sudo",
            "su",
        ),
    }
)
# Below the folders of users, and of the work.
_CREDENTIAL_FILES = (
    *(
        ".ssh/id_rsa",
        ".ssh/id_ed25519",
        ".ssh/id_ecdsa",
        ".ssh/id_dsa",
        ".aws/credentials",
        ".netrc",
        ".pypirc",
    ),
    *(".npmrc", ".git-credentials", ".docker/config.json", ".kube/config", ".config/gh/hosts.yml", ".pgpass"),
    *(".vault-token", ".config/gcloud/application_default_credentials.json", ".azure/accessTokens.json"),
    *(
        ".my.cnf",
        ".env",
        ".gnupg/private-keys-v1.d",
        ".config/pip/pip.conf",
        ".terraform.d/credentials.tfrc.json",
    ),
)
_HOME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
MOST_HOMES = 100
SHOWN = 6


def bundle_config(
    manifest: Manifest,
    image: ImageFacts,
    segments: list[form.LayerSegment],
    files: list[form.FileInParts],
    details: SnapshotDetails,
    scrubber: Scrubber,
    stored: Sequence[StoredFile],
) -> bytes:
    """Return the config of the snapshot's manifest, without secrets; `stored` are its files as they
    are sent.
    """
    options = {key: scrubber.value(manifest.options[key]) for key in EXPORTED if key in manifest.options}
    changed = {
        "options": options,
        "files": list(stored),
        "failure": scrubber.failure(manifest.failure) if manifest.failure is not None else None,
        # Names have a form of their own, which replacements of secrets do not have.
        "label": manifest.label
        if manifest.label is None or scrubber.text(manifest.label) == manifest.label
        else None,
        "session_name": manifest.session_name
        if scrubber.text(manifest.session_name) == manifest.session_name
        else manifest.session,
    }
    made = form.BundleConfig(
        snapshot=manifest.model_copy(update=changed),
        base=base_layers(image.config, len(image.layers)),
        segments=segments,
        files=files,
        details={
            **{key: scrubber.value(value) for key, value in details.portable.items()},
            # Not a field of its own, which receivers of the last version would refuse.
            **({WRITTEN: written} if (written := written_from(image.config)) else {}),
        },
    )
    return form.dumps(made.model_dump(mode="json"))


def image_config(manifest: Manifest, image: ImageFacts, scrubber: Scrubber) -> bytes:
    """Return the config of the ordinary image: a shell in the files of the session, without any
    secret value.
    """
    chosen = manifest.options.get("env")
    names = set(chosen) if isinstance(chosen, dict) else set()
    given = [str(each) for each in image.config.get("Env") or ()]
    return form.dumps(
        {
            "architecture": image.architecture,
            "os": image.system,
            "config": {
                "Env": [scrubber.text(each) for each in given if each.partition("=")[0] not in names],
                "Cmd": ["bash"],
                "WorkingDir": str(manifest.options.get("workdir") or image.config.get("WorkingDir") or "/"),
            },
            "rootfs": {"type": "layers", "diff_ids": list(image.layers)},
            "history": [{"created_by": "holdfast"} for _ in image.layers],
        }
    )


def layer_blob(packed: BlobDescriptor, size: int) -> BlobDescriptor:
    """Return the descriptor of a layer with its uncompressed size."""
    return BlobDescriptor(packed.media_type, packed.digest, packed.size, {media.RAW_BYTES: str(size)})


def identity_annotations(session_id: str, tenures: Tenures) -> dict[str, str]:
    """Return the annotation; none without tenures."""
    if not tenures.chain:
        return {}
    chain = [_digest(each.id) for each in tenures.chain]
    return {IDENTITY: json.dumps({"session": _digest(session_id), "tenures": chain}, separators=(",", ":"))}


def identity_passes(annotations: Mapping[str, str], session_id: str, tenures: Tenures) -> bool:
    """Return whether a session with these tenures can replace the bundle with these annotations.

    It can, unless the bundle is from the same session, and from a tenure that this one does not know:
    another machine has continued it.
    """
    text = annotations.get(IDENTITY, "")
    try:
        found: Any = json.loads(text) if len(text) < _MOST else None
        same, chain = found["session"] == _digest(session_id), [str(each) for each in found["tenures"]]
    except (ValueError, RecursionError, KeyError, TypeError):
        return True
    return not same or not chain or chain[-1] in {_digest(each.id) for each in tenures.chain}


def _digest(text: str) -> str:
    return hashlib.sha256(f"holdfast {text}".encode()).hexdigest()[:24]


def secrets_warnings(
    manifest: Manifest,
    record: StateRecord | None,
    layers: Sequence[Path],
    shells: Iterable[str] = (),
    copied: frozenset[str] = frozenset(),
) -> list[str]:
    """Return sentences about contents that are perhaps confidential.

    Args:
        manifest: the snapshot's manifest.
        record: the record of its processes.
        layers: the folders of its image's layers, if they can be read here.
        shells: names of variables its shells had.
        copied: paths of folders and non-empty files in its other layers.
    """
    found: list[str] = []
    if manifest.kind == "live":
        found.append("it holds all memory of its programs, and with it everything they know")
    processes = record.tree.processes if record is not None else []
    keepers = [f"{plain(one.name, 20)} (pid {one.pid})" for one in processes if one.name in _KEEPERS]
    if keepers:
        found.append(f"programs that keep keys or passwords ran: {_listed(keepers)}")
    if variables := _variables(processes, shells if manifest.kind == "live" else ()):
        found.append(f"variables of its programs sound like secrets: {_listed(variables)}")
    if files := list(_files(layers, copied)):
        found.append(f"files in it hold credentials: {_listed(files)}")
    return found


def _variables(processes: Iterable[RecordedProcess], shells: Iterable[str]) -> list[str]:
    names: dict[str, list[int]] = {}
    for process in processes:
        for name in process.secrets:
            if masking.secret(name):
                names.setdefault(plain(name, 60), []).append(process.pid)
    own = sorted({plain(name, 60) for name in shells if masking.secret(name)} - set(names))
    return [f"{name} (a shell)" for name in own] + [
        f"{name} (pid {pids[0]}{f' and {len(pids) - 1} more' if len(pids) > 1 else ''})"
        for name, pids in sorted(names.items())
    ]


def _files(layers: Sequence[Path], copied: frozenset[str]) -> Iterator[str]:
    """Return paths of well-known files in the topmost layer that has anything of that name."""
    homes = {"root", "workspace"}
    for layer in layers:
        with suppress(OSError), os.scandir(layer / "home") as entries:
            homes |= {f"home/{one.name}" for one in entries if _HOME.fullmatch(one.name)}
    for path in copied:
        first, _, name = path.partition("/")
        if first == "home" and _HOME.fullmatch(name):
            homes.add(path)
    for home in sorted(homes)[:MOST_HOMES]:
        for name in _CREDENTIAL_FILES:
            path = f"{home}/{name}"
            if path in copied or any(_is_there(layer, path) for layer in layers):
                yield f"/{home}/{name}"


def _is_there(layer: Path, path: str) -> bool:
    """Check for a non-empty file or folder, following no link on the way."""
    *folders, name = path.split("/")
    try:
        at = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folders:
                below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
                os.close(at)
                at = below
            there = os.stat(name, dir_fd=at, follow_symlinks=False)
        finally:
            os.close(at)
    except OSError:
        return False
    return stat.S_ISDIR(there.st_mode) or (stat.S_ISREG(there.st_mode) and there.st_size > 0)


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
