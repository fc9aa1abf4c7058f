"""The operations `confine`, `attempts` and `lease`: a container's network is closed before its session runs,
refusals are read, and a node's lease is passed on to it.

This process, which serves one request, enters the network namespace and no other, and keeps no capability but
that to set the rules; nothing of the container is opened or executed here. The rules are read back, and only
then the first process is let go, which has waited for it (images/toolbox/init.c).
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from holdfast.snapshots.checkpointer.container import first_process, read_only_root
from holdfast.snapshots.checkpointer.egress import lease_gate, link_rules, netrules
from holdfast.snapshots.checkpointer.ground import separate_process, tree
from holdfast.snapshots.checkpointer.wire.channel import HostChannel
from holdfast.snapshots.checkpointer.wire.requests import Attempts, Confine, LeaseGate

LIMIT = 30
"""Seconds after which this process ends, whatever it does. It takes milliseconds."""
WAIT = 10.0
"""Seconds for the container's first process to begin to wait."""
_POLL_SECONDS = 0.001


class NotConfined(Exception):
    """The rules are not in force; the first process was not released."""


def prepare() -> None:
    """Load the library that sets rules, so that the processes that use it do not have to."""
    import nftables

    nftables.Nftables()


def run(request: Confine, channel: HostChannel) -> None:
    """Set the rules if `load`, check that they are in force, release the first process if `release`.

    Replaced rules take their record with them: their refusals are in the answer. A root that is to be
    read-only becomes so before: by another process, since this one can do nothing else afterwards.

    Raises NotConfined, Astray, RootWritable, TargetMismatch, OSError.
    """
    began = time.monotonic()
    process, network = _identified(request.init_pid, request.container)
    if request.places is not None:
        first_process.require_mounted(request.init_pid, request.places)
    if request.root is not None:
        read_only_root.make(request.init_pid, request.root)
    _enter(network)
    before = netrules.refused(_listed())
    links = link_rules.own_links() if request.links else []
    if request.load:
        _command(netrules.text(request.rules))
        if request.links:
            _command(link_rules.text(request.rules, links))
    why = netrules.wrong(_listed(), request.rules)
    if why is None and request.links:
        why = link_rules.wrong(_listed("netdev"), request.rules, links)
    if why is not None:
        raise NotConfined(f"the rules for its network are not in force: {why}")
    if request.release:
        _await_waiting(request.init_pid)
        signal.pidfd_send_signal(process, signal.SIGUSR1)
    channel.send("done", seconds=time.monotonic() - began, refused=[one.as_dict() for one in before])


def attempts(request: Attempts, channel: HostChannel) -> None:
    """Report recent refusals; empty without rules. Raises TargetMismatch, OSError."""
    _, network = _identified(request.init_pid, request.container)
    _enter(network)
    channel.send("done", refused=[one.as_dict() for one in netrules.refused(_listed())])


def lease(request: LeaseGate, channel: HostChannel) -> None:
    """Open the gate of a container's network until the lease ends. Raises NotConfined, TargetMismatch,
    OSError.
    """
    _, network = _identified(request.init_pid, request.container)
    _enter(network)
    # Counted here: whatever delayed this request has used up part of the lease.
    left = request.until - time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        text = lease_gate.text(left)
    except ValueError as error:
        raise NotConfined(f"its lease cannot be passed on: {error}") from error
    _command(text)
    if not lease_gate.is_set(_listed(table=lease_gate.TABLE)):
        raise NotConfined("its network would not close at the end of the lease")
    channel.send("done")


def _identified(init_pid: int, container: str) -> tuple[int, int]:
    """Return a container's first process and its network, as descriptors, after checking their owner."""
    process = os.pidfd_open(init_pid)
    tree.check_container(init_pid, container)
    first_process.await_ours(init_pid)
    network = os.open(f"/proc/{init_pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    _check_own(network)
    # The process is still there: what was looked at and opened by its number is its own.
    signal.pidfd_send_signal(process, 0)
    signal.alarm(LIMIT)
    return process, network


def _enter(network: int) -> None:
    """Enter the network of a container, with the only capability to set its rules."""
    separate_process.enter_namespace(network, separate_process.NEWNET)
    separate_process.keep_capabilities(separate_process.NET_ADMIN)


def _check_own(network: int) -> None:
    """Raise TargetMismatch if the namespace is the host's, or the checkpointer's."""
    found = os.fstat(network)
    for other in ("self", "2"):  # 2 is a thread of the kernel
        try:
            known = Path(f"/proc/{other}/ns/net").stat()
        except OSError:
            continue
        if os.path.samestat(found, known):
            raise tree.TargetMismatch("the container lacks a network namespace of its own")


def _listed(family: str = "inet", table: str = netrules.TABLE) -> dict[str, Any]:
    """Return nft's listing of the table; empty if there is none."""
    nft = _nft()
    nft.set_json_output(True)
    code, output, _ = nft.cmd(f"list table {family} {table}")
    listed: dict[str, Any] = json.loads(output) if code == 0 else {}
    return listed


def _command(text: str) -> None:
    code, _, errors = _nft().cmd(text)
    if code != 0:
        why = str(errors).strip().splitlines()
        raise NotConfined(f"the rules for its network cannot be set: {why[0] if why else code}")


def _nft() -> Any:
    import nftables

    return nftables.Nftables()


def _await_waiting(init_pid: int) -> None:
    """Wait until the first process waits for its signal: an earlier one is lost (pid_namespaces(7))."""
    deadline = time.monotonic() + WAIT
    while not tree.waits_unconfined(init_pid):
        if time.monotonic() > deadline:
            raise NotConfined("its first process does not wait: it is not Holdfast's")
        time.sleep(_POLL_SECONDS)
