"""Hosts with names that only a home's gateway knows: servers of the tests on this machine's own address."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.machines.certificates import Authority
from tests.machines.upstream import Upstream

from holdfast.engine import networks
from holdfast.runtime.api.controller import Holdfast


class Loopback:
    """A listener that only this machine reaches, and that remembers whether a client came."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.came = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                self._socket.accept()[0].close()
                self.came += 1

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


@dataclass
class Hosts:
    """`api.test` and `other.test` over TLS, `plain.test` without; no client trusts `forged.test`."""

    address: str
    api: Upstream
    other: Upstream
    plain: Upstream
    forged: Upstream
    loopback: Loopback = field(default_factory=Loopback)

    @property
    def servers(self) -> tuple[Upstream, ...]:
        return (self.api, self.other, self.plain, self.forged)

    def asked(self) -> list[str]:
        """Return all requests to any of them since the last time."""
        found = [text for one in self.servers for text in one.asked]
        for one in self.servers:
            one.asked.clear()
        return found


@contextmanager
def hosts(hf: Holdfast, folder: Path) -> Iterator[Hosts]:
    """Start them, and give the home their names and authority."""
    network = hf.engine.client.api.inspect_network(networks.ensure(hf.engine))
    address = str(network["IPAM"]["Config"][0]["Gateway"])
    (folder / "elsewhere").mkdir()
    ours, elsewhere = Authority(folder), Authority(folder / "elsewhere")
    made = Hosts(
        address,
        Upstream(address, ours.issue_name("api.test")),
        Upstream(address, ours.issue_name("other.test")),
        Upstream(address),
        Upstream(address, elsewhere.issue_name("forged.test")),
    )
    told = {
        "allow": [f"{address}:{one.port}" for one in made.servers],
        "ca": str(ours.certificate),
        "hosts": dict.fromkeys(("api.test", "other.test", "plain.test", "forged.test"), address)
        | {"rebound.test": "127.0.0.1", "cloud.test": "169.254.169.254"},
    }
    (hf.home.root / "network.json").write_text(json.dumps(told))
    try:
        yield made
    finally:
        for one in made.servers:
            one.close()
        made.loopback.close()
