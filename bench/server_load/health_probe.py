"""`python -m bench.server_load.health_probe URL FILE`: ask a server how it is, until standard input ends.

A process of its own, so that what the clients do in theirs does not count.  Writes a line for each answer:
when it was asked (monotonic clock), and the seconds it took.  A server that is not there is asked again.
"""

from __future__ import annotations

import http.client
import os
import select
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

EVERY = 0.1
"""Seconds from one question to the next."""


def main() -> None:
    url, file = sys.argv[1], Path(sys.argv[2])
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    headers = {"Authorization": f"Bearer {os.environ['HOLDFAST_TOKEN']}"}
    with file.open("w", buffering=1) as found:
        while not select.select([sys.stdin], [], [], EVERY)[0]:
            asked = time.monotonic()
            try:
                connection.request("GET", "/health", headers=headers)
                answer = connection.getresponse()
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                continue
            if answer.status == 200:
                found.write(f"{asked:.6f} {time.monotonic() - asked:.6f}\n")


if __name__ == "__main__":
    main()
