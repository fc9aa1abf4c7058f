"""A program for E2B, unchanged, on sandboxes of this machine; then a copy of one, with its variables.

holdfast serve &
export E2B_API_URL=http://127.0.0.1:8420 E2B_SANDBOX_URL=http://127.0.0.1:8420
export E2B_API_KEY=e2b_$(cat ~/.local/state/holdfast/server-token)
pip install e2b-code-interpreter
python examples/e2b_migration.py
"""

from __future__ import annotations

from e2b_code_interpreter import Sandbox


def main() -> None:
    with Sandbox.create() as sandbox:
        sandbox.files.write("/tmp/numbers.txt", "1\n2\n3\n")
        sandbox.run_code("numbers = [int(line) for line in open('/tmp/numbers.txt')]")
        print("sum:", sandbox.run_code("sum(numbers)").text)
        for copy in sandbox.fork(count=2):  # what the unmodified client has for it
            print("in a copy:", copy.run_code("numbers.append(4); sum(numbers)").text)
            copy.kill()
        print("still:", sandbox.run_code("sum(numbers)").text)


if __name__ == "__main__":
    main()
