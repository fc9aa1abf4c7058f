"""Has a file mapped, shared and for writing, without a descriptor; reads and writes it on request."""

import mmap
import time
from pathlib import Path

Path("/workspace/d").mkdir()
with Path("/workspace/d/file").open("w+b") as file:
    file.write(b"-" * 4096)
    file.flush()
    memory = mmap.mmap(file.fileno(), 4096, trackfd=False)  # type: ignore[call-arg]
Path("/workspace/mapped").touch()
while not Path("/workspace/write").exists():
    time.sleep(0.05)
memory[0:29] = b"WRITTEN BY A RESTORED SESSION"
Path("/workspace/wrote").write_bytes(memory[0:64])
time.sleep(1000)
