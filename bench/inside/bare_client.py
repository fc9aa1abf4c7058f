"""A kernel and a blocking client of it without anything in between, in the sessions' own image.

Reads how many cells to run from each line of standard input; answers with a JSON list of seconds.
"""

import json
import sys
import time
from typing import Any

from jupyter_client.manager import KernelManager


def ignore(_message: dict[str, Any]) -> None:
    pass


def main() -> None:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    print("[]", flush=True)
    try:
        for line in sys.stdin:
            took = []
            for _ in range(int(line)):
                started = time.perf_counter()
                reply = client.execute_interactive("1+1", output_hook=ignore, allow_stdin=False, timeout=30)
                took.append(time.perf_counter() - started)
                if reply["content"]["status"] != "ok":
                    raise SystemExit("the kernel refused")
            print(json.dumps(took), flush=True)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
