"""Counts as fast as it can in a file that the host also sees."""

import mmap
import struct
from pathlib import Path

with Path("/run/holdfast/counter").open("w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
count = 0
while True:
    count += 1
    memory[0:8] = struct.pack("Q", count)
