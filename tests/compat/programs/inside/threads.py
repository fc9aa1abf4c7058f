"""Threads that hand numbers to each other through a queue; the sum of each round is checked and counted."""

import os
import queue
import threading
import time
from pathlib import Path

WORKERS = 8
todo: queue.Queue[int] = queue.Queue()
done: queue.Queue[int] = queue.Queue()
turn = threading.Condition()
served = [0] * WORKERS
local = threading.local()


def work(number: int) -> None:
    local.mine = 0
    while True:
        value = todo.get()
        with turn:
            served[number] += 1
            local.mine += 1
            turn.notify_all()
        done.put(value * value if local.mine == served[number] else -1)


for index in range(WORKERS):
    threading.Thread(target=work, args=(index,), daemon=True).start()

rounds = faults = 0
total = 0
while True:
    for value in range(100):
        todo.put(value)
    sums = sum(done.get() for _ in range(100))
    total += 100
    with turn:
        turn.wait_for(lambda total=total: sum(served) == total, timeout=30)  # type: ignore[misc]
    rounds += 1
    faults += sums != sum(n * n for n in range(100)) or sum(served) != total
    Path("new").write_text(f"{rounds} {faults} with {threading.active_count()} threads\n")
    os.replace("new", "state")  # noqa: PTH105
    time.sleep(0.03)
