"""A program written for E2B, unchanged, on a machine of your own: files, commands, code, and copies.

    holdfast image build data
    holdfast serve    # in another terminal, until it says `serving …`
    export E2B_API_URL=http://127.0.0.1:8420 E2B_SANDBOX_URL=http://127.0.0.1:8420
    export E2B_API_KEY=e2b_$(cat ~/.local/state/holdfast/server-token)
    python examples/e2b_migration.py

Without the variables it runs in E2B's cloud.
"""

from __future__ import annotations

from e2b_code_interpreter import Sandbox

NUMBERS = "1\n2\n3\n"


def main() -> None:
    with Sandbox.create(timeout=300) as sandbox:
        sandbox.files.write("/home/user/numbers", NUMBERS)
        counted = sandbox.commands.run("wc -l < /home/user/numbers")
        print(f"lines: {counted.stdout.strip()}")
        sandbox.run_code("numbers = [int(line) for line in open('/home/user/numbers')]")
        # Each copy has the variable: the kernel was copied while it ran.
        for factor, copy in enumerate(sandbox.fork(count=2), start=2):
            found = copy.run_code(f"sum(each * {factor} for each in numbers)")
            print(f"times {factor}: {found.text}")
            copy.kill()


if __name__ == "__main__":
    main()
