"""Python, standalone and in the kernel."""

from __future__ import annotations

from tests.compat.programs.program import Cell, Program, Run, Shows, Type

_FAMILY = "python"

_SCIENCE = """
import io, threading, time
import numpy as np, pandas as pd
import matplotlib; matplotlib.use("agg")
import matplotlib.pyplot as plt
hf_matrix = np.random.default_rng(1).normal(size=(400, 400))
hf_trace = float(np.trace(hf_matrix @ hf_matrix.T))
hf_frame = pd.DataFrame({"group": np.arange(10000) % 7, "value": np.arange(10000.0)})
hf_figure, hf_axes = plt.subplots(); hf_axes.plot(np.arange(10))
hf_rounds = hf_faults = 0
def hf_run():
    global hf_rounds, hf_faults
    while True:
        hf_faults += abs(float(np.trace(hf_matrix @ hf_matrix.T)) - hf_trace) > 1e-6
        hf_faults += hf_frame.groupby("group")["value"].sum().sum() != 49995000.0
        hf_rounds += 1
        time.sleep(0.02)
threading.Thread(target=hf_run, daemon=True).start()
while hf_rounds < 3: time.sleep(0.01)
"""

_SCIENCE_CHECK = """
before, patience = hf_rounds, time.monotonic() + 60
while hf_rounds < before + 5 and time.monotonic() < patience: time.sleep(0.01)
picture = io.BytesIO(); hf_axes.plot(np.arange(10) ** 2); hf_figure.savefig(picture, format="png")
good = hf_rounds >= before + 5 and not hf_faults and len(hf_axes.lines) == 2
good = good and picture.getvalue()[:4] == b"\\x89PNG"
print(f"{'ok' if good else 'not ok'}: {hf_rounds} rounds, {hf_faults} faults, a figure of {len(picture.getvalue())} bytes")
"""

_KERNEL = """
import threading, time
hf_count = 0
hf_lock = threading.Lock()
def hf_run():
    global hf_count
    while True:
        with hf_lock: hf_count += 1
        time.sleep(0.005)
threading.Thread(target=hf_run, daemon=True).start()
hf_numbers = (n * n for n in range(10**9))
hf_sum = sum(next(hf_numbers) for _ in range(1000))
"""

_KERNEL_CHECK = """
before, patience = hf_count, time.monotonic() + 60
while hf_count < before + 10 and time.monotonic() < patience: time.sleep(0.01)
good = hf_count >= before + 10 and hf_sum == 332833500 and next(hf_numbers) == 1000000
print(f"{'ok' if good else 'not ok'}: a thread counts on to {hf_count}, a generator goes on")
"""

PROGRAMS = (
    Program(
        name="python-threads",
        family=_FAMILY,
        does="8 threads with a queue, a condition and thread-local counters; each round's sum is checked",
        start="exec python3 $INSIDE/threads.py",
        ready="begun state",
        check=(Run("steady state"),),
    ),
    Program(
        name="python-asyncio",
        family=_FAMILY,
        does="asyncio: a server and 4 clients on loopback, timers, an executor, a child that echoes, short children",
        start="exec python3 $INSIDE/coroutines.py",
        ready="begun state",
        check=(Run("steady state"),),
    ),
    Program(
        name="python-multiprocessing",
        family=_FAMILY,
        does="workers with shared memory, semaphores, a lock, a barrier; a pool; a fork server",
        start="exec python3 $INSIDE/processes.py",
        ready="begun state",
        check=(Run("steady state 5"),),
    ),
    Program(
        name="ipykernel",
        family=_FAMILY,
        does="the session's kernel: a thread that counts, a generator half used up",
        where="cell",
        start=_KERNEL,
        ready="true",
        check=(Cell(_KERNEL_CHECK),),
    ),
    Program(
        name="ipykernel-science",
        family=_FAMILY,
        does="numpy, pandas and matplotlib in the kernel; a thread computes all along, a figure is half drawn",
        where="cell",
        start=_SCIENCE,
        ready="true",
        check=(Cell(_SCIENCE_CHECK),),
        stack="science",
    ),
    Program(
        name="pdb",
        family=_FAMILY,
        does="pdb at its prompt, in the middle of a loop",
        start="exec python3 -m pdb -c 'break 6, number == 100' -c continue $INSIDE/debugged.py 2>&1 | tee shown",
        ready="grep -q 'Pdb' shown",
        check=(
            Type("p 'total', total\n"),
            Shows(r"'total', 5050"),
            Type("next\np 'half', half\n"),
            Shows("'half', 2525"),
        ),
    ),
    Program(
        name="ipdb",
        family=_FAMILY,
        does="ipdb at its prompt, in the middle of a loop",
        start="exec python -m ipdb -c 'break 6, number == 100' -c continue $INSIDE/debugged.py",
        ready="pgrep -f 'm ipdb' && sleep 1",
        check=(
            Type("p 'total', total\n"),
            Shows(r"'total', 5050"),
            Type("next\np 'half', half\n"),
            Shows("'half', 2525"),
        ),
        stack="tools",
    ),
    Program(
        name="sqlite-wal",
        family="databases",
        does="SQLite in a transaction, write-ahead log, a reader with a view of before; committed afterwards",
        start="python3 $INSIDE/wal.py; sleep 100016",
        ready="[ -e half ]",
        check=(Run("touch go; patiently test -s verdict || bad 'it does not end'; cat verdict"),),
    ),
    Program(
        name="sqlite-journal",
        family="databases",
        does="SQLite in a transaction, rollback journal; committed afterwards, then one more transaction",
        start="python3 $INSIDE/journal.py; sleep 100017",
        ready="[ -e half ]",
        check=(Run("touch go; patiently test -s verdict || bad 'it does not end'; cat verdict"),),
    ),
)
