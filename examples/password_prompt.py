"""A program that asks for a password: the session says so, and a copy tries an answer first.

python examples/password_prompt.py
"""

from __future__ import annotations

from holdfast import Holdfast, Session

INSTALLER = r"""
#!/bin/bash
read -rsp 'Password: ' password; echo
[[ $password == opensesame ]] && echo unlocked || { echo wrong; exit 1; }
"""


def attempt(session: Session, password: str) -> str:
    """Answer the program that waits, and return the last line it prints."""
    return session.answer(f"{password}\n").text.splitlines()[-1]


def main() -> None:
    with Holdfast() as hf, hf.new(remove=True) as work:
        work.files.write("/workspace/unlock", INSTALLER.lstrip().encode(), mode=0o755)
        asked = work.exec("./unlock", timeout=60)
        assert asked.waiting is not None
        print(f"waits for a {asked.waiting.detail}: {asked.waiting.prompt}")
        copy = work.fork(1)[0]  # the same program, waiting at the same prompt
        print("in the copy:", attempt(copy, "guess"))
        copy.remove()
        print("in the original:", attempt(work, "opensesame"))


if __name__ == "__main__":
    main()
