"""Five dead children that are not collected; on SIGUSR1, it collects them and prints how they ended."""

import os
import signal
import time
from pathlib import Path

children = {}
for number in range(1, 6):
    pid = os.fork()
    if pid == 0:
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(number)
    children[pid] = -9 if number == 5 else number

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
while any(") Z" not in Path(f"/proc/{pid}/stat").read_text() for pid in children):
    time.sleep(0.01)
Path("pid").write_text(str(os.getpid()))
Path("dead").write_text(" ".join(map(str, children)))
signal.sigwait({signal.SIGUSR1})
found = {pid: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}
Path("new").write_text(f"{'ok' if found == children else 'not ok'}: they ended with {list(found.values())}\n")
os.replace("new", "verdict")  # noqa: PTH105
signal.pause()
