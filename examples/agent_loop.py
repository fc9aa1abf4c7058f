"""An agent's loop: a model asks for commands, a session runs them, and a mistake is taken back.

    python examples/agent_loop.py

The model here is a list of answers; put a call of yours in the place of `next_action`. All actions run in the
same shell. Before each of them, a snapshot of the session is taken, so that a bad one costs only itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast import Holdfast

ANSWERS: Iterator[str] = iter(
    [
        "export STAGE=dev; printf 'alpha\\nbeta\\n' > names.txt",
        "rm names.txt  # a mistake",
        "wc -l < names.txt; echo $STAGE",
    ]
)


def next_action(seen: str) -> str | None:
    """Return the next command for what was seen, or None at the end."""
    return next(ANSWERS, None)


def is_mistake(command: str) -> bool:
    """Judge what was done; a real agent would look at the results, or ask."""
    return "mistake" in command


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        seen = ""
        while (command := next_action(seen)) is not None:
            before = work.snapshot()
            result = work.exec(command, timeout=60)
            seen = result.plain
            print(f"$ {command}\n{seen}", end="")
            if is_mistake(command):
                work.rewind(before.id)
                print("taken back")
            before.remove()


if __name__ == "__main__":
    main()
