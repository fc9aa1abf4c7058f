"""The library that is preloaded into CRIU: examined by the compiler, and parts of it run under sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.images.build import IMAGES, PACKAGE

GUARD = PACKAGE / "snapshots" / "checkpointer" / "guard"
SOURCES = (*sorted(GUARD.glob("*.c")), IMAGES / "toolbox" / "init.c", IMAGES / "session" / "keeper.c")
EXAMINED = ("-O2", "-fPIC", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wformat=2", "-fanalyzer")
SANITIZED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
COUNTER = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "guard.h"

/* Writes the fdinfo in a file as CRIU is shown it. */
int main(int argc, char **argv)
{
	char text[4096];
	int shown = marked_counter(open(argv[argc - 1], O_RDONLY));
	ssize_t size = read(shown, text, sizeof(text));

	return size < 0 || fwrite(text, 1, (size_t)size, stdout) != (size_t)size;
}
"""
WATCHES = """
#include <fcntl.h>
#include "guard.h"

/* The length of a file as an argument is the most that is read of a report of watches, and more. */
int main(int argc, char **argv)
{
	note_watches(open(argv[argc - 1], O_RDONLY));
	return 0;
}
"""

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def _built(tmp_path: Path, main: str, *sources: Path) -> Path:
    """Return a program made of parts of the library, which ends with an error where a sanitizer finds one."""
    source, program = tmp_path / "main.c", tmp_path / "program"
    source.write_text(main)
    words = ["gcc", *SANITIZED, f"-I{GUARD}", "-o", program, source, *sources, GUARD / "guard_control.c"]
    subprocess.run([*map(str, words), "-ldl"], check=True)
    return program


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_compiler_has_nothing_to_say(source: Path) -> None:
    """Its analyzer follows each function along all of its paths."""
    examined = subprocess.run(
        ["gcc", *EXAMINED, "-Werror", "-c", "-o", "/dev/null", source],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (examined.returncode, examined.stderr) == (0, "")


@pytest.mark.parametrize(
    ("info", "shown"),
    [
        ("eventfd-count:                5\neventfd-semaphore: 1\n", "80000005"),
        ("eventfd-count:                5\neventfd-semaphore: 0\n", None),
        ("eventfd-count:         ffffffff\neventfd-semaphore: 1\n", None),
        ("pos:\t0\n", None),
        ("eventfd-count:", None),
        (f"eventfd-count:                5\n{'x' * 2000}\neventfd-semaphore: 1\n", None),
    ],
)
def test_a_semaphore_is_shown_with_one_bit_more(tmp_path: Path, info: str, shown: str | None) -> None:
    """All else is shown as the kernel wrote it."""
    program = _built(tmp_path, COUNTER, GUARD / "guard_counters.c")
    (tmp_path / "fdinfo").write_text(info)

    done = subprocess.run([program, tmp_path / "fdinfo"], capture_output=True, text=True, check=True)

    assert done.stdout == (info if shown is None else info.replace("       5", shown.rjust(8)))


def test_a_report_of_watches_beyond_the_most_is_cut(tmp_path: Path) -> None:
    """No memory is used after it was moved."""
    inodes = tmp_path / "guard_inodes.c"
    source = (GUARD / "guard_inodes.c").read_text()
    inodes.write_text(source.replace("256 << 20", "1 << 17"))
    assert inodes.read_text() != source
    program = _built(tmp_path, WATCHES, inodes)
    (tmp_path / "fdinfo").write_bytes(b"inotify wd:1\n" * 50_000)

    subprocess.run([program, tmp_path / "fdinfo"], check=True)
