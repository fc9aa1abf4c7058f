# Made by setup/blocking from ../aio/async_ports.py; do not edit.
"""The ports of a session over a URL, and links for people to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.runtime.api.session_ports import SessionPorts
from holdfast.runtime.client import bound_methods
from holdfast.runtime.client.blocking.remote_handle import RemoteSessionPart, requesting
from holdfast.runtime.client.bound_methods import Route, asking, each, nothing

if TYPE_CHECKING:
    from holdfast.runtime.pulse.listening_ports import Preview


class RemotePorts(RemoteSessionPart):
    """The ports of one session, as `SessionPorts` has them: a part of its class."""

    def _linked(self, _verb: str, told: dict[str, Any]) -> Preview:
        from holdfast.runtime.client import insight_values

        port = str(told.pop("port"))
        if "seconds" in told:
            told["seconds"] = int(told["seconds"])
        return insight_values.preview(self._ask("POST", "ports", port, "preview", body=told))

    ports = requesting(SessionPorts.ports, Route("GET", "ports"), each(bound_methods.late("listening_port")))
    preview = asking(SessionPorts.preview, _linked)
    revoke_preview = requesting(SessionPorts.revoke_preview, Route("DELETE", "ports/{port}/preview"), nothing)
