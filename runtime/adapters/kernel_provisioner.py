"""A session's kernel for programs of jupyter_client: `jupyter console`, papermill, nbclient, notebooks.

jupyter_client finds it by the entry point of this package, when a kernel's spec names it. It starts nothing:
it attaches to the kernel that runs in the session, with the agent's variables. To shut a kernel down detaches
from it; only a requested restart replaces its process.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx
from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from traitlets import Bool, Unicode

from holdfast.base.text import plain
from holdfast.errors import InvalidArgument, ServerUnavailable
from holdfast.runtime.adapters.kernel_bridge import HERE, PORTS, KernelBridge
from holdfast.runtime.client import client_address
from holdfast.runtime.client.blocking import remote_connection
from holdfast.runtime.guest import defaults

SESSION = "HOLDFAST_SESSION"
"""The variable that names the session, where the spec does not."""
SECONDS = 60.0
"""For an answer of the server: the session may have to wake up."""


class SessionProvisioner(KernelProvisionerBase):
    """Attaches a kernel manager to a kernel of a session, through a server: `holdfast serve`."""

    session = Unicode("", config=True, help="the session; by default that of HOLDFAST_SESSION")
    kernel = Unicode(defaults.MAIN, config=True, help="the kernel of the session")
    url = Unicode("", config=True, help="the server; by default HOLDFAST_URL, or a running one of this home")

    fresh = Bool(False, config=True, help="begin with a new process, without the agent's variables")

    _bridge: KernelBridge | None = None
    _restart = False
    _begun = False
    _interrupt: Callable[[], object]

    @property
    def _manager(self) -> Any:
        """The kernel manager that has asked for it."""
        return self.parent

    @property
    def has_process(self) -> bool:
        """Whether it is attached."""
        return self._bridge is not None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Take the arguments of a start; there is no command to run."""
        return await super().pre_launch(cmd=[], **{name: kwargs[name] for name in kwargs if name != "cmd"})

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Attach to the kernel, and return the ports of this machine that are it now.

        Raises:
            InvalidArgument: no session is named.
            ServerUnavailable: the server, the session or the kernel cannot be reached.
        """
        name = self.session or os.environ.get(SESSION, "")
        if not name:
            raise InvalidArgument(
                "cannot join a kernel: no session is named",
                hint=f"name it in the kernel's spec, or as {SESSION}",
            )
        address = client_address.address_of(self.url) if self.url else client_address.served("join a kernel")
        place = f"/jupyter/{quote(name, safe='')}/api/kernels"
        spec = f"holdfast-{name}" + ("" if self.kernel == defaults.MAIN else f".{self.kernel}")
        start = partial(_asked, address, place, {"name": spec})
        id_ = str((await asyncio.to_thread(start)).get("id"))
        if self._restart or (self.fresh and not self._begun):
            await asyncio.to_thread(_asked, address, f"{place}/{id_}/restart", {})
        self._restart, self._begun = False, True
        before: dict[str, Any] = dict(self.connection_info)
        known = {name: int(before[name]) for name in PORTS if name in before}
        signer = self._manager.session
        bridge = KernelBridge(
            address, f"{place}/{id_}/channels", secrets.token_hex(16), signer, known, wake=start
        )
        ports = await asyncio.to_thread(bridge.start)
        self._bridge, self._interrupt = bridge, partial(_asked, address, f"{place}/{id_}/interrupt", {})
        made: Any = {"transport": "tcp", "ip": HERE, "key": signer.key, **ports}
        self.connection_info = made | {"signature_scheme": signer.signature_scheme}
        return self.connection_info

    async def poll(self) -> int | None:
        """Return None while it is attached, else 1."""
        return None if self._bridge is not None and self._bridge.alive else 1

    async def wait(self) -> int | None:
        """Detach, as to wait for the end of the kernel would last as long as the session."""
        await self._detach()
        return 0

    async def send_signal(self, signum: int) -> None:
        """Interrupt the kernel's cell for SIGINT, but not in order to detach: it may be the agent's."""
        if signum == signal.SIGINT and self._bridge is not None and not self._manager.shutting_down:
            await asyncio.to_thread(self._interrupt)

    async def kill(self, restart: bool = False) -> None:
        """Detach from the kernel."""
        await self._detach()

    async def terminate(self, restart: bool = False) -> None:
        """Detach from the kernel."""
        await self._detach()

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Detach from the kernel, without waiting for an end that does not come."""
        await self._detach()

    async def cleanup(self, restart: bool = False) -> None:
        """Detach; note that a restart was asked for, unless the kernel was only lost from sight."""
        bridge = self._bridge
        self._restart = restart and bridge is not None and not bridge.lost
        await self._detach()
        self._bridge = None

    async def _detach(self) -> None:
        if self._bridge is not None:
            await asyncio.to_thread(self._bridge.close)


def _asked(address: client_address.ClientAddress, path: str, body: dict[str, str]) -> dict[str, Any]:
    """Send a request to the gateway.

    Raises:
        ServerUnavailable: there is no answer, or it reports an error.
    """
    try:
        with httpx.Client(
            base_url=address.url, transport=remote_connection.carrier(address), timeout=SECONDS
        ) as client:
            answer = client.post(path, json=body, headers=address.headers)
    except httpx.TransportError as error:
        raise ServerUnavailable(
            f"cannot join the kernel: the server at {address.url} does not answer"
        ) from error
    try:
        found = answer.json() if answer.content else {}
    except ValueError:
        found = {}
    if answer.is_error:
        why = plain(str(found.get("message", answer.status_code)), 500)
        raise ServerUnavailable(f"cannot join the kernel: {why}")
    return dict(found)
