"""A TLS front for a server with a domain: TLS for all names below it, and their resolution.

The same port takes plain HTTP, for clients that are given an address instead of a domain.
"""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DOMAIN = "sandboxes.test"
TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS connection (RFC 8446, 5.1)."""
_RESOLVER = """
import socket
_known = socket.getaddrinfo

def getaddrinfo(host, *rest, **more):
    name = host.decode() if isinstance(host, bytes) else host
    return _known("127.0.0.1" if name and name.endswith(".DOMAIN") else host, *rest, **more)

socket.getaddrinfo = getaddrinfo
"""


@contextmanager
def tls_front(port: int, folder: Path, domain: str = DOMAIN) -> Iterator[dict[str, str]]:
    """Pass connections on to a port of loopback; yield the environment of a client that uses this."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    openssl = shutil.which("openssl")
    assert openssl
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    words += ["-days", "2", "-subj", "/CN=front"]
    names = f"subjectAltName=DNS:*.{domain},DNS:{domain}"
    files = ["-addext", names, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([openssl, *words, *files], check=True, capture_output=True)
    (folder / "sitecustomize.py").write_text(_RESOLVER.replace("DOMAIN", domain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as opened:
        threading.Thread(target=_accept, args=(opened, context, port), daemon=True).start()
        try:
            yield {
                "E2B_DOMAIN": f"{domain}:{opened.getsockname()[1]}",
                "SSL_CERT_FILE": str(certificate),
                "PYTHONPATH": str(folder),
            }
        finally:
            opened.shutdown(socket.SHUT_RDWR)


def _accept(opened: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with suppress(OSError):
        while True:
            accepted, _ = opened.accept()
            threading.Thread(target=_pass_on, args=(accepted, context, port), daemon=True).start()


def _pass_on(accepted: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with accepted, suppress(OSError):
        first = accepted.recv(1, socket.MSG_PEEK)
        client = context.wrap_socket(accepted, server_side=True) if first == TLS_HANDSHAKE else accepted
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            other = threading.Thread(target=_copy, args=(server, client), daemon=True)
            other.start()
            _copy(client, server)
            other.join()


def _copy(source: socket.socket, to: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := source.recv(1 << 16):
            to.sendall(data)
    for each in (source, to):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
