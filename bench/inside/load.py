"""The first process of a container that another tool captures: holds a heap of random bytes, starts the rest.

Arguments: size of the heap in bytes, then programs to start beside it.
"""

import os
import pathlib
import subprocess
import sys
import time


def main() -> None:
    heap = os.urandom(int(sys.argv[1]))
    children = [subprocess.Popen([sys.executable, program]) for program in sys.argv[2:]]
    pathlib.Path("/tmp/load.ready").write_text(f"{len(heap)} {len(children)}\n")
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
