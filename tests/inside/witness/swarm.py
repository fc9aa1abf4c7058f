"""Programs that count events from others: ends of children, signals, timers. `python3 -m witness.swarm`.

Runs until /dev/shm/enough exists; then prints the errors and the amount of work.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ENOUGH = Path("/dev/shm/enough")
wrong: list[str] = []
counts: dict[str, int] = {}


def complain(text: str) -> None:
    if len(wrong) < 20:
        wrong.append(text)


def ends() -> None:
    """Run short programs, some of which end exactly at a capture; each has its own exit code."""
    number = 0
    while not ENOUGH.exists():
        number += 1
        running = [subprocess.Popen(["/bin/sh", "-c", f"exit {(number + i) % 200}"]) for i in range(3)]
        killed = subprocess.Popen(["/bin/sleep", "100"])
        killed.terminate()
        for i, process in enumerate(running):
            if process.wait() != (number + i) % 200:
                complain(f"exit code {process.returncode} instead of {(number + i) % 200}")
        if killed.wait() != -signal.SIGTERM:
            complain(f"ended with {killed.returncode} instead of by SIGTERM")
        time.sleep(0.01)
    counts["ends"] = number


def signals() -> None:
    """Check that signals counted by the kernel all arrive, and in their order of priority."""
    pipe = os.pipe()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN, signal.SIGTERM])
        os.write(pipe[1], b"r")
        got = 0
        while True:
            info = signal.sigwaitinfo([signal.SIGRTMIN, signal.SIGTERM])
            if info.si_signo == signal.SIGTERM:
                os.write(pipe[1], str(got).encode())
                os._exit(0)
            got += 1
    os.read(pipe[0], 1)
    sent = 0
    while not ENOUGH.exists():
        os.kill(child, signal.SIGRTMIN)
        sent += 1
        time.sleep(0.002)
    while int(_pending(child), 16):
        time.sleep(0.01)
    os.kill(child, signal.SIGTERM)
    got = int(os.read(pipe[0], 100))
    os.waitpid(child, 0)
    if got != sent:
        complain(f"{got} signals instead of {sent}")
    counts["signals"] = sent


def _pending(pid: int) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("ShdPnd:"))


def timers() -> None:
    """Check that asyncio timers fire once and not too early, whatever the clock did; monotonic time
    advances.
    """

    async def run() -> None:
        loop = asyncio.get_running_loop()
        fired: dict[int, int] = {}

        def fire(number: int, due: float) -> None:
            fired[number] = fired.get(number, 0) + 1
            if time.monotonic() < due - 0.01:
                complain(f"a timer fired {due - time.monotonic():.3f} s early")

        number, before = 0, time.monotonic()
        while not ENOUGH.exists():
            for delay in (0.01, 0.05, 0.1):
                number += 1
                loop.call_later(delay, fire, number, time.monotonic() + delay)
            await asyncio.sleep(0.02)
            now = time.monotonic()
            if now < before + 0.01:
                complain("monotonic time stood still")
            before = now
        await asyncio.sleep(0.3)
        if len(fired) != number or set(fired.values()) != {1}:
            complain(f"{sum(fired.values())} timers fired instead of {number}")
        counts["timers"] = number

    asyncio.run(run())


def main() -> None:
    threads = [threading.Thread(target=each) for each in (ends, timers)]
    # Before there are threads: this is not about children of processes with several.
    if os.fork() == 0:
        signals()
        threads.clear()
        _say("signals")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _, status = os.wait()
    _say("all")
    sys.exit(status)


def _say(who: str) -> None:
    sys.stdout.write(f"{who} {wrong} {counts}\n")
    sys.stdout.flush()
    if who != "all":
        os._exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
