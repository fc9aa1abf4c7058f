"""Counts in memory and in a file as fast as it can, and notices when the two are not of one instant.

The file is a ring of numbers; number n is written over number n - SLOTS. Before n is written, its place must
hold exactly that, and afterwards the place of n - 1 must hold n - 1. Where files are older than memory, the
second fails; where they are newer, the first fails at the next number or the one after it. Nothing is ever
repaired, so it does not matter where in the loop the capture was.

SIGUSR1: continue for some thousand turns, then write "<numbers since the start> <mismatches>" to
/tmp/counter.report.
"""

import os
import pathlib
import signal
import struct

SLOTS = 4096
TURNS = 2 * SLOTS
asked = False


def ask(_signal: int, _frame: object) -> None:
    global asked
    asked = True


def write(path: str, text: str) -> None:
    new = pathlib.Path(path + ".new")
    new.write_text(text)
    new.rename(path)


def main() -> None:
    global asked
    signal.signal(signal.SIGUSR1, ask)
    pack = struct.Struct("<q").pack
    unpack = struct.Struct("<q").unpack
    file = os.open("/var/tmp/counter.ring", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.pwrite(file, b"".join(pack(number) for number in range(SLOTS)), 0)
    number = SLOTS - 1
    torn = 0
    left = -1
    write("/tmp/counter.pid", str(os.getpid()))
    while True:
        number += 1
        place = 8 * (number % SLOTS)
        before = unpack(os.pread(file, 8, place))[0]
        os.pwrite(file, pack(number), place)
        last = unpack(os.pread(file, 8, 8 * ((number - 1) % SLOTS)))[0]
        if before != number - SLOTS or last != number - 1:
            torn += 1
        if asked:
            asked = False
            left = TURNS
        if left >= 0:
            left -= 1
            if left < 0:
                write("/tmp/counter.report", f"{number} {torn}\n")


if __name__ == "__main__":
    main()
