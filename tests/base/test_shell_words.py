"""Words that shells of all kinds read as they were, tried with the real ones."""

from __future__ import annotations

import shlex
import subprocess

import pytest

from holdfast.base import shell_words

WORDS = [
    *(
        "",
        "plain",
        "two words",
        "it's",
        "'",
        "\\",
        "a\\b",
        "\\'",
        "\\\\n",
        "\\n",
        "'\\''",
        "=ls",
        "=",
        "%self",
        "%",
    ),
    *(
        "$HOME",
        "`id`",
        "!!",
        "~",
        "*",
        "{a,b}",
        "a;b|c&d",
        "(x)",
        "#c",
        '"',
        "tab\there",
        "line\nline",
        "-n",
        "ü",
        "^x",
    ),
]


@pytest.mark.parametrize("shell", ["sh", "bash", "zsh", "fish"])
def test_each_shell_reads_the_same_words(shell: str) -> None:
    text = shell_words.join(["printf", "%s\\0", *WORDS])
    done = subprocess.run([shell, "-c", text], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == WORDS


def test_python_also_reads_them() -> None:
    assert shlex.split(shell_words.join(WORDS)) == WORDS


def test_words_that_need_no_care_are_as_anyone_would_type_them() -> None:
    assert shell_words.join(["make", "-C", "a b", "x=1"]) == "make -C 'a b' x=1"
