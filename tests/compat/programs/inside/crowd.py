"""Two hundred processes; a number goes around through all of them, each adds one."""

import os
import time
from pathlib import Path

COUNT = 200

first_in, first_out = os.pipe()
before = first_in
for _ in range(COUNT):
    reader, writer = os.pipe()
    if os.fork() == 0:
        while data := os.read(before, 8):
            os.write(writer, (int.from_bytes(data, "little") + 1).to_bytes(8, "little"))
        os._exit(0)
    os.close(writer)
    if before != first_in:
        os.close(before)
    before = reader

rounds = faults = number = 0
while True:
    os.write(first_out, number.to_bytes(8, "little"))
    back = int.from_bytes(os.read(before, 8), "little")
    faults += back != number + COUNT
    number = back
    rounds += 1
    Path("new").write_text(f"{rounds} {faults} around {COUNT} processes\n")
    os.replace("new", "state")  # noqa: PTH105
    time.sleep(0.5)
