"""Killed at any step, stored data stays whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# Forks a child for each step, which is killed by SIGKILL there; afterwards all must be as it was, and usable.
PROGRAM = """
import os, pathlib, random, shutil, signal, sys
from holdfast.snapshots.chunks import pack_upkeep, packing, recipe
from holdfast.snapshots.chunks.chunks import Chunks, Unpacking

root, act, kept = pathlib.Path(sys.argv[1]), sys.argv[2], {}
snapshots = root / "snapshots"
rng = random.Random(7)

def keep(name, data):
    (snapshots / name).mkdir(parents=True, exist_ok=True)
    (snapshots / name / "memory").write_bytes(data)
    with Chunks(root) as chunks:
        packing.pack(chunks, snapshots / name, name, ["memory"])

def sweep():
    with Chunks(root) as chunks, chunks.changing():
        pack_upkeep.sweep(chunks, snapshots.iterdir(), 1.0)

def back(name):
    path = snapshots / name / "again"
    path.unlink(missing_ok=True)
    with Chunks(root) as chunks:
        Unpacking(chunks).write(recipe.read(snapshots / name, name).files["memory"], path)
    return path.read_bytes()

def whole():
    for name, data in kept.items():
        assert back(name) == data, name
    with Chunks(root) as chunks:
        found = pack_upkeep.check_packs(chunks)
        assert not found.lost and not found.pages

def killed_at(step):
    left = [step]
    def hook(owner, name):
        original = getattr(owner, name)
        def call(*args, **kwargs):
            for _ in range(2):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                if _ == 0:
                    result = original(*args, **kwargs)
            return result
        setattr(owner, name, call)
    for owner, name in ((os, "fsync"), (os, "readv"), (pathlib.Path, "rename"), (pathlib.Path, "unlink"),
                        (pathlib.Path, "open"), (os, "close")):
        hook(owner, name)

first = rng.randbytes(700_000)
kept["first"] = first
keep("first", first)
kept["other"] = first[:300_000] + rng.randbytes(300_000)
keep("other", kept["other"])
step, ended = 0, False
while not ended:
    step += 1
    if act == "sweep":
        keep("gone", rng.randbytes(300_000) + first[:50_000])
        kept["half"] = rng.randbytes(200_000)
        keep("half", kept["half"] + rng.randbytes(400_000))
        keep("half", kept["half"])
        shutil.rmtree(snapshots / "gone")
    child = os.fork()
    if child == 0:
        try:
            killed_at(step)
            if act == "sweep":
                sweep()
            else:
                keep(f"new{step % 3}", rng.randbytes(step * 1000) + first)
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(3)
    status = os.waitpid(child, 0)[1]
    assert status in (0, signal.SIGKILL), status
    ended = status == 0
    whole()
    sweep()
    whole()
assert step > 10, step
packs = [path.name for path in (root / "chunks" / "packs").iterdir()]
assert not [name for name in packs if name.startswith(".")], packs
print("steps", step)
"""


@pytest.mark.parametrize("act", ["pack", "sweep"])
def test_killed_at_any_step_the_store_is_whole(tmp_path: Path, act: str) -> None:
    """By kill -9 before and after each call that changes the disk: nothing is lost, nothing half is seen."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), act], capture_output=True, text=True, timeout=240
    )

    assert done.returncode == 0, done.stderr
    assert "steps" in done.stdout
