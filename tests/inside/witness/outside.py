"""Programs with connections to outside, each in a way of its own, that record how theirs ended.

`python3 -m witness.outside HOST PORT`; the ends are in /dev/shm/outside as JSON.
"""

from __future__ import annotations

import asyncio
import http.client
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from witness.status import STATUS

HERE = socket.gethostname()
ended: dict[str, str] = {}
guard = threading.Lock()
begun = threading.Semaphore(0)


def tell(name: str, how: str) -> None:
    with guard:
        ended[name] = how
        (STATUS / "outside.new").write_text(json.dumps(ended))
        (STATUS / "outside.new").rename(STATUS / "outside")


def in_a_copy() -> bool:
    return socket.gethostname() != HERE


def connected(address: tuple[str, int], word: bytes) -> socket.socket:
    made = socket.create_connection(address)
    made.sendall(word + b"\n")
    return made


def reads(address: tuple[str, int]) -> str:
    """Block in recv(2) at the capture."""
    made = connected(address, b"silent")
    begun.release()
    return repr(made.recv(100))


def writes(address: tuple[str, int]) -> str:
    made = connected(address, b"sink")
    begun.release()
    while True:
        made.sendall(b"x" * 1000)
        time.sleep(0.01)


def polls(address: tuple[str, int]) -> str:
    made = connected(address, b"silent")
    made.setblocking(False)
    poll = select.epoll()
    poll.register(made, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
    begun.release()
    events = poll.poll()
    return f"{events[0][1] & (select.EPOLLIN | select.EPOLLHUP) > 0} {made.recv(100)!r}"


def selects(address: tuple[str, int]) -> str:
    made = connected(address, b"silent")
    begun.release()
    readable, _, _ = select.select([made], [], [])
    return repr(readable[0].recv(100))


def streams(address: tuple[str, int]) -> str:
    """Stream through asyncio."""

    async def run() -> str:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"silent\n")
        await writer.drain()
        begun.release()
        try:
            await reader.readexactly(5)
        except asyncio.IncompleteReadError:
            return "incomplete"
        return "read"

    return asyncio.run(run())


def downloads(address: tuple[str, int]) -> str:
    """Download a slow answer with a known length."""
    made = http.client.HTTPConnection(*address)
    made.request("GET", "/slow")
    answer = made.getresponse()
    begun.release()
    try:
        answer.read()
    except http.client.IncompleteRead:
        return "incomplete"
    return "read"


def curls(address: tuple[str, int]) -> str:
    process = subprocess.Popen(
        ["curl", "-sN", f"http://{address[0]}:{address[1]}/slow"], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.read(1)
    begun.release()
    process.stdout.read()
    return str(process.wait())


def keeps(address: tuple[str, int]) -> str:
    """Keep a connection for later use, find it dead then, and open a new one."""
    made = http.client.HTTPConnection(*address)
    made.request("GET", "/quick")
    made.getresponse().read()
    begun.release()
    while not in_a_copy():
        time.sleep(0.01)
    for attempt in range(2):
        try:
            made.request("GET", "/quick")
            return f"{made.getresponse().read().decode()} at attempt {attempt + 1}"
        except (http.client.RemoteDisconnected, ConnectionError):
            made.close()
    return "given up"


def pools(address: tuple[str, int]) -> str:
    """Do the same by the library that most programs use."""
    requests: Any = importlib.import_module("pip._vendor.requests")
    pool = requests.Session()
    pool.get(f"http://{address[0]}:{address[1]}/quick")
    begun.release()
    while not in_a_copy():
        time.sleep(0.01)
    return str(pool.get(f"http://{address[0]}:{address[1]}/quick").text)


def asks(address: tuple[str, int]) -> str:
    """Speak a protocol of questions and answers, like a database's; in a transaction."""
    made = connected(address, b"echo")
    made.sendall(b"BEGIN\n")
    made.recv(100)
    begun.release()
    while not in_a_copy():
        made.sendall(b"SELECT\n")
        if not made.recv(100):
            break
        time.sleep(0.005)
    try:
        made.sendall(b"COMMIT\n")
        answer = made.recv(100)
    except ConnectionError as error:
        return type(error).__name__
    return repr(answer)


def datagrams(address: tuple[str, int]) -> str:
    """Use a connected datagram socket: it continues in the copy, from the copy's own address."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.connect(address)
    made.settimeout(0.5)
    begun.release()
    while not in_a_copy():
        time.sleep(0.01)
    while True:
        made.send(b"ping")
        try:
            return made.recv(100).decode()
        except TimeoutError:
            continue


WAYS: tuple[Callable[[tuple[str, int]], str], ...] = (
    reads,
    writes,
    polls,
    selects,
    streams,
    downloads,
    curls,
    keeps,
    pools,
    asks,
    datagrams,
)


def main() -> None:
    address = (sys.argv[1], int(sys.argv[2]))

    def run(way: Callable[[tuple[str, int]], str]) -> None:
        try:
            tell(way.__name__, way(address))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            tell(way.__name__, type(error).__name__)

    for way in WAYS:
        threading.Thread(target=run, args=(way,)).start()
    for _ in WAYS:
        begun.acquire()
    Path("/dev/shm/outside-ready").write_text(str(os.getpid()))


if __name__ == "__main__":
    main()
