"""A real trial of live snapshots: the state of a session is captured, restored, and checked.

There is one verdict per capability, so that a machine on which only some work says which. The sessions and
the snapshot it makes are removed again.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.base import way_to_internet
from holdfast.base.text import plain
from holdfast.errors import HoldfastError
from holdfast.runtime.api.session import Session
from holdfast.runtime.egress import home_network, host_network
from holdfast.runtime.guest_rpc.results import Check
from holdfast.runtime.lifecycle.create import create
from holdfast.runtime.storage import snapshot_storage

if TYPE_CHECKING:
    from holdfast.base.home import Home
    from holdfast.runtime.operations.context import Context


# Seconds for one step inside the session.
STEP = 30.0
_ADVICE = "live snapshots of sessions that use this are not reliable on this machine; `--kind filesystem` is"
METADATA = ("169.254.169.254", 80)
SECONDS = 3.0
"""Seconds after which an address counts as unreachable. A refusal comes at once."""
_STEP = 60.0
# `connected`, or the error; by destination.
_CONNECT = """
import json, socket
def tried(place):
    try:
        socket.create_connection(place, {seconds}).close()
    except OSError as error:
        return str(error)
    return "connected"
print(json.dumps([tried(tuple(place)) for place in {places}]))
"""


@dataclass(frozen=True, slots=True)
class _Probe:
    """State to set up in a session, and the check that it is still there."""

    name: str
    detail: str
    prepare: Callable[[Session], None]
    holds: Callable[[Session], bool]


def checks(context: Context) -> list[Check]:
    """Make a session, check what it reaches, capture and restore it, then check each part of its state."""
    with _scratch(context) as sessions:
        try:
            session = Session(context, create(context))
            sessions.append(session)
            result = session.exec("true", timeout=STEP)
        except HoldfastError as error:
            return [Check("session", False, plain(str(error), 300), error.hint)]
        if not result.ok:
            return [Check("session", False, plain(result.text, 200))]
        return [_network(context, session), *_live(session, sessions)]


def _network(context: Context, session: Session) -> Check:
    try:
        return egress_check(session, context.home)
    except (HoldfastError, OSError, ValueError) as error:
        return Check("network", False, f"cannot be tried: {plain(str(error), 300)}")


def _live(session: Session, sessions: list[Session]) -> list[Check]:
    try:
        for probe in PROBES:
            probe.prepare(session)
        taken = session.snapshot()
    except HoldfastError as error:
        return [Check("live capture", False, plain(str(error), 300), error.hint)]
    detail = f"{len(PROBES)} kinds of state, frozen for {taken.row.details.frozen_seconds * 1000:.0f} ms"
    if taken.row.details.committed:
        detail += "; most of it for the engine's commit, as its layers cannot be read"
    found = [Check("live capture", True, detail)]
    try:
        restored = taken.restore()
        sessions.append(restored)
    except HoldfastError as error:
        return [*found, Check("live restore", False, plain(str(error), 300), error.hint)]
    found += [_verdict(probe, restored) for probe in PROBES]
    undisturbed = all(_verdict(probe, session).ok for probe in PROBES)
    detail = "resumed with all of it" if undisturbed else "lost something"
    return [*found, Check("captured session", undisturbed, detail, "" if undisturbed else _ADVICE)]


@contextmanager
def _scratch(context: Context) -> Iterator[list[Session]]:
    """Make sessions that are removed at the end, with the snapshots taken of them."""
    sessions: list[Session] = []
    try:
        yield sessions
    finally:
        ours = {session.id for session in sessions}
        for session in sessions:
            session.remove()
        for row in context.store.snapshots():
            if row.session_id in ours:
                snapshot_storage.remove_snapshot(context, row)


def _verdict(probe: _Probe, session: Session) -> Check:
    try:
        ok = probe.holds(session)
        detail = probe.detail if ok else f"{probe.detail}: not as it was"
    except HoldfastError as error:
        ok, detail = False, plain(str(error), 300)
    return Check(probe.name, ok, detail, "" if ok else _ADVICE)


def _shell(command: str) -> Callable[[Session], None]:
    return lambda session: _discard(session.exec(command, timeout=STEP))


def _shell_says(command: str, expected: str) -> Callable[[Session], bool]:
    return lambda session: session.exec(command, timeout=STEP).text.strip() == expected


def _kernel(code: str) -> Callable[[Session], None]:
    return lambda session: _discard(session.cell(code, timeout=STEP))


def _kernel_says(code: str, expected: str) -> Callable[[Session], bool]:
    return lambda session: session.cell(code, timeout=STEP).stdout.strip() == expected


def _discard(_result: object) -> None:
    return


PROBES = (
    _Probe(
        "shell and jobs",
        "variables and a background job of the shell",
        _shell("cd /srv; hf_probe=kept; sleep 100000 &"),
        _shell_says('echo "$PWD $hf_probe $(jobs -r | grep -c 100000)"', "/srv kept 1"),
    ),
    _Probe(
        "terminal",
        "a PTY pair with text in flight, and its modes",
        _kernel(
            "import os, pty, termios, tty\nm, s = pty.openpty(); tty.setraw(s); os.write(m, b'on its way')"
        ),
        _kernel_says("print(os.read(s, 99).decode()); os.write(m, b'on its way') and None", "on its way"),
    ),
    _Probe(
        "ZMQ pair",
        "two connected ZMQ sockets with a message between them",
        _kernel(
            "import zmq; z = zmq.Context.instance(); p = z.socket(zmq.PAIR); q = z.socket(zmq.PAIR)\n"
            "p.bind('ipc:///tmp/hf-probe'); q.connect('ipc:///tmp/hf-probe'); p.send(b'held')"
        ),
        _kernel_says("print(q.recv().decode()); p.send(b'held')", "held"),
    ),
    _Probe(
        "loopback TCP",
        "a connection within the session, data in flight",
        _kernel(
            "import socket; v = socket.create_server(('127.0.0.1', 0))\n"
            "c = socket.create_connection(v.getsockname()); a, _ = v.accept(); c.sendall(b'in flight')"
        ),
        _kernel_says("print(a.recv(99).decode()); c.sendall(b'in flight')", "in flight"),
    ),
    _Probe(
        "shared memory",
        "a block in /dev/shm",
        _kernel(
            "from multiprocessing import shared_memory\n"
            "b = shared_memory.SharedMemory(create=True, size=4096); b.buf[:4] = b'kept'"
        ),
        _kernel_says(
            "print(open(f'/dev/shm/{b.name}', 'rb').read(4).decode(), bytes(b.buf[:4]).decode())", "kept kept"
        ),
    ),
    _Probe(
        "other users",
        "a process of another uid",
        _shell("setpriv --reuid 65534 --regid 65534 --clear-groups sleep 100001 &"),
        _shell_says("ps -o uid= -C sleep | sort -n | tail -n 1 | tr -d ' '", "65534"),
    ),
    _Probe(
        "deleted files",
        "an open file without a name",
        _shell("exec 9<>/var/tmp/hf-gone; echo kept >&9; rm /var/tmp/hf-gone"),
        _shell_says("cat /proc/$$/fd/9", "kept"),
    ),
)


def egress_check(session: Session, home: Home) -> Check:
    """Return the forbidden places that the session reached; raises the errors of the session's kernel."""
    with _listening() as listener:
        port = listener.getsockname()[1]
        addresses = [str(one) for one in host_network.look().addresses if not one.is_link_local]
        places = [[address, port] for address in addresses] + [list(METADATA)]
        output = session.cell(_CONNECT.format(seconds=SECONDS, places=places), timeout=_STEP).stdout
    said = json.loads(output)
    reached = [place for (place, _), word in zip(places, said, strict=True) if word == "connected"]
    if reached:
        where = ", ".join(map(str, reached))
        return Check(
            "network",
            False,
            f"a session reached this host at {plain(where, 200)}",
            "do not run programs you do not trust; report this with the output of `nft list ruleset`",
        )
    detail = f"closed to {len(places)} addresses of host and cloud{_opened(home)}"
    if way_to_internet.is_missing():
        detail += "; this host reaches the internet over IPv6 only, sessions need IPv4: they reach nothing"
    return Check("network", True, detail)


def _listening() -> socket.socket:
    """Open a listener at all addresses of all families."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("0.0.0.0", 0))  # noqa: S104 - to see that nothing gets here


def _opened(home: Home) -> str:
    known = home_network.read(home)
    resolvers = ", ".join(str(one) for one in host_network.look().resolvers)
    opened = ", ".join(map(str, known.every))
    return f"; names by {resolvers}" + (f"; open for all sessions: {plain(opened, 300)}" if opened else "")
