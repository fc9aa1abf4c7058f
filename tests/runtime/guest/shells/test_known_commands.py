"""The memory of a shell's commands, without a shell."""

from holdfast.runtime.guest.shells.known_commands import KEPT, KnownCommands
from holdfast.runtime.guest.shells.shell_fsm import Exec


def test_the_oldest_is_forgotten_and_only_the_newest_has_its_text() -> None:
    known = KnownCommands()
    commands = [Exec(str(number), number, None) for number in range(KEPT + 1)]
    for command in commands:
        known.add(command, b"text %d" % command.serial)

    assert known.find("0") is None
    assert known.find("1") is commands[1]
    assert known.text_of(commands[-1]) == b"text %d" % KEPT
    assert known.text_of(commands[1]) is None


def test_the_id_of_a_refused_command_may_be_used_again() -> None:
    known = KnownCommands()
    known.add(Exec("a", 1, None), b"")
    known.forget("a")
    known.forget("a")
    assert known.find("a") is None
