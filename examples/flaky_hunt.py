"""A test that fails now and then, run many times from one state: the same files, the same memory.

    python examples/flaky_hunt.py

A run of the rarer kind is kept as a session, at the point where it failed.
"""

from __future__ import annotations

from holdfast import Holdfast

TEST = """
import random, sys
order = [1, 2]
random.shuffle(order)
print("order", order[0])
sys.exit(order[0] == 1)
"""


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        work.files.write("/workspace/check.py", TEST.encode())
        before = work.snapshot()
        try:
            spread = before.retry(
                "python3 check.py", 30, jobs=2, timeout=60, keep="diverging", until_differs=True
            )
            print(spread.text.partition(":")[0])
            for run in spread.runs:
                if run.kept:
                    print("kept one that", "passed" if run.passed else "failed")
                    hf.session(run.kept).remove()
        finally:
            before.remove()


if __name__ == "__main__":
    main()
