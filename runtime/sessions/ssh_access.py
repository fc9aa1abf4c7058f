"""Access to sessions by ssh: the keys of both ends, and the configuration of OpenSSH's client.

    ssh/client_key, client_key.pub   the key of this home, which opens its sessions and nothing else
    ssh/known_hosts                  the keys of sessions, under the names by which they were called last

A session's own key is drawn at its first connection and kept with it in the store: copies, which have a
different id, have a different key, and root in a session only ever sees its own one. Knows neither
connections nor the session's end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from holdfast.base import ids, locks, private_files, shell_words
from holdfast.errors import InvalidArgument, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from holdfast.base.home import Home
    from holdfast.runtime.store.store import Store

DOMAIN = ".holdfast"
"""The end of the name by which ssh calls a session."""
DETAIL = "ssh"
"""Its key among the details of a session."""
USER = "holdfast"
"""The name by which ssh asks for the user of a session; `ssh_accounts.c` knows it."""
MOST_KNOWN = 1000
"""Lines of known_hosts; the oldest leave first."""
_SEED = re.compile(r"[0-9a-f]{64}")
_DOMAIN = re.compile(r"\.[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_CLIENT_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}")


def domain_of(given: str | None) -> str:
    """Return the end of the names of sessions, such as `.build`; `.holdfast` if none is given.

    Raises:
        InvalidArgument: it is not one.
    """
    found = DOMAIN if given is None else "." + given.removeprefix(".").lower()
    if _DOMAIN.fullmatch(found) is None:
        raise InvalidArgument(
            "cannot call sessions by that domain: it is not a word of small letters, digits and hyphens",
            hint="for example --domain build: then `ssh work.build` reaches session work",
        )
    return found


def session_of(host: str, domain: str = DOMAIN) -> str:
    """Return the session that a host name means.

    Raises:
        InvalidArgument: it does not name a session; it can be an option or a command.
    """
    name = host.removesuffix(domain)
    if name == host or re.fullmatch(ids.NAME, name) is None:
        shown = host.encode("unicode_escape").decode("ascii")[:80]
        raise InvalidArgument(
            f"cannot connect by ssh to '{shown}': it is not the name of a session",
            hint=f"for example work{domain}; `holdfast ls` lists sessions",
        )
    return name


def client_key(home: Home) -> str:
    """Return the public key of a home in OpenSSH's form; the first call makes it.

    Raises:
        SessionBusy, StoreError: it cannot be made.
    """
    folder = _folder(home)
    public = folder / "client_key.pub"
    with locks.exclusive(home.locks, "ssh", "make a key for ssh", locks.LOCK_SECONDS):
        if not (public.exists() and (folder / "client_key").exists()):
            key = Ed25519PrivateKey.generate()
            private_files.replace(folder / "client_key", _private_text(key))
            private_files.replace(public, f"{_public_text(key)} holdfast\n")
    return public.read_text().strip()


def checked_key(text: str) -> str:
    """Return a client's public key, without its comment.

    Raises:
        InvalidArgument: it is not one of the kind that `client_key` makes; it could be an option of sshd(8).
    """
    found = " ".join(text.split(" ")[:2])
    if _CLIENT_KEY.fullmatch(found) is None:
        raise InvalidArgument("cannot connect by ssh: the client's public key is not one of Ed25519")
    return found


def host_key(store: Store, session: str) -> tuple[str, str]:
    """Return the private and public key of a session in OpenSSH's form; the first call draws it.

    Raises:
        SessionNotFound: the session was removed.
    """
    kept: list[Ed25519PrivateKey] = []

    def changed(detail: Any) -> Any:
        seed = detail.get("key") if isinstance(detail, dict) else None
        if isinstance(seed, str) and _SEED.fullmatch(seed):
            kept.append(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(seed)))
            return detail
        kept.append(Ed25519PrivateKey.generate())
        return {"key": kept[0].private_bytes_raw().hex()}

    store.change_detail(session, DETAIL, changed)
    if not kept:
        raise SessionNotFound(f"cannot connect by ssh: session {session} was removed")
    return _private_text(kept[0]), _public_text(kept[0])


def make_known(home: Home, name: str, public: str, domain: str = DOMAIN) -> None:
    """Let the client know the key of the session with a name; it replaces an earlier one.

    ssh compares names in small letters, so the name stands behind the key as well.

    Raises:
        SessionBusy, StoreError: it cannot be written.
    """
    path = _folder(home) / "known_hosts"
    with locks.exclusive(home.locks, "ssh", "note a key for ssh", locks.LOCK_SECONDS):
        before = path.read_text() if path.exists() else ""
        after = known_hosts(before.splitlines(), name, public, domain)
        if after != before:
            private_files.replace(path, after, durable=False)


def known_hosts(lines: Iterable[str], name: str, public: str, domain: str = DOMAIN) -> str:
    """Return the content of known_hosts with a new key of a name. Pure."""
    kept = name if domain == DOMAIN else f"{name}{domain}"
    line = f"{name.lower()}{domain} {public} {kept}"
    others = [each for each in lines if each.split()[3:] != [kept]]
    return "\n".join([*others[1 - MOST_KNOWN :], line, ""])


def stanza(home: Path, proxy: Iterable[str], domain: str = DOMAIN) -> str:
    """Return the part of a configuration by which ssh reaches the sessions of a home. Pure.

    Args:
        home: its folder.
        proxy: the words of the command that connects, to which the name is added.
        domain: the end of the names of sessions.

    Raises:
        InvalidArgument: the path of the home cannot be written there.
    """
    if any(each in str(home) for each in '"\\%$\n'):
        raise InvalidArgument(
            "cannot write a configuration for ssh: the path of the home has a character that means something "
            "to ssh",
            hint="set HOLDFAST_HOME to a folder without quotes, backslashes, % and $",
        )
    # The name is a word of a shell's command: one with a quote, which older clients accept, is another host.
    command = shell_words.join(proxy).replace("%", "%%") + " -- '%n'"
    place = home / "ssh"
    return f"""\
Host *{domain} "!*'*"
    ProxyCommand {command}
    User {USER}
    IdentityFile "{place}/client_key"
    IdentitiesOnly yes
    IdentityAgent none
    PreferredAuthentications publickey
    UserKnownHostsFile "{place}/known_hosts"
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    HostKeyAlgorithms ssh-ed25519
    UpdateHostKeys no
    CheckHostIP no
    CanonicalizeHostname no
    ForwardAgent no
    ForwardX11 no
    ForwardX11Trusted no
    PermitLocalCommand no
"""


def _folder(home: Home) -> Path:
    folder = home.root / "ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _private_text(key: Ed25519PrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    ).decode()


def _public_text(key: Ed25519PrivateKey) -> str:
    return (
        key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
    )
