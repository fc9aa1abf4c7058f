"""A command with a key is run once: asked for again, also in a copy, it is answered with that run's result.

python examples/durable_job.py
"""

from __future__ import annotations

from holdfast import Holdfast

KEY = "build-2026-11"
COMMAND = "echo built >> log; sleep 2; wc -l < log"


def ask(name: str) -> None:
    """Ask for the job, as a program does that does not know whether it did before."""
    with Holdfast() as hf:
        done = hf.session(name).exec(COMMAND, key=KEY, timeout=60)
        print("lines in the log:", done.text.strip())


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        begun = work.exec(COMMAND, key=KEY, patience=0.5)  # this caller leaves before the end
        print("left it", "running" if begun.running else "ended")
        ask(work.name)
        snapshot = work.snapshot()
        copy = snapshot.restore(f"{work.name}-copy")
        try:
            ask(copy.name)  # a copy knows what was done before it was one
        finally:
            copy.remove()
            snapshot.remove()


if __name__ == "__main__":
    main()
