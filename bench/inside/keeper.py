"""Runs in a session: threads that count, memory with a digest, a connection to itself. Reports if all is
well.

`keeper.py serve SOCKET` runs; `keeper.py ask SOCKET` prints its report and ends with 0 if all is well.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import threading
import time

THREADS = 4
PATIENCE = 30.0


def count(counts: list[int], number: int) -> None:
    while True:
        counts[number] += 1
        time.sleep(0.005)


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far = listener.accept()[0]
    threading.Thread(target=echo, args=(far,), daemon=True).start()
    return near, far


def echo(far: socket.socket) -> None:
    """Echo data, always in the middle of reading when a capture comes."""
    while words := far.recv(4):
        far.sendall(words)


def told(counts: list[int], memory: bytes, digest: str, ends: tuple[socket.socket, socket.socket]) -> str:
    """Return the errors; nothing if all is well."""
    before, deadline = list(counts), time.monotonic() + PATIENCE
    while any(now == then for now, then in zip(counts, before, strict=True)):
        if time.monotonic() > deadline:
            return "a thread stands still"
        time.sleep(0.005)
    if hashlib.sha256(memory).hexdigest() != digest:
        return "memory is not as it was"
    near = ends[0]
    near.settimeout(PATIENCE)
    near.sendall(b"ping")
    return "" if near.recv(4) == b"ping" else "the connection is broken"


def serve(path: str) -> None:
    counts, memory = [0] * THREADS, os.urandom(20 << 20)
    digest, ends = hashlib.sha256(memory).hexdigest(), connected()
    for number in range(THREADS):
        threading.Thread(target=count, args=(counts, number), daemon=True).start()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            asking, _ = listener.accept()
            with asking:
                asking.sendall((told(counts, memory, digest, ends) or "well").encode())


def ask(path: str) -> int:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.settimeout(2 * PATIENCE)
        asking.connect(path)
        answer = asking.recv(200).decode()
    print(answer)
    return int(answer != "well")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(ask(sys.argv[2]))
