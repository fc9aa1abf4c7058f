"""`python -m bench.pytest_overhead`: the cost of `pytest --holdfast` in a run in which nothing fails.

Runs of the same trivial tests with and without the option take turns, so that other load of the machine
affects both. The session is simulated: a capture would be needed only for a failure, and there is none.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = "import pytest\n@pytest.mark.parametrize('n', range({count}))\ndef test(n): assert n >= 0\n"
SESSION = "def identity(): return {}\ndef capture(**told): raise AssertionError(told)\n"


def main() -> None:
    """Measure and print a line for each run, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=2000)
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "test_trivial.py").write_text(TESTS.format(count=given.tests))
        (path / "holdfast_session.py").write_text(SESSION)
        (path / "pytest.ini").write_text("[pytest]\n")
        run(path)  # compiles
        pairs = []
        for number in range(given.pairs):
            first, second = ("--holdfast",), ()
            times = {each: run(path, *each) for each in ((first, second) if number % 2 else (second, first))}
            pairs.append((times[first], times[second]))
            print(f"with {times[first]:.3f} s, without {times[second]:.3f} s")
    ratio = statistics.median(one / other for one, other in pairs)
    spread = statistics.stdev(other for _, other in pairs) / statistics.mean(other for _, other in pairs)
    print(f"median ratio {ratio:.4f} of {len(pairs)} pairs; runs without it differ by {spread:.1%} (sigma)")


def run(folder: Path, *options: str) -> float:
    """Return the seconds of processor time that one run takes."""
    before = os.times()
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
