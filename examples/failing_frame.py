"""A program that fails is captured where it fails, and a copy of it waits there in a debugger.

    python examples/failing_frame.py

`pytest --holdfast` does this for each failing test (docs/pytest.md).
"""

from __future__ import annotations

from holdfast import Holdfast

PROGRAM = """
import pdb, sys
sys.path.insert(0, "/opt/holdfast/python")
import holdfast_session

def total(rows):
    summed = 0
    for row in rows:
        summed += row
    return summed

try:
    total([1, 2, "3"])
except TypeError as error:
    if holdfast_session.capture().kind == "restored":
        pdb.post_mortem(error.__traceback__)
    print("captured")
"""


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        work.files.write("/workspace/program.py", PROGRAM.encode())
        with work.serve_captures() as serving:
            print("the program:", work.exec("python3 program.py", timeout=60).plain.strip())
        snapshot = serving.served[0].snapshot
        if snapshot is None:
            raise SystemExit(f"not captured: {serving.served[0].error}")
        copy = snapshot.restore(f"{work.name}-look")
        try:
            print("the copy:", copy.answer("p row, summed\n").plain.splitlines()[-2])
        finally:
            copy.remove()
            snapshot.remove()


if __name__ == "__main__":
    main()
