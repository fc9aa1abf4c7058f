"""The acceptance suite of real projects, in small: equal ends pass, differences are reported.

The real projects need packages and minutes: `make test-compat`. Python, a C compiler and SQLite are in every
session.
"""

from __future__ import annotations

import pytest
from tests.compat.projects import running
from tests.compat.projects.outcome import Outcome
from tests.compat.projects.project import Project

from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.thorough

# Draws a moment in the first half of the run, which lasts some seconds: to prepare a capture takes one on a
# busy machine.
SEED = 5
ATTEMPTS = 3
"""If the disk stalls, a command may end before its capture begins; such a run proves nothing."""

SUITE = """
import hashlib, queue, socket, sqlite3, subprocess, tempfile, threading, time, unittest

def work(seconds):
    until, found = time.monotonic() + seconds, b""
    while time.monotonic() < until:
        found = hashlib.sha256(found).digest()

class Kept(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.left, cls.right = socket.socketpair()
        cls.queue = queue.Queue()
        cls.database = sqlite3.connect("kept.db")
        cls.database.execute("create table t (n)")

    @classmethod
    def tearDownClass(cls):
        with open("rows", "w") as file:
            print(sqlite3.connect("kept.db").execute("select * from t").fetchall(), file=file)

def make(number):
    def test(self):
        thread = threading.Thread(target=lambda: (work(0.05), self.queue.put(number)))
        thread.start()
        self.left.send(b"%d" % number)
        with tempfile.TemporaryFile() as file:
            file.write(b"x" * number)
            self.assertEqual(file.tell(), number)
        self.database.execute("insert into t values (?)", (number,))
        self.database.commit()
        self.assertEqual(self.database.execute("select count(*) from t").fetchone(), (number + 1,))
        said = subprocess.run(["sh", "-c", "sleep 0.2; echo $0", str(number)], capture_output=True)
        self.assertEqual(int(said.stdout), number)
        self.assertEqual(self.queue.get(), number)
        self.assertEqual(self.right.recv(9), b"%d" % number)
    return test

for number in range(16):
    setattr(Kept, f"test_{number:02}", make(number))
"""
SOURCES = r"""
for i in $(seq 16); do echo "int f$i(int x) { return x + $i; }" > f$i.c; done
{ for i in $(seq 16); do echo "int f$i(int);"; done; echo 'int main(void) { return f1(0) != 1; }'; } > main.c
printf 'program: $(sort $(patsubst %%.c,%%.o,$(wildcard *.c)))\n' > Makefile
printf '\t@cc -o $@ $^ && ./$@ && echo PASS: $@\n' >> Makefile
printf '%%.o: %%.c\n\t@cc -O2 -c -o $@ $< && sleep 0.1 && echo PASS: $@\n' >> Makefile
"""
# Two kinds at once: everything around a session costs more than they do.
SUITE_AND_BUILD = Project(
    "suite-and-build",
    "python",
    "a suite with threads, processes, sockets, files and a database, while a compiler builds",
    "make -s -j2 >built & python3 -m unittest -v suite; status=$?; wait $! && exit $status",
    fetch=f"cat > suite.py <<'END'\n{SUITE}\nEND\n{SOURCES}",
    reads="unittest",
    files=("rows", "*.o", "program"),
)
# Knows that it is a copy, by its name; fails in every second run; writes something new in each run.
TELLING = Project(
    "telling",
    "c",
    "notices what happens to it",
    """
        echo >> ../count; for n in $(seq 20); do sleep 0.2; done; echo ok - $(hostname)
        [ $(($(wc -l < ../count) % 2)) = 0 ] && echo ok - flaky || echo not ok - flaky
        date +%N > date; hostname > name""",
    reads="tap",
    files=("date", "name"),
)


def tried(hf: Holdfast, project: Project) -> Outcome:
    assert project.faults() == []
    said: list[str] = []
    for _ in range(ATTEMPTS):
        [found] = running.run(hf, [project], seed=SEED, snapshots=1, say=said.append, again=0)
        if not any(each.late for each in found.captures):
            break
    assert (found.error, [each.refused for each in found.captures]) == ("", [""]), said
    assert (found.taken, found.copies) == (1, 1), said
    assert hf.sessions() == []
    assert hf.snapshots() == []
    return found


def test_a_captured_suite_and_build_end_as_usual(shared_hf: Holdfast) -> None:
    """Captured halfway, and in the copy: case by case and byte by byte."""
    found = tried(shared_hf, SUITE_AND_BUILD)
    assert found.differences == ()
    assert (found.cases, found.files, found.failing, found.unsteady) == (16, 19, 0, ())


def test_differences_in_a_copy_are_reported(shared_hf: Holdfast) -> None:
    """By case and file; cases that vary from run to run are named, and do not count as a difference."""
    found = tried(shared_hf, TELLING)
    assert not found.good
    assert [line.partition(" s: ")[2].partition(" ")[0] for line in found.differences] == [
        "case",
        "case",
        "file",
    ]
    assert sum("absent, here passed" in line for line in found.differences) == 1
    assert sum("passed, here absent" in line for line in found.differences) == 1
    assert found.unsteady == ("case flaky", "file date")
