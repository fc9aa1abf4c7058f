"""Warns of secrets that a snapshot probably carries: by kinds, names and pids, not by values.

It finds what looks like a secret; finding nothing does not mean that there is none.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from holdfast.base.text import plain
from holdfast.runtime.guest.records import masking
from holdfast.snapshots.manifest import Manifest
from holdfast.snapshots.record import RecordedProcess, StateRecord

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
_FILES = (
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
_HOMES = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
MOST_HOMES = 100
SHOWN = 6


def warnings(
    kept: Manifest, record: StateRecord | None, layers: Sequence[Path], shells: Iterable[str] = ()
) -> list[str]:
    """Return sentences about what should perhaps not be given away.

    Args:
        kept: the snapshot's manifest.
        record: the record of its processes.
        layers: the folders of its image's layers, if they can be read here.
        shells: names of variables its shells had.
    """
    found: list[str] = []
    if kept.kind == "live":
        found.append("it holds all memory of its programs, and with it everything they know")
    processes = record.tree.processes if record is not None else []
    keepers = [f"{plain(one.name, 20)} (pid {one.pid})" for one in processes if one.name in _KEEPERS]
    if keepers:
        found.append(f"programs that keep keys or passwords ran: {_listed(keepers)}")
    if variables := _variables(processes, shells if kept.kind == "live" else ()):
        found.append(f"variables of its programs sound like secrets: {_listed(variables)}")
    if files := list(_files(layers)):
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


def _files(layers: Sequence[Path]) -> Iterator[str]:
    """Return paths of well-known files in the topmost layer that has anything of that name."""
    homes = {"root", "workspace"}
    for layer in layers:
        with suppress(OSError), os.scandir(layer / "home") as entries:
            homes |= {f"home/{one.name}" for one in entries if _HOMES.fullmatch(one.name)}
    for home in sorted(homes)[:MOST_HOMES]:
        for name in _FILES:
            if any(_is_there(layer, f"{home}/{name}") for layer in layers):
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
