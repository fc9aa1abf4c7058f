"""Witnesses that remember numbers: a counter in many places, two processes, blocks, a database."""

from __future__ import annotations

import mmap
import os
import random
import socket
import sqlite3
import struct
import zlib
from pathlib import Path

from witness.status import STATUS, Status

PAGE = 4096
NUMBER = struct.Struct("<Q")


def counter(folder: Path, status: Status) -> None:
    """Keep one number in memory, files, tmpfs and mapped files, the latter never synced; each step changes
    all.
    """
    files = [os.open(place / "count", os.O_RDWR | os.O_CREAT, 0o600) for place in (folder, STATUS)]
    mapped = []
    for place in (folder / "mapped", STATUS / "mapped"):
        fd = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        os.truncate(fd, 8 * PAGE)
        mapped.append(mmap.mmap(fd, 8 * PAGE))
        files.append(fd)  # read(2) sees data written through the mapping
    anonymous = mmap.mmap(-1, PAGE)
    # Mapped and unmapped in each step: nothing shows afterwards that it was written.
    brief = os.open(folder / "brief", os.O_RDWR | os.O_CREAT, 0o600)
    os.truncate(brief, PAGE)
    files.append(brief)
    n = 0
    places = {"file": 0, "tmpfs": 1, "mapped": 2, "mapped-tmpfs": 3, "brief": 4}
    for fd in files:
        os.pwrite(fd, NUMBER.pack(0), 0)
    while True:
        seen = {name: NUMBER.unpack(os.pread(files[index], 8, 0))[0] for name, index in places.items()}
        seen["map"], seen["map-tmpfs"] = (NUMBER.unpack_from(each, 5 * PAGE)[0] for each in mapped)
        seen["anonymous"] = NUMBER.unpack_from(anonymous, 0)[0]
        wrong = {name: value for name, value in seen.items() if value != n}
        status.round(f"{n} in memory, but {wrong}" if wrong else "")
        n += 1
        os.pwrite(files[0], NUMBER.pack(n), 0)
        os.pwrite(files[1], NUMBER.pack(n), 0)
        for each in mapped:
            NUMBER.pack_into(each, 0, n)
            NUMBER.pack_into(each, 5 * PAGE, n)
        NUMBER.pack_into(anonymous, 0, n)
        with mmap.mmap(brief, PAGE) as view:
            NUMBER.pack_into(view, 0, n)


def twins(_folder: Path, status: Status) -> None:
    """Pass a number between two processes through a pipe, a socket pair, shared memory and a FIFO in turn."""
    _folder.mkdir(exist_ok=True)
    fifo = _folder / "fifo"
    os.mkfifo(fifo)
    there, here = os.pipe(), socket.socketpair()
    shared = mmap.mmap(-1, PAGE)
    if os.fork() == 0:
        way = os.open(fifo, os.O_WRONLY)
        n = 0
        while True:
            n += 1
            NUMBER.pack_into(shared, 0, n)
            os.write(there[1], NUMBER.pack(n))
            here[0].sendall(NUMBER.pack(n))
            os.write(way, NUMBER.pack(n))
            if NUMBER.unpack(here[0].recv(8, socket.MSG_WAITALL))[0] != n:
                os._exit(1)
    way = os.open(fifo, os.O_RDONLY)
    n = 0
    while True:
        n += 1
        seen = {
            "pipe": NUMBER.unpack(os.read(there[0], 8))[0],
            "pair": NUMBER.unpack(here[1].recv(8, socket.MSG_WAITALL))[0],
            "fifo": NUMBER.unpack(os.read(way, 8))[0],
            "shared": NUMBER.unpack_from(shared, 0)[0],
        }
        wrong = {name: value for name, value in seen.items() if value != n}
        status.round(f"{n} in memory, but {wrong}" if wrong else "")
        here[1].sendall(NUMBER.pack(n))


def blocks(folder: Path, status: Status) -> None:
    """Write blocks with a checksum and a number known to memory, at random: also without the cache."""
    count = 256
    numbers = [0] * count
    plain = os.open(folder / "blocks", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        direct = os.open(folder / "blocks", os.O_RDWR | os.O_DIRECT)
    except OSError:
        direct = plain
    aligned = mmap.mmap(-1, PAGE)
    choose = random.Random(1)

    for index in range(count):
        os.pwrite(plain, _block(index, 0), index * PAGE)
    while True:
        complaint = ""
        for index in range(count):
            block = os.pread(plain, PAGE, index * PAGE)
            if block != _block(index, numbers[index]):
                whole = zlib.crc32(block[:-4]) == struct.unpack("<I", block[-4:])[0]
                found = NUMBER.unpack_from(block, 8)[0] if whole else "damaged"
                complaint = f"block {index}: {found} instead of {numbers[index]}"
        status.round(complaint)
        for turn in range(64):
            index = choose.randrange(count)
            data = _block(index, numbers[index] + 1)
            if turn % 8 == 0:
                aligned[:] = data
                os.pwritev(direct, [aligned], index * PAGE)
            else:
                os.pwrite(plain, data, index * PAGE)
            numbers[index] += 1
            if turn % 32 == 0:
                os.fdatasync(plain)


def _block(index: int, number: int) -> bytes:
    body = (NUMBER.pack(index) + NUMBER.pack(number)) * (PAGE // 16 - 1)
    body = body.ljust(PAGE - 4, b"\0")
    return body + struct.pack("<I", zlib.crc32(body))


def database(folder: Path, status: Status) -> None:
    """Use SQLite in WAL mode: memory knows what is committed. Checkpoints happen all the time."""

    def opened() -> sqlite3.Connection:
        made = sqlite3.connect(folder / "database", isolation_level=None, timeout=30)
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("PRAGMA wal_autocheckpoint=40")
        made.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER PRIMARY KEY, square INTEGER, text TEXT)")
        return made

    connection = opened()
    committed = 0
    while True:
        before = committed
        try:
            found = connection.execute("SELECT count(*), coalesce(max(n), 0), sum(square) FROM t").fetchone()
            expected = (committed, committed, sum(n * n for n in range(1, committed + 1)) or None)
            complaint = "" if found == expected else f"{found} instead of {expected}"
            if not complaint and connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                complaint = "integrity_check fails"
            status.round(complaint)
            if committed > 400:
                connection.execute("DELETE FROM t")
                committed = 0
                connection.execute("VACUUM")
            for _ in range(8):
                connection.execute("BEGIN IMMEDIATE")
                for n in range(committed + 1, committed + 4):
                    connection.execute("INSERT INTO t VALUES (?, ?, ?)", (n, n * n, "x" * (n % 500)))
                connection.execute("COMMIT")
                committed += 3
        except sqlite3.OperationalError as error:
            # In a copy the file differs from the one that was opened: SQLite wants it opened again.
            if "readonly" not in str(error):
                status.round(f"{error} after {before}")
            status.note()
            connection.close()
            connection = opened()
