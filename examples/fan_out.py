"""Three attempts from one prepared state, side by side; the best one continues.

    python examples/fan_out.py

The preparation is done once. Each copy has its memory, files and programs, and shares what it does not
change with the others.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from holdfast import Holdfast, Session

PREPARE = "import random; random.seed(1); data = [random.gauss(3, 1) for _ in range(100_000)]"
ATTEMPTS = {
    "mean": "guess = sum(data) / len(data)",
    "median": "guess = sorted(data)[len(data) // 2]",
    "first": "guess = data[0]",
}


def attempt(session: Session, code: str) -> float:
    """Try one idea in a copy and return how far off it is."""
    found = session.cell(f"{code}\nabs(guess - 3)", timeout=60)
    return float(found.text or "inf")


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        work.cell(PREPARE, timeout=60)
        prepared = work.snapshot()
        copies = prepared.fork(len(ATTEMPTS), f"{work.name}-try")
        try:
            with ThreadPoolExecutor() as pool:
                errors = list(pool.map(attempt, copies, ATTEMPTS.values()))
            for name, error in zip(ATTEMPTS, errors, strict=True):
                print(f"{name}: off by {error:.3f}")
            best = min(zip(errors, ATTEMPTS, strict=True))[1]
            print(f"best: {best}")
        finally:
            for copy in copies:
                copy.remove()
            prepared.remove()


if __name__ == "__main__":
    main()
