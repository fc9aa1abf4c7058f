"""An HTTP client with one open connection: `client.py PORT` asks all the time; answers must be 1, 2, 3, …"""

import http.client
import os
import sys
import time
from pathlib import Path

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
rounds = faults = 0
while True:
    connection.request("GET", "/count")
    answer = connection.getresponse().read().strip()
    rounds += 1
    faults += answer != str(rounds).encode()
    Path("new").write_text(f"{rounds} {faults} over one connection, last {answer.decode()[:60]}\n")
    os.replace("new", "state")  # noqa: PTH105
    time.sleep(0.05)
