"""A session that is captured often: a snapshot takes unwritten memory from the previous one."""

from __future__ import annotations

from pathlib import Path

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

SIZE = 48 << 20
PROGRAM = f"""
import hashlib, mmap, os, random, sys
memory = mmap.mmap(-1, {SIZE}, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, {SIZE}, 1 << 20):
    memory[at : at + (1 << 20)] = os.urandom(1 << 20)
for line in sys.stdin:
    for _ in range(int(line)):
        at = random.randrange({SIZE} // 4096) * 4096
        memory[at : at + 8] = os.urandom(8)
    print(hashlib.sha256(memory).hexdigest(), flush=True)
"""


def begun(session: Session) -> None:
    """Start the program, which tells the digest of its memory after each number of changes it is given."""
    session.exec(f"cat > /srv/program.py <<'END'\n{PROGRAM}\nEND")
    session.exec("coproc program { exec python3 /srv/program.py; }")


def changed(session: Session, count: int) -> str:
    """Have the program change its memory in that many places; return the digest of it."""
    said = session.exec(
        f"echo {count} >&${{program[1]}}; read -r sum <&${{program[0]}}; echo $sum", timeout=60
    )
    return said.text.strip()


def resident(session: Session) -> int:
    """Return the bytes of the program that are in memory."""
    pages = session.exec("awk '/^VmRSS/ {print $2}' /proc/${program_PID}/status").text
    return int(pages) << 10


def unwritten(snapshot: Snapshot) -> int:
    return int(snapshot.row.details.get("unwritten") or 0)


def test_copies_have_unwritten_memory(hf: Holdfast, tmp_path: Path) -> None:
    """Whatever becomes of the snapshots before: restored, forked, verified, and brought along as a bundle.

    The second of two snapshots begins to note writes; a copy gets memory when it touches it.
    """
    session = hf.new("tracked")
    begun(session)
    changed(session, 0)
    taken = [session.snapshot()]
    for written in (10, 100, 50):
        now = changed(session, written)
        taken.append(session.snapshot())
    assert [unwritten(one) > SIZE * 9 // 10 for one in taken] == [False, False, True, True]
    last = taken.pop()
    own = last.pack().row.details["storage"]["own"]
    assert own < 8 << 20, "memory that was not written is stored once"
    for one in taken:
        one.remove()
    assert hf.verify().ok
    (fork,) = last.fork(1, "fork")
    assert resident(fork) < SIZE // 4, "memory of earlier snapshots waits as other memory does"
    for copy in (last.restore("copy"), fork, session):
        assert changed(copy, 0) == now
    bundle = tmp_path / "bundle"
    last.export(bundle)
    last.remove()
    assert changed(hf.import_(bundle).restore("back"), 0) == now
