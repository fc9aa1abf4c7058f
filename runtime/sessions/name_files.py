"""The files in which programs of a session look up names: /etc/hosts and /etc/hostname.

An engine keeps them in a folder of its own, on a disk where a session can append without a limit. So they
are files of the home, next to the folder that the session shares with the host, on its small file system
(`shared_folder`): the session can write to them, fill that, and give them no other place. They are written
before anything in the container runs. Knows nothing of networks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from holdfast.errors import StoreError

HOSTS, HOSTNAME = "/etc/hosts", "/etc/hostname"
# As engines write it (libnetwork/etchosts); `localhost` is an IPv6 address too, where there is IPv6.
_LOCAL = """\
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
ff00::0\tip6-mcastprefix
ff02::1\tip6-allnodes
ff02::2\tip6-allrouters
"""


def make(shared: Path, hostname: str) -> dict[str, Path]:
    """Write the files for a container that will have this shared folder; return them by their places in it.

    Raises:
        StoreError: they cannot be written.
    """
    files = {HOSTS: (shared.with_name("hosts"), _LOCAL), HOSTNAME: (shared.with_name("hostname"), hostname)}
    for path, text in files.values():
        path.unlink(missing_ok=True)
        _write(path, text.rstrip("\n") + "\n", os.O_CREAT | os.O_EXCL)
    return {place: path for place, (path, _) in files.items()}


def rename(shared: Path, former: str, hostname: str) -> None:
    """Rename a running container in these files.

    They are rewritten in place, because the files themselves are mounted. Other lines stay as they are.

    Raises:
        StoreError: they cannot be read or written.
    """
    hosts, own = shared.with_name("hosts"), shared.with_name("hostname")
    try:
        lines = hosts.read_bytes().decode("utf-8", "surrogateescape").splitlines(keepends=True)
        known = own.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {hosts.parent}: {error.strerror or error}") from error
    end = f"\t{former}\n"
    renamed = [line.removesuffix(end) + f"\t{hostname}\n" for line in lines if line.endswith(end)]
    kept = [line for line in lines if not line.endswith(end)]
    _write(hosts, "".join([*kept, *(line for line in renamed if line not in kept)]), os.O_TRUNC)
    if known == f"{former}\n".encode():
        _write(own, f"{hostname}\n", os.O_TRUNC)


def add(path: Path, hostname: str, addresses: Iterable[str]) -> None:
    """Write addresses of the container, which it has since it was started, into its /etc/hosts.

    Raises:
        StoreError: they cannot be written.
    """
    _write(path, "".join(f"{address}\t{hostname}\n" for address in addresses), os.O_APPEND)


def _write(path: Path, text: str, how: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            os.fchmod(descriptor, 0o644)  # programs of any user in the session read it
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}") from error
