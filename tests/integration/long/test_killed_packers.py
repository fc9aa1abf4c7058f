"""The process that packs is killed at many points of packing real snapshots, each of which is used then.

HOLDFAST_PACKER_KILLS sets the number of points, HOLDFAST_PACKER_SEED a different choice of them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest
from tests import packing, packing_steps

from holdfast.base import locks
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.runtime.storage import packing_request
from holdfast.snapshots import raw_cache

KILLS = int(os.environ.get("HOLDFAST_PACKER_KILLS", "24"))
SEED = int(os.environ.get("HOLDFAST_PACKER_SEED", "1"))
DIGEST = "import hashlib; hashlib.sha256(heap).hexdigest()"
NEVER = 1 << 40
INDEX = "the index of pages was missing or damaged"


def digest(session: Session) -> str | None:
    return session.cell(DIGEST, timeout=60).text


def taken(hf: Holdfast, session: Session) -> Snapshot:
    """Take a snapshot that no process packs."""
    session.cell("at = random.randrange(40) << 20; heap[at:at + (1 << 20)] = os.urandom(1 << 20)")
    assert packing.ended(hf.home)
    with locks.whole_file(packing_request.lock_of(hf.home), packing.PATIENCE):
        return session.snapshot()


def packed(hf: Holdfast, steps: int) -> subprocess.CompletedProcess[str]:
    """Pack in a process that is killed at a step."""
    command = [sys.executable, packing_steps.__file__, str(hf.home.root), str(steps)]
    return subprocess.run(command, capture_output=True, text=True, timeout=packing.PATIENCE, check=False)


@pytest.mark.timeout(120 + KILLS * 120)
def test_snapshots_survive_each_kill_of_the_packer(hf: Holdfast) -> None:
    """Verified and restored immediately; packed by the next packer, then restored from packs alone."""
    draw, session = random.Random(SEED), hf.new("parent")
    session.cell("import os, random; heap = bytearray(os.urandom(40 << 20))", timeout=60)
    taken(hf, session)
    total = int(packed(hf, NEVER).stdout)
    assert total > KILLS
    for number in range(KILLS):
        snapshot = taken(hf, session)
        at = total * number // KILLS + draw.randrange(total // KILLS) + 1
        killed = packed(hf, at)
        assert killed.returncode in (0, -signal.SIGKILL), killed.stderr
        # The index was not closed, and is made again.
        assert {found.text for found in hf.verify().findings} <= {INDEX}, at
        if number % 2:
            copy = snapshot.restore("plain")
            assert digest(copy) == digest(session), at
            copy.remove()
        assert packing.settled(hf.home), packing_request.trouble(hf.home)
        raw_cache.evict(hf.home.snapshots, 0)
        copy = snapshot.restore("packed")
        assert digest(copy) == digest(session), at
        copy.remove()
        assert hf.snapshot(snapshot.id).pack().size < 24 << 20
        snapshot.remove()
    assert hf.verify().findings == []
