"""State that the session holds besides the suite, and the checks that all of it is still there."""

from __future__ import annotations

import ast
import secrets
import time
from dataclasses import dataclass

from bench.demo.narrator import CheckFailed, Narrator
from bench.demo.suite import FOLDER
from holdfast import Session

ARRAY_BYTES = 100_000_000
TICKS = "/workspace/ticks"
# The counters advance a hundred and ten times a second. Another program may have the processors.
PATIENCE_SECONDS = 60.0

_SHELL = f"""
cd {FOLDER}
export DEMO_TOKEN={{token}}
greet() {{{{ echo "greetings, $1, from $PWD"; }}}}
echo {{token}} > /srv/page
python3 -m http.server 8000 --directory /srv > /workspace/server.log 2>&1 &
n=0; while true; do n=$((n + 1)); echo $n >> {TICKS}; sleep 0.1; done &
curl -fsS --retry 20 --retry-delay 1 --retry-connrefused http://localhost:8000/page
"""

# The job counts in memory and writes each number to a file: if memory and files of a snapshot were of two
# moments, the numbers in the file of a restored session would have a gap or a repetition.
_KERNEL = f"""
import hashlib, threading, time, urllib.request
import numpy as np

array = np.random.default_rng().random({ARRAY_BYTES} // 8)
count = 0

def run():
    global count
    while True:
        count += 1
        time.sleep(0.01)

threading.Thread(target=run, daemon=True).start()

def checksum():
    return hashlib.sha256(array).hexdigest()

def page():
    return urllib.request.urlopen("http://127.0.0.1:8000/page", timeout=30).read().decode().strip()

def ticks():
    found = [int(line) for line in open("{TICKS}")]
    return len(found) if found == list(range(1, len(found) + 1)) else -1
"""

_LOOK = """\
pwd
echo $DEMO_TOKEN
greet you
curl -sS http://localhost:8000/page
history | grep -q 'http[.]server 8000' && echo remembered
"""


@dataclass(frozen=True, slots=True)
class Belongings:
    """The state of a session at one point; its counters can only have grown since."""

    token: str
    checksum: str
    count: int
    ticks: int

    @classmethod
    def create(cls, session: Session) -> Belongings:
        """Fill a session.

        Raises:
            CheckFailed: that did not work.
        """
        token = secrets.token_hex(8)
        done = session.exec(_SHELL.format(token=token), timeout=PATIENCE_SECONDS)
        if not done.ok:
            raise CheckFailed(f"the web server in the session does not answer: {done.text.strip()[-200:]}")
        run(session, _KERNEL)
        return cls(token, str(value(session, "checksum()")), 0, 0).now(session)

    def now(self, session: Session) -> Belongings:
        """Return the same with the current values of the counters."""
        return Belongings(self.token, self.checksum, number(session, "count"), number(session, "ticks()"))

    def check_kernel(self, session: Session, tell: Narrator) -> None:
        """Check from the kernel, whatever the shell does.

        Raises:
            CheckFailed: the state is not as it was.
        """
        found = number(session, "count")
        tell.check(found >= self.count, f"the kernel's counter goes on at {found}, from {self.count}", found)
        tell.check(moves(session, "count", found), "and keeps counting", f"it stands at {found}")
        summed = value(session, "checksum()")
        tell.check(summed == self.checksum, "the array of 100 MB has the same checksum", summed)
        page = value(session, "page()")
        tell.check(page == self.token, "the web server answers", page)
        lines = number(session, "ticks()")
        fact = f"the job's file goes on without gap or repetition, to {lines} lines from {self.ticks}"
        tell.check(lines >= self.ticks and moves(session, "ticks()", lines), fact, lines)

    def check_shell(self, session: Session, tell: Narrator) -> None:
        """Check from the shell, which must be idle.

        Raises:
            CheckFailed: the state is not as it was.
        """
        jobs = session.exec("jobs", timeout=PATIENCE_SECONDS).text
        running = [line for line in jobs.splitlines() if "Running" in line]
        both = any("http.server" in line for line in running) and any(
            "while true" in line for line in running
        )
        tell.check(both, "`jobs` lists the server and the job", jobs)
        found = session.exec(_LOOK, timeout=PATIENCE_SECONDS).text.splitlines()
        wanted = [FOLDER, self.token, f"greetings, you, from {FOLDER}", self.token, "remembered"]
        fact = "directory, exported variable, function and history are there, and curl gets the page"
        tell.check(found == wanted, fact, found)


def run(session: Session, code: str) -> None:
    """Run code in the kernel.

    Raises:
        CheckFailed: the code raises.
    """
    done = session.cell(code, timeout=PATIENCE_SECONDS)
    if not done.ok:
        raise CheckFailed(f"a cell failed: {done.error.evalue if done.error else done.status}")


def value(session: Session, expression: str) -> object:
    """Return the value of an expression in the kernel.

    Raises:
        CheckFailed: the expression raises.
    """
    done = session.cell(expression, timeout=PATIENCE_SECONDS)
    if not done.ok or done.text is None:
        raise CheckFailed(f"{expression} failed: {done.error.evalue if done.error else done.status}")
    found: object = ast.literal_eval(done.text)
    return found


def number(session: Session, expression: str) -> int:
    """Return the value of an expression that is a whole number.

    Raises:
        CheckFailed: the expression raises.
    """
    found = value(session, expression)
    if not isinstance(found, int):
        raise CheckFailed(f"{expression} is {found!r}")
    return found


def moves(session: Session, expression: str, start: int) -> bool:
    """Wait for a number in the kernel to grow; return whether it does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if number(session, expression) > start:
            return True
    return False
