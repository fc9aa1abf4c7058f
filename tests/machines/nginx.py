"""A real nginx with the configuration that docs/recipes ships, in front of servers on ports of 127.0.0.1."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.machines.unpacked import REPOSITORY, program

SHIPPED = REPOSITORY / "docs/recipes/nginx-cluster.conf"
SHIPPED_NODES = ("10.0.0.5:8420", "10.0.0.6:8420", "10.0.0.7:8420")
PATIENCE = 30.0


class Nginx:
    """nginx in front of nodes. The shipped file is changed only in its places: addresses, names, folders
    and certificates.
    """

    def __init__(
        self,
        folder: Path,
        port: int,
        nodes: Sequence[str],
        token: str,
        changed: Callable[[str], str] = lambda text: text,
    ) -> None:
        """Start it. `changed` returns the file with further changes, to compare it with another one."""
        folder.mkdir(mode=0o755)
        self.folder, self.port = folder, port
        (folder / "token.conf").write_text(f'set $holdfast_token "{token}";\n')
        text = changed(SHIPPED.read_text())
        assert 0 < len(nodes) <= len(SHIPPED_NODES)
        for shipped, own in zip(SHIPPED_NODES, nodes, strict=False):
            assert shipped in text, shipped
            text = text.replace(shipped, own)
        text = re.sub(r"(?m)^.*\b10\.0\.0\..*\n", "", text)
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
            [nginx_program(), "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"],
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
    def processor_seconds(self) -> float:
        """The processor time of its processes so far."""
        ticks = 0
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in (self._process.pid, *map(int, children)):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

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


def nginx_program() -> Path:
    """Return an installed nginx, or Debian's, unpacked."""
    installed = Path("/usr/sbin/nginx")
    return installed if installed.exists() else program("usr/sbin/nginx", "nginx")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
