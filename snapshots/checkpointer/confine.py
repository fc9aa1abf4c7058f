"""The operation `confine`: the network of a container is closed before anything in it runs.

Only the network namespace is entered, by a child that keeps no capability but that to set the rules; nothing
of the container is opened or executed. The rules are read back, and only then the first process is let go,
which has waited for it (images/session/init.c).
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer import namespaces, netrules, rights, tree
from holdfast.snapshots.checkpointer.channel import Channel
from holdfast.snapshots.checkpointer.netrules import Rules
from holdfast.snapshots.checkpointer.requests import Confine

LIMIT = 20
"""Seconds for the rules to be set and read, and for the first process to begin to wait. Each takes 20 ms."""
_POLL_SECONDS = 0.001


class NotConfined(Exception):
    """The rules are not in force; the first process was not let go."""


def prepare() -> None:
    """Load the library that is to set rules, so that the processes that do need not."""
    import nftables

    nftables.Nftables()


def run(request: Confine, channel: Channel) -> None:
    """Set the rules if `load`, see that they are in force, let the first process go if `release`.

    Raises NotConfined, TargetMismatch, OSError.
    """
    began = time.monotonic()
    process = os.pidfd_open(request.init_pid)
    tree.check_container(request.init_pid, request.container)
    network = os.open(f"/proc/{request.init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _check_own(network)
    # The process is still there: what was looked at and opened by its number is its own.
    signal.pidfd_send_signal(process, 0)
    found = _in_namespace(network, request.rules if request.load else None)
    why = netrules.wrong(found, request.rules)
    if why is not None:
        raise NotConfined(f"the rules for its network are not in force: {why}")
    if request.release:
        _await_waiting(request.init_pid)
        signal.pidfd_send_signal(process, signal.SIGUSR1)
    channel.send("done", seconds=time.monotonic() - began)


def _check_own(network: int) -> None:
    """Raise TargetMismatch if the namespace is the host's, or that of the checkpointer."""
    found = os.fstat(network)
    for other in ("self", "2"):  # 2 is a thread of the kernel
        try:
            known = Path(f"/proc/{other}/ns/net").stat()
        except OSError:
            continue
        if os.path.samestat(found, known):
            raise tree.TargetMismatch("the container has no network namespace of its own")


def _in_namespace(network: int, rules: Rules | None) -> dict[str, Any]:
    """Set rules, if there are any, and return what is listed then."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receive)
            signal.alarm(LIMIT)
            namespaces.enter_network(network)
            rights.keep_only(rights.NET_ADMIN)
            said = json.dumps(_nft(rules))
        except Exception as error:  # noqa: BLE001 - the last line of a process of its own
            said = json.dumps({"error": str(error)})
        with os.fdopen(send, "w") as pipe:
            pipe.write(said)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(answer or '{"error": "the kernel does not answer"}')
    if "error" in found:
        raise NotConfined(f"the rules for its network cannot be set: {found['error']}")
    return found


def _nft(rules: Rules | None) -> dict[str, Any]:
    import nftables

    nft = nftables.Nftables()
    if rules is not None:
        _command(nft, netrules.text(rules))
    nft.set_json_output(True)
    listed: dict[str, Any] = json.loads(_command(nft, f"list table inet {netrules.TABLE}"))
    return listed


def _command(nft: Any, text: str) -> str:
    code, output, errors = nft.cmd(text)
    if code != 0:
        raise NotConfined(str(errors).strip().splitlines()[0] if errors else f"nft says {code}")
    return str(output)


def _await_waiting(init_pid: int) -> None:
    """Wait until the first process waits for its signal: one sent before is lost (pid_namespaces(7))."""
    deadline = time.monotonic() + LIMIT
    while not tree.waits_unconfined(init_pid):
        if time.monotonic() > deadline:
            raise NotConfined("its first process does not wait for it: it is not ours")
        time.sleep(_POLL_SECONDS)
