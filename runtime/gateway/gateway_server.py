"""The gateway's process: mitmproxy as a library, with our addon and without any interface of its own.

Arguments: the address and port to listen on. Mounted: policies, the authority, a folder for records of
refusals.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

from mitmproxy import options
from mitmproxy.addons import core, disable_h2c, errorcheck, proxyserver, tlsconfig
from mitmproxy.master import Master

from holdfast.runtime.gateway import protocol_layers
from holdfast.runtime.gateway.addon import BUFFERED, Gateway, pinned
from holdfast.runtime.gateway.policies import Policies
from holdfast.runtime.gateway.refusal_log import Refusals

FOLDER = Path("/holdfast")
"""The mount point of sessions/, refused/, authority/."""
SCRATCH = Path("/tmp")  # noqa: S108 - in memory, of this container alone
ROOTS = Path("/etc/ssl/certs/ca-certificates.crt")
LOOK_SECONDS = 60


class Loop(asyncio.SelectorEventLoop):
    """Connects only to addresses that were judged for the connection being made."""

    async def getaddrinfo(self, host: Any, port: Any, **asked: Any) -> list[Any]:
        """Return the judged addresses.

        Raises:
            OSError: none was judged.
        """
        kept = pinned.get()
        if kept is None or kept[0] != host:
            raise socket.gaierror(socket.EAI_NONAME, "not a name that was judged")
        return [
            (
                socket.AF_INET6 if one.version == 6 else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (str(one), port),
            )
            for one in kept[1]
        ]


async def serve(address: str, port: int) -> None:
    """Serve until the folder of policies is gone, with the home it belongs to."""
    authority = SCRATCH / "authority"
    authority.mkdir(mode=0o700, exist_ok=True)
    shutil.copy(FOLDER / "authority" / "mitmproxy-ca.pem", authority)
    roots = SCRATCH / "roots.pem"
    extra = FOLDER / "authority" / "extra.pem"
    roots.write_bytes(ROOTS.read_bytes() + (extra.read_bytes() if extra.exists() else b""))
    chosen = options.Options(
        listen_host=address, listen_port=port, mode=["regular"], confdir=str(authority), http2=False
    )
    master = Master(chosen, asyncio.get_running_loop())
    gateway = Gateway(Policies(FOLDER / "sessions"), Refusals(FOLDER / "refused"))
    master.addons.add(
        core.Core(),
        gateway,
        protocol_layers.ProtocolLayers(gateway),
        disable_h2c.DisableH2C(),
        proxyserver.Proxyserver(),
        tlsconfig.TlsConfig(),
        errorcheck.ErrorCheck(),
    )
    chosen.update(
        ssl_verify_upstream_trusted_ca=str(roots),
        stream_large_bodies=str(BUFFERED),
        upstream_cert=False,
        validate_inbound_headers=True,
        connection_strategy="eager",
    )
    watch = asyncio.create_task(_until_gone(master))
    await master.run()
    watch.cancel()


async def _until_gone(master: Master) -> None:
    while (FOLDER / "sessions").stat().st_nlink > 0:
        await asyncio.sleep(LOOK_SECONDS)
    master.shutdown()


def main() -> None:
    """Serve; exit with 1 if it cannot listen, and the engine restarts it."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    logging.getLogger("mitmproxy").setLevel(logging.WARNING)
    protocol_layers.narrow()
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2])))
    sys.exit(0)
