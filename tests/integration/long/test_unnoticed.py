"""The captured session does not notice: output, exit codes, signals, timers and system calls are
unaffected.
"""

from __future__ import annotations

import threading
from typing import Any

from holdfast.runtime.api.controller import Holdfast

# These return EINTR to a process that is stopped and continued, see signal(7), if they have a timeout.
INTERRUPTIBLE = {"epoll_wait", "recv", "sigtimedwait"}


def test_nothing_in_the_parent_reveals_a_capture(hf: Holdfast, witnesses: Any) -> None:
    """While three captures are made: the output of shell, job and cell is complete, short programs end
    with their own codes, no signal or timer is lost or doubled, no call fails, jobs are quiet.
    """
    session = hf.new("parent")
    witnesses.install(hf, session)
    built = session.exec(
        "cd /srv; export PYTHONPATH=/srv; gcc -O1 -o calls witness/calls.c -lpthread && mkfifo gate",
        timeout=240,
    )
    assert built.exit_code == 0, built.text
    session.exec("./calls <gate >calls.out & calls=$!; exec 7>gate", timeout=60)
    session.exec("python3 -m witness.swarm >swarm.out 2>&1 & swarm=$!", timeout=60)
    session.exec("sleep 100000 & disown; sleep 100001 &", timeout=60)
    jobs = session.exec("jobs", timeout=60).text
    job = session.detach("for i in $(seq 100000); do echo $i; done", name="lines")
    results: dict[str, Any] = {}
    going_on = {name: threading.Semaphore(0) for name in ("shell", "cell")}

    def in_shell() -> None:
        text = "for i in $(seq 120000); do echo $i; done; (exit 7)"
        results["shell"] = session.exec(text, timeout=280, on_output=lambda _: going_on["shell"].release())
        going_on["shell"].release(3)

    def in_kernel() -> None:
        code = "import time\nfor i in range(2000): print(i); time.sleep(0.002)"
        results["cell"] = session.cell(code, timeout=280, on_event=lambda _: going_on["cell"].release())
        going_on["cell"].release(3)

    threads = [threading.Thread(target=each) for each in (in_shell, in_kernel)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        for each in going_on.values():
            assert each.acquire(timeout=120)
        session.snapshot()
    for thread in threads:
        thread.join()

    assert results["shell"].text == "".join(f"{n}\n" for n in range(1, 120_001))
    assert results["shell"].exit_code == 7
    assert results["cell"].stdout == "".join(f"{n}\n" for n in range(2000))
    ended = job.wait()
    assert ended.exit_code == 0
    assert job.output().decode() == "".join(f"{n}\n" for n in range(1, 100_001))
    assert session.exec("jobs", timeout=60).text == jobs
    said = session.exec("touch /dev/shm/enough; printf .q >&7; wait $calls $swarm; echo $?", timeout=240)
    assert said.text.splitlines()[-1] == "0", said.text
    for line in session.exec("cat swarm.out", timeout=60).text.splitlines():
        assert " [] " in line, line
    for line in session.exec("cat calls.out", timeout=60).text.splitlines():
        name, made, interrupted, early = line.split()
        assert int(made) > 0, line
        assert early == "0", line
        assert interrupted == "0" or name in INTERRUPTIBLE, line


def test_clocks_of_a_copy_continue_from_the_capture(hf: Holdfast) -> None:
    """Monotonic time lacks the time in between; the time of day is current."""
    session = hf.new("parent")
    session.cell("import time\nbefore = time.monotonic(), time.time()", timeout=60)
    snapshot = session.snapshot()
    assert session.exec("sleep 1", timeout=60).exit_code == 0
    copy = snapshot.restore("copy")
    look = (
        "steady, today = time.monotonic() - before[0], time.time() - before[1]\n"
        "print(steady > 0, today - steady >= 1)"
    )
    assert copy.cell(look, timeout=60).stdout == "True True\n"
