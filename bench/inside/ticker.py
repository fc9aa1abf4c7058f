"""Measures how long the world was frozen: the longest gap between two turns of a loop that writes to memory.

SIGUSR1 starts it; the next one stops it and writes the gap, in seconds, to /tmp/ticker.report. Between
measurements it sleeps, so that it takes no time from other measurements.
"""

import mmap
import os
import pathlib
import signal
import time

PAGE = 4096
PAGES = 64
running = False


def turn(_signal: int, _frame: object) -> None:
    global running
    running = not running


def measure() -> float:
    memory = mmap.mmap(-1, PAGE * PAGES)
    clock = time.monotonic_ns
    worst = 0
    place = 0
    last = clock()
    while running:
        memory[place] = 1
        place = (place + PAGE) % (PAGE * PAGES)
        now = clock()
        if now - last > worst:
            worst = now - last
        last = now
    return worst / 1e9


def write(path: str, text: str) -> None:
    new = pathlib.Path(path + ".new")
    new.write_text(text)
    new.rename(path)


def main() -> None:
    signal.signal(signal.SIGUSR1, turn)
    write("/tmp/ticker.pid", str(os.getpid()))
    while True:
        while not running:
            time.sleep(0.01)
        write("/tmp/ticker.report", f"{measure():.6f}\n")


if __name__ == "__main__":
    main()
