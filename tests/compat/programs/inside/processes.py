"""Processes that share memory, semaphores, locks and queues; each round's sum is checked and counted."""

import multiprocessing as mp
import os
import time
from multiprocessing import shared_memory
from multiprocessing.synchronize import Barrier, Lock, Semaphore
from pathlib import Path

WORKERS = 4
CELLS = 1000


def work(name: str, number: int, go: Semaphore, lock: Lock, done: Semaphore, end: Barrier) -> None:
    block = shared_memory.SharedMemory(name)
    view = block.buf
    assert view is not None
    while True:
        go.acquire()
        for index in range(number, CELLS, WORKERS):
            view[index] = (view[index] + 1) % 251
        with lock:
            count = int.from_bytes(view[CELLS : CELLS + 8], "little") + 1
            view[CELLS : CELLS + 8] = count.to_bytes(8, "little")
        end.wait()
        done.release()


def main() -> None:
    context = mp.get_context("forkserver")
    block = shared_memory.SharedMemory(create=True, size=CELLS + 8)
    view = block.buf
    assert view is not None
    go, done, lock = context.Semaphore(0), context.Semaphore(0), context.Lock()
    end = context.Barrier(WORKERS)
    for number in range(WORKERS):
        arguments = (block.name, number, go, lock, done, end)
        context.Process(target=work, args=arguments, daemon=True).start()
    with context.Pool(2) as pool:
        rounds = faults = 0
        while True:
            for _ in range(WORKERS):
                go.release()
            for _ in range(WORKERS):
                done.acquire()
            rounds += 1
            faults += any(view[index] != rounds % 251 for index in range(CELLS))
            faults += int.from_bytes(view[CELLS : CELLS + 8], "little") != rounds * WORKERS
            faults += pool.map(abs, [-1, -2, -3]) != [1, 2, 3]
            Path("new").write_text(f"{rounds} {faults} in {WORKERS} workers and a pool\n")
            os.replace("new", "state")  # noqa: PTH105
            time.sleep(0.03)


if __name__ == "__main__":
    main()
