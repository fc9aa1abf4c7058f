"""A real nginx with the configuration that docs/recipes ships, in front of servers on ports of 127.0.0.1."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.machines.unpacked import REPOSITORY, program

SHIPPED = REPOSITORY / "docs/recipes/nginx-cluster.conf"
PATIENCE = 30.0


class Nginx:
    """nginx in front of nodes. The shipped file is changed only in its places: addresses, names, folders
    and certificates.
    """

    def __init__(self, folder: Path, port: int, nodes: Sequence[str], token: str) -> None:
        folder.mkdir(mode=0o755)
        self.folder, self.port = folder, port
        (folder / "token.conf").write_text(f'set $holdfast_token "{token}";\n')
        text = SHIPPED.read_text()
        servers = "".join(f"    server {node} max_fails=1 fail_timeout=5s;\n" for node in nodes)
        text, found = re.subn(r"(?m)(^    server 10\..*\n)+", servers, text)
        assert found == 1
        for shipped, own in (
            ("listen 443 ssl http2;", f"listen 127.0.0.1:{self.port};"),
            ("    ssl_certificate     /etc/nginx/holdfast.crt;\n", ""),
            ("    ssl_certificate_key /etc/nginx/holdfast.key;\n", ""),
            ("/etc/nginx/token.conf", str(folder / "token.conf")),
            ("/var/cache/nginx/holdfast-routes", str(folder / "routes")),
            ("*.previews.example.org", "*.previews.localhost"),
            ("holdfast.example.org", "127.0.0.1"),
        ):
            assert shipped in text, shipped
            text = text.replace(shipped, own)
        temporary = "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (folder / "nginx.conf").write_text(
            f"daemon off;\nuser root;\nworker_processes 1;\npid {folder}/pid;\n"
            f"error_log {folder}/error.log notice;\nevents {{ worker_connections 512; }}\n"
            f"http {{\naccess_log off;\n{temporary}{text}}}\n"
        )
        self._process = subprocess.Popen(
            [_nginx(), "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + PATIENCE
        while not _listens(self.port):
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.05)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def said(self) -> str:
        """Return its log."""
        return (self.folder / "error.log").read_text()[-3000:]

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _nginx() -> Path:
    installed = Path("/usr/sbin/nginx")
    return installed if installed.exists() else program("usr/sbin/nginx", "nginx")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
