"""The gateway's container: found, or started when the first session needs it; removed after the last
session.

Each home has one. It is on the host's network, listens only at the host's address in the sessions' bridge,
has no capability, and sees only these mounts of the home: policies, the authority, and a folder where it
records refusals. Its port stays the same, because the rules of sessions redirect to it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import locks
from holdfast.base.home import Home
from holdfast.engine import container_mounts
from holdfast.errors import EngineError, NetworkNotClosed, StoreError
from holdfast.runtime.egress import home_network, vault
from holdfast.runtime.egress.vault import owner, write_private

if TYPE_CHECKING:
    from holdfast.engine.engine import Engine


ROLE = "gateway"
START_SECONDS = 30.0
"""Limit for its start, from when its process last did any work: on a busy machine it gets little time."""
MEMORY = 1 << 30
"""For its first process, ten MiB for each session that uses it at a time (at most 64), and their traffic."""
PIDS = 512
_POLL_SECONDS = 0.05
_PATIENCE = 600.0
"""Seconds to wait, since its image is possibly being built."""
_PORTS = range(20000, 30000)
"""Below the kernel's ephemeral ports (ip_local_port_range): the port is still free after a restart."""
_SYSTEM = "/etc/ssl/certs/ca-certificates.crt"
_YEARS = 10


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """The address it listens at."""

    address: str
    port: int


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Hold the lock for starting or stopping the gateway, and for deciding whether it is needed.

    Raises:
        SessionBusy: another process holds it.
    """
    with locks.exclusive(home.locks, ROLE, "use the gateway", _PATIENCE):
        yield


def ensure(engine: Engine, home: Home, progress: Callable[[str], None], address: str) -> GatewayAddress:
    """Ensure that it runs, in its current version, and answers at the host's address in the bridge.

    The caller holds `alone`.

    Raises:
        NetworkNotClosed: it does not start.
        ImageError, EngineError, StoreError: its image, the engine or the home failed.
    """
    from holdfast.images import build

    image = build.ensure(engine.images, "gateway", progress)
    folders = _prepare(home)
    state = engine.inspect(_name(home))
    place = known(home)
    labels = {
        "holdfast.home": home.digest,
        "holdfast.role": ROLE,
        "holdfast.gateway": _version(image, address, folders),
    }
    if (
        state is not None
        and state.running
        and place is not None
        and dict(state.labels).items() >= labels.items()
    ):
        if _starting(home).exists() or not _answers(place):
            _await(engine, home, place)
        return place
    if state is not None:
        engine.kill_remove(state.id)
    place = GatewayAddress(address, _port(home, address, place))
    write_private(home.gateway / "address.json", json.dumps([place.address, place.port]))
    write_private(_starting(home), "")
    _run(engine, home, image, place, labels, folders)
    _await(engine, home, place)
    return place


def known(home: Home) -> GatewayAddress | None:
    """Return where it listens, if it was ever started."""
    try:
        address, port = json.loads((home.gateway / "address.json").read_text())
        return GatewayAddress(str(address), int(port))
    except (OSError, ValueError, TypeError):
        return None


def stop(engine: Engine, home: Home) -> None:
    """Stop it. The caller holds `alone`.

    A gateway without an answer so far is left for a while: the last session failed waiting for its start,
    and the next one will need it.
    """
    with suppress(OSError):
        if time.time() - _starting(home).stat().st_mtime < _PATIENCE:
            return
    for container in engine.containers(holdfast_home=home.digest, holdfast_role=ROLE):
        engine.kill_remove(container)


def _name(home: Home) -> str:
    return f"holdfast-gateway-{home.digest}"


def _prepare(home: Home) -> dict[str, Path]:
    """Return the folders it sees, by their names in there; whether they are writable is decided elsewhere."""
    root = home.gateway
    root.mkdir(mode=0o700, exist_ok=True)
    folders = {"authority": ensure_authority(home)}
    try:
        for name in ("sessions", "refused"):
            folders[name] = root / name
            folders[name].mkdir(mode=0o700, exist_ok=True)
        extra = folders["authority"] / "extra.pem"
        wanted = home_network.roots(home)
        if wanted is None:
            extra.unlink(missing_ok=True)
        elif not extra.exists() or extra.read_text() != wanted:
            write_private(extra, wanted, vault.owner())
        if os.geteuid() == 0:
            for folder in folders.values():
                os.chown(folder, vault.user(), -1)
    except OSError as error:
        raise StoreError(f"cannot prepare {root}: {error.strerror or error}") from error
    return folders


def _version(image: str, address: str, folders: dict[str, Path]) -> str:
    """Return a version that changes with everything that needs a new gateway process."""
    parts = [image, address, str(vault.user())]
    for name, folder in sorted(folders.items()):
        found = folder.stat()
        parts.append(f"{name} {found.st_dev} {found.st_ino}")
    for file in ("mitmproxy-ca.pem", "extra.pem"):
        with suppress(FileNotFoundError):
            parts.append(sha256((folders["authority"] / file).read_bytes()).hexdigest())
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


def _port(home: Home, address: str, before: GatewayAddress | None) -> int:
    """Return its previous port, else a free one; the search starts at a different port for each home."""
    if before is not None and before.address == address and _free(address, before.port):
        return before.port
    first = int(home.digest, 16)
    for step in range(200):
        port = _PORTS[(first + step * 37) % len(_PORTS)]
        if _free(address, port):
            return port
    raise NetworkNotClosed("cannot start the gateway: no port is free for it", hint=f"on {address}")


def _free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def _run(
    engine: Engine,
    home: Home,
    image: str,
    place: GatewayAddress,
    labels: dict[str, str],
    folders: dict[str, Path],
) -> None:
    options: dict[str, Any] = {
        "name": _name(home),
        "labels": labels,
        "command": ["/opt/python/bin/python", "-I", "/opt/holdfast", place.address, str(place.port)],
        "user": f"{vault.user()}:{vault.user()}",
        "network_mode": "host",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "read_only": True,
        "tmpfs": {"/tmp": f"size=16m,mode=0700,uid={vault.user()}"},  # noqa: S108 - inside the container
        "mem_limit": MEMORY,
        "memswap_limit": MEMORY,
        "pids_limit": PIDS,
        "restart_policy": {"Name": "unless-stopped"},
        "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
        "mounts": [
            container_mounts.bind(folder, f"/holdfast/{name}", read_only=name != "refused")
            for name, folder in folders.items()
        ],
    }
    if not engine.run_service(image, "start the gateway", **options):
        raise EngineError(f"cannot start the gateway: the name {_name(home)} is taken")


def _await(engine: Engine, home: Home, place: GatewayAddress) -> None:
    """Wait until it works, as long as its process is alive and makes progress.

    Raises:
        NetworkNotClosed: it ended; or does not get on, and is left as it is for the next attempt.
    """
    where, logs = f"{place.address}:{place.port}", f"`docker logs {_name(home)}` says why"
    state = engine.inspect(_name(home))
    first, worked = state.pid if state is not None else 0, -1
    began = last = time.monotonic()
    while not refuses_strangers(place):
        state = engine.inspect(_name(home))
        if state is None or not state.running or state.pid != first:
            _starting(home).unlink(missing_ok=True)
            raise NetworkNotClosed("cannot start the gateway: its process ended", hint=logs)
        now, before = time.monotonic(), worked
        worked = _work(state.pid)
        if worked != before:
            last = now
        if now - last >= START_SECONDS or now - began >= _PATIENCE:
            raise NetworkNotClosed(
                f"cannot start the gateway: it does not answer at {where}",
                hint=(
                    f"it still runs: try again if the machine was busy; otherwise see {logs}, or "
                    "check whether a firewall of the host blocks it"
                ),
            )
        time.sleep(_POLL_SECONDS)
    _starting(home).unlink(missing_ok=True)


def _work(pid: int) -> int:
    """Return the processor time of a process, in ticks; 0 if it is not visible."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])  # utime and stime, proc(5)


def _starting(home: Home) -> Path:
    """Return the file that exists from its start until it has answered."""
    return home.gateway / "starting"


def _answers(place: GatewayAddress) -> bool:
    try:
        socket.create_connection((place.address, place.port), timeout=2).close()
    except OSError:
        return False
    return True


def refuses_strangers(place: GatewayAddress) -> bool:
    """Return whether the gateway works: it must refuse the host, which is not a session."""
    try:
        with socket.create_connection((place.address, place.port), timeout=5) as connection:
            connection.sendall(b"GET http://holdfast.invalid/ HTTP/1.1\r\nHost: holdfast.invalid\r\n\r\n")
            return connection.recv(100).startswith(b"HTTP/1.1 403 ")
    except OSError:
        return False


def ensure_authority(home: Home) -> Path:
    """Return the folder with the authority, made if it is missing; the gateway reads its key.

    Raises:
        StoreError: it cannot be made.
    """
    folder = home.gateway / "authority"
    if not (folder / "mitmproxy-ca.pem").exists():
        key, certificate = _made(home)
        write_private(folder / "certificate.pem", certificate, owner())
        write_private(folder / "mitmproxy-ca.pem", key + certificate, owner())
    return folder


def trust_folder(home: Home, session_id: str) -> Path:
    """Return the folder that a session mounts; it must exist before its container is made.

    Raises:
        StoreError: it cannot be made.
    """
    made = home.gateway / "trust" / session_id
    try:
        for above in (made.parent.parent, made.parent):
            above.mkdir(mode=0o700, exist_ok=True)
        made.mkdir(mode=0o755, exist_ok=True)  # programs of any user in the session read it
    except OSError as error:
        raise StoreError(f"cannot make {made}: {error.strerror or error}") from error
    return made


def install_roots(engine: Engine, home: Home, session_id: str, container_id: str) -> None:
    """Write the roots that a session trusts: its image's, and the authority.

    Raises:
        StoreError, EngineError: the roots cannot be read or written.
    """
    ours = (ensure_authority(home) / "certificate.pem").read_text()
    theirs = engine.files.read(container_id, _SYSTEM).decode("ascii", "replace")
    path = trust_folder(home, session_id) / "roots.pem"
    write_private(path, theirs + ("" if theirs.endswith("\n") else "\n") + ours)
    path.chmod(0o644)  # programs of any user in the session read it


def _made(home: Home) -> tuple[str, str]:
    """Return a new key and certificate, as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Holdfast gateway {home.digest}")])
    public = key.public_key()
    now = datetime.now(UTC)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + timedelta(days=365 * _YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    return private.decode(), certificate.public_bytes(serialization.Encoding.PEM).decode()
