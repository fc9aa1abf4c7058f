"""Runs a kernel that speaks TCP only, such as Deno's or Java's, behind the Unix sockets of a session.

It passes messages on and reads none: they are signed with a key that both sides know. The kernel ends with
it, and it ends with the kernel. It is independent of the session.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import zmq

NAMES = ("shell", "control", "stdin", "hb", "iopub")
IDENTITY = b"session"
"""Of all sockets towards the kernel: it asks for input where the code came from, by this name."""
_PR_SET_PDEATHSIG = 1


def free_ports() -> list[int]:
    """Return a port of loopback for each socket; another program can take one before the kernel does."""
    with ExitStack() as opened:
        found = [opened.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in NAMES]
        return [each.getsockname()[1] for each in found]


def connected(context: Any, name: str, at: str, to: str) -> tuple[Any, Any]:
    """Return a bound socket and one that leads to the kernel; nothing is dropped between them."""
    if name == "iopub":
        front, back = context.socket(zmq.XPUB), context.socket(zmq.XSUB)
        front.setsockopt(zmq.XPUB_NODROP, 1)
    else:
        front, back = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
        back.setsockopt(zmq.IDENTITY, IDENTITY)
    back.connect(to)
    front.bind(at)
    return front, back


def passed_on(front: Any, back: Any) -> None:
    """Pass messages between the session's supervisor and the kernel, until the process ends.

    Deno answers no message that has come through more than one socket: the name of the sender is kept here.
    There is one supervisor; one that is started again has a new name, and the answers from then on.
    """
    poller, sender = zmq.Poller(), b""
    for each in (front, back):
        poller.register(each, zmq.POLLIN)
    while True:
        for each, _ in poller.poll():
            parts = each.recv_multipart()
            if each is front:
                sender, *parts = parts
                back.send_multipart(parts)
            elif sender:
                front.send_multipart([sender, *parts])


def main(path: str, command: Sequence[str]) -> None:
    """Run the kernel that a connection file asks for: a command, which gets the path of another such file."""
    asked = json.loads(Path(path).read_text())
    ports = dict(zip(NAMES, free_ports(), strict=True))
    own = Path(path).with_name("tcp.json")
    own.unlink(missing_ok=True)
    with os.fdopen(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        named = {f"{name}_port": port for name, port in ports.items()}
        json.dump({**asked, **named, "transport": "tcp", "ip": "127.0.0.1"}, file)
    ends_with_this = ctypes.CDLL(None).prctl
    kernel = subprocess.Popen(
        [*command, str(own)],
        preexec_fn=lambda: ends_with_this(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),
    )
    context = zmq.Context()
    for name, port in ports.items():
        at = f"{asked['transport']}://{asked['ip']}-{asked[f'{name}_port']}"
        pair = connected(context, name, at, f"tcp://127.0.0.1:{port}")
        threading.Thread(target=zmq.proxy if name == "iopub" else passed_on, args=pair, daemon=True).start()
    code = kernel.wait()
    os._exit(code if code >= 0 else 128 - code)  # the threads wait for messages


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
