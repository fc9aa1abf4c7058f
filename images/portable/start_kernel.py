"""Starts a Python kernel in an interpreter of the image, else in our own.

The interpreters are those that `python` and `python3` name in the session. This process becomes the first
that can run a kernel, so that its PID is the kernel's from the start. An attempt that fails in an interpreter
(`image_kernel.py`) ends by starting this with the number of the next.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path("/opt/holdfast")
CHOICE = "HOLDFAST_PYTHON"
"""The variable that names the only interpreter to be used."""
WAYS = ("theirs", "behind", "before")
"""How an interpreter finds ipykernel; `image_kernel.py` says what they mean."""
# Runs in an interpreter of the image, of any version: what an old one cannot read, it must not see.
BECOME = """
import os, sys
way, number, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
start, arguments = sys.argv[4:4 + count], sys.argv[4 + count:]
if sys.version_info < (3, 6):
    os.execv(start[0], start + ["--attempt=%d" % (number + 1)] + arguments)
place, names = start[-1].replace("start_kernel", "image_kernel"), {"__name__": "image_kernel"}
with open(place) as file:
    exec(compile(file.read(), place, "exec"), names)
names["become"](way, number, start, arguments)
"""


def main(arguments: list[str]) -> None:
    """Become the kernel."""
    first = 0
    if arguments and arguments[0].startswith("--attempt="):
        first = int(arguments.pop(0).partition("=")[2])
    if CHOICE in os.environ and first == 0 and not is_python(os.environ[CHOICE]):
        sys.exit(f"cannot run cells in {os.environ[CHOICE]}: it is not Python")
    start = [sys.executable, "-I", str(HERE / "start_kernel.py")]
    for number, (interpreter, way) in enumerate(attempts()):
        if number < first:
            continue
        words = [interpreter, "-c", BECOME, way, str(number), str(len(start)), *start, *arguments]
        try:
            os.execv(interpreter, words)  # noqa: S606
        except OSError:
            continue
    if CHOICE in os.environ:
        sys.exit(f"cannot run cells in {os.environ[CHOICE]}: it is not a Python that can run ipykernel")
    # Variables such as PYTHONHOME are the image's, and not for our own interpreter.
    os.execv(sys.executable, [sys.executable, "-E", "-m", "ipykernel_launcher", *arguments])  # noqa: S606


def is_python(program: str) -> bool:
    """Check the interpreter before it gets a program to run: a shell would also run that program."""
    words = [program, "-c", "print(1 + 1)"]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.stdout.strip() == b"2"


def attempts() -> Iterator[tuple[str, str]]:
    """Yield the image's interpreters, or the chosen one, each with all ways."""
    if CHOICE in os.environ:
        yield from ((os.environ[CHOICE], way) for way in WAYS)
        return
    found = (shutil.which(name) for name in ("python", "python3"))
    for interpreter in dict.fromkeys(found):
        if interpreter is not None and not Path(interpreter).resolve().is_relative_to(HERE):
            for way in WAYS:
                yield interpreter, way


if __name__ == "__main__":
    main(sys.argv[1:])
