"""The network of the steps of a build: that of a container of ours, with the rules of a session.

The engine gives a step the network of a container that is there already. This one runs nothing but a first
process that waits; its network is closed before the first step, as that of a session is, and at its links
too, since steps can send raw packets. Of the engine's two builders only the older one can do that. What a
build is made of is not known here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base.interrupts import held
from holdfast.engine import networks
from holdfast.errors import EngineError, InvalidArgument
from holdfast.images import build as images
from holdfast.runtime.egress import host_network
from holdfast.runtime.egress.close_network import Closing
from holdfast.runtime.lifecycle import provision
from holdfast.runtime.lifecycle.take_back import take_back
from holdfast.runtime.operations.operation import carry_out, undoes
from holdfast.runtime.sessions import image_settings, init_program
from holdfast.runtime.sessions.session_options import SessionOptions
from holdfast.runtime.store.rows import OperationKind

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

KINDS = ("internet", "none", "engine")
"""As a session has it by default; nothing; the engine's own network, without rules."""
ROLE = "build"
_MEMORY = 128 << 20
_RESOLVER = "import pathlib, sys; pathlib.Path('/etc/resolv.conf').write_text(sys.argv[1])"

undoes(OperationKind.BUILD)(take_back)


def check(kind: str, allow: Sequence[str]) -> None:
    """Raise InvalidArgument unless a network can be had, with these destinations opened."""
    if kind not in KINDS:
        raise InvalidArgument(
            f"cannot build in the network '{kind[:40]}': it is {', '.join(KINDS[:-1])} or {KINDS[-1]}"
        )
    SessionOptions.parse(allow=tuple(allow))


@contextmanager
def opened(context: Context, allow: Sequence[str]) -> Iterator[str]:
    """Yield the network for steps as the engine calls it; it is there until this is left.

    Args:
        context: the context of the call.
        allow: destinations that are open although they are private, as for a session.

    Raises:
        NetworkNotClosed: it cannot be had here.
        EngineError, ImageError, StoreError: the engine refuses.
    """
    what = "build an image"
    options = SessionOptions.parse(network="internet", allow=tuple(allow))
    network = Closing(context.engine, context.home, context.progress)
    network.check_names(options)
    provision.require_fit(context.engine)
    with carry_out(context, OperationKind.BUILD) as operation:
        init = init_program.obtain(context.engine, context.home, context.progress)
        with network.ahead(options):
            toolbox = images.ensure(context.engine.images, "toolbox", context.progress)
            asked = _options(context, toolbox, init, operation.id)
            with held():
                container = context.engine.create_session_container(**asked)
            context.engine.start(container)
        try:
            network.hold(options, container, what)
            _name_servers(context, container, what)
            yield f"container:{container}"
        finally:
            with held():
                context.engine.kill_remove(container)


def _options(context: Context, image: str, init: Path, operation_id: str) -> dict[str, Any]:
    first = init_program.place()
    mount = {"Type": "bind", "Source": str(init), "Target": first, "ReadOnly": True}
    return {
        "image": image,
        "name": f"holdfast-build-{operation_id}",
        "hostname": "build",
        "entrypoint": [first],
        "command": ["start"],
        "labels": {
            "holdfast.home": context.home.digest,
            "holdfast.role": ROLE,
            "holdfast.operation": operation_id,
        },
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": 16,
        "mem_limit": _MEMORY,
        "memswap_limit": _MEMORY,
        "mounts": [mount],
        "network": networks.ensure(context.engine),
        "healthcheck": image_settings.NO_HEALTH_CHECK,
        "log_config": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
    }


def _name_servers(context: Context, container: str, what: str) -> None:
    """Have steps ask the host's resolvers: the engine's knows the names of other containers."""
    command = ["/usr/bin/python3", "-I", "-c", _RESOLVER, host_network.resolver_file()]
    code, said = context.engine.run_inside(container, command, {}, what)
    if code != 0:
        raise EngineError(
            f"cannot {what}: its name servers cannot be set: {said[-200:].decode(errors='replace')}"
        )
