"""A heap of two gibibytes that differs in every page; blocks of it are read and written all the time."""

import hashlib
import os
import random
import time
from pathlib import Path

BLOCK = 1 << 20
COUNT = 2048
seed = random.Random(1)
first = seed.randbytes(BLOCK)
heap = []
sums = []
for index in range(COUNT):
    block = bytearray(first)
    for page in range(0, BLOCK, 4096):
        block[page : page + 8] = (index * BLOCK + page).to_bytes(8, "little")
    heap.append(block)
    sums.append(hashlib.blake2b(block).digest())

rounds = faults = 0
while True:
    for _ in range(8):
        index = seed.randrange(COUNT)
        faults += hashlib.blake2b(heap[index]).digest() != sums[index]
        heap[index][100:108] = rounds.to_bytes(8, "little")
        sums[index] = hashlib.blake2b(heap[index]).digest()
    rounds += 1
    Path("new").write_text(f"{rounds} {faults} in {COUNT} MiB\n")
    os.replace("new", "state")  # noqa: PTH105
    time.sleep(0.02)
