"""Connections whose readers do not read: queues are full at both ends.

`python3 full_streams.py FOLDER` makes them, IPv4 and IPv6, either end the writer, each end a process of its
own, and writes FOLDER/connected. When FOLDER/fill appears, writers write until nothing more fits and write
FOLDER/full-0 and so on. When FOLDER/go appears, they close, and readers read to the end and write what they
found into FOLDER/said-0 and so on.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from pathlib import Path

DATA = random.Random(5).randbytes(8 << 20)
PATIENCE = 120.0
BUFFER = 256 << 10
"""Bytes to write that wait: more than a reader's first window."""
FIRST = 4 << 10
"""Bytes: few segments, so that in a copy the kernel may send more before these are acknowledged."""
Ends = tuple[socket.socket, socket.socket]


def connect(family: int) -> Ends:
    """Return a client and a server."""
    address = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((address, 0), family=family) as listener:
        client = socket.create_connection((address, listener.getsockname()[1]))
        return client, listener.accept()[0]


def await_file(path: Path) -> None:
    """Wait until there is such a file."""
    deadline = time.monotonic() + PATIENCE
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.01)


def write(end: socket.socket, folder: Path, number: int) -> None:
    """Fill a connection.

    Where nothing is acknowledged, the kernel takes the first bytes for lost after 0.2 s, and sends no others.
    """
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    await_file(folder / "fill")
    end.setblocking(False)
    done, idle = end.send(DATA[:FIRST]), 0
    time.sleep(1)
    while idle < 10:
        try:
            done += end.send(DATA[done : done + (64 << 10)])
            idle = 0
        except BlockingIOError:
            idle += 1
            time.sleep(0.02)
    (folder / f"size-{number}").write_text(str(done))
    (folder / f"full-{number}").touch()
    await_file(folder / "go")
    end.close()


def read(end: socket.socket, folder: Path, number: int) -> None:
    """Compare the whole input with the written text."""
    await_file(folder / "go")
    wanted = DATA[: int((folder / f"size-{number}").read_text())]
    found = b""
    end.settimeout(PATIENCE / 4)
    try:
        while data := end.recv(1 << 16):
            found += data
    except OSError as error:
        verdict = f"{error!r} after {len(found)} of {len(wanted)} bytes"
    else:
        verdict = (
            "right" if found == wanted else f"{len(found)} bytes, not the {len(wanted)} that were written"
        )
    (folder / "part").with_suffix(f".{number}").write_text(verdict)
    (folder / "part").with_suffix(f".{number}").rename(folder / f"said-{number}")


def main(folder: Path) -> None:
    """Make the connections and a process for each end."""
    pairs = [connect(family) for family in (socket.AF_INET, socket.AF_INET6) for _ in range(2)]
    for number, pair in enumerate(pairs):
        writer, reader = pair if number % 2 else reversed(pair)
        for end, run in ((writer, write), (reader, read)):
            if os.fork() == 0:
                for other in (one for both in pairs for one in both if one is not end):
                    other.close()
                run(end, folder, number)
                os._exit(0)
    (folder / "connected").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
