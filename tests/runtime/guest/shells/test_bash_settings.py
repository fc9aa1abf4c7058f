"""The user's own settings before the first prompt of a bash: they can be hostile to ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest

Make = Callable[[str], Guest]


@pytest.fixture
def made(marks_library: Path) -> Iterator[Make]:
    """Start supervisors whose user has this .bashrc."""
    guests: list[Guest] = []

    def make(settings: str) -> Guest:
        guests.append(Guest(marks_library, home={".bashrc": settings}))
        return guests[-1]

    yield make
    for guest in guests:
        guest.stop()


@pytest.mark.parametrize(
    "settings",
    [
        "enable() { return 0; }; holdfast_marks() { return 0; }; alias enable=false holdfast_marks=false",
        "builtin() { return 0; }; unset PROMPT_COMMAND PS0; readonly PROMPT_COMMAND",
        "enable -d holdfast_marks; enable -n enable",
        "printf '\\e]133;D;9\\a\\e]133;A\\a\\e]133;B\\a'; PS1=$'\\e]133;D;9\\a> '",
        "trap ': $BASH_COMMAND' DEBUG; set -T; shopt -s extdebug",
        'set -o vi; bind -r \'\\e[9517~\'; bind \'"\\e[9517~": "NOISE"\' \'"\\e[9518~": "NOISE"\'',
        "return 7",
        "set -u; shopt -s failglob nullglob; IFS=x",
    ],
)
def test_our_settings_cannot_break_completion(made: Make, settings: str) -> None:
    guest = made(f"{settings}\n")
    result = guest.exec("echo one\n(exit 4)")
    assert (result.output, result.exit_code) == (b"one\r\n", 4)
    guest.ask("send", b"(exit 5)\r")
    assert guest.exec("echo two $?").output == b"two 5\r\n"


def test_settings_are_in_force_and_leave_no_exit_code(made: Make) -> None:
    guest = made("alias greet='echo hello'\nmine() { echo mine; }\nexport GIVEN=1\nfalse\n")
    assert guest.exec("echo $?; greet; mine; echo $GIVEN").output == b"0\r\nhello\r\nmine\r\n1\r\n"
