"""A real supervisor with a real fish, on this machine: the same exact ends and exit codes as with bash."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, Refused, Result

from holdfast.base import polling

Make = Callable[[str], Guest]


@pytest.fixture
def made(marks_library: Path) -> Iterator[Make]:
    """Start supervisors whose user has this configuration."""
    guests: list[Guest] = []

    def make(config: str = "") -> Guest:
        guests.append(Guest(marks_library, home={".config/fish/config.fish": config}, shell="fish"))
        return guests[-1]

    yield make
    for guest in guests:
        guest.stop()


@pytest.fixture(scope="module")
def fish(marks_library: Path) -> Iterator[Guest]:
    config = "alias greet='echo hello'\nfunction mine; echo mine-$argv; end\n"
    running = Guest(marks_library, home={".config/fish/config.fish": config}, shell="fish")
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("echo hi", "hi", 0),
        ("false", "", 1),
        ("sh -c 'exit 7'", "", 7),
        ("greet; mine 1", "hello\nmine-1", 0),
        ("function f; echo f-$argv; end\nf a\nalias q 'echo Q'\nq b # comment !! !x\nfalse", "f-a\nQ b", 1),
        ("for i in 1 2\n  echo $i\nend", "1\n2", 0),
        ("echo a \\\n  b", "a b", 0),
        ("printf partial", "partial", 0),
        ("return 5", "", 5),
        ("echo one | string upper", "ONE", 0),
        ("sh -c 'kill -9 $$'", None, 137),
        ("sleep 0.1 &\nwait", None, 0),
        ("not true", "", 1),
        ("nosuch-command", None, 127),
        ("stty size", "40 120", 0),
        ("printf '\\e]133;D;9\\a'", "\x1b]133;D;9\x07", 0),
    ],
)
def test_output_and_exit_codes(fish: Guest, command: str, output: str | None, code: int) -> None:
    result = fish.exec(command)
    assert result.exit_code == code
    if output is not None:
        assert result.output.replace(b"\r", b"").decode().rstrip("\n") == output


def test_a_commands_effects_are_there_for_the_next(fish: Guest) -> None:
    fish.exec("cd /usr; set x 1; set -gx Z 3; function g; echo g; end; alias later 'echo late'")
    result = fish.exec("echo $x$Z; g; later; pwd; sh -c 'echo $Z; exit 4'")
    assert result.output == b"13\r\ng\r\nlate\r\n/usr\r\n3\r\n"
    assert (result.exit_code, result.cwd) == (4, "/usr")
    assert fish.exec("echo $status").output == b"4\r\n"
    fish.exec("cd")


@pytest.mark.parametrize("text", ["for i in", "echo 'abc", "if true", "echo (echo", "end", "echo ) x"])
def test_faulty_and_unfinished_text_ends_at_once(fish: Guest, text: str) -> None:
    """Fish reads a command from a file, so it asks for no more."""
    assert fish.exec(text).exit_code not in (0, None)
    assert fish.exec("echo still").output == b"still\r\n"


def test_texts_are_not_judged_by_the_grammar_of_bash(fish: Guest) -> None:
    with pytest.raises(Refused, match="cannot check the text: the shell is fish"):
        fish.ask("check_syntax", b"begin; end")


def test_a_command_that_takes_too_long_is_interrupted(fish: Guest) -> None:
    """A program, or a loop of builtins or programs; the text after it does not run."""
    for command in ("sleep 1000", "while true; end", "while true; /bin/true; end"):
        result = fish.exec(f"{command}\necho not reached", timeout=0.5)
        assert (result.exit_code, result.timed_out) == (130, True)
        assert b"not reached" not in result.output
    assert fish.exec("echo free").output == b"free\r\n"


def test_a_question_is_noticed_and_answered(fish: Guest) -> None:
    with fish.begin("sh -c 'printf \"name? \"; read name; echo hello $name'") as asking:
        assert asking.until("waiting").head["state"]["prompt"].strip() == "name?"
        fish.ask("send", b"ada\r")
        assert asking.until("finished").head["exit_code"] == 0
    with fish.begin("read -g -P 'name? ' name") as asking:
        asking.until("waiting")
        fish.ask("send", b"ada\r")
        assert asking.until("finished").head["exit_code"] == 0
    assert fish.exec("echo $name").output == b"ada\r\n"


def test_a_person_types_between_commands(fish: Guest) -> None:
    fish.ask("send", b"set typed yes; sh -c 'exit 6'\r")
    assert fish.exec("echo $status $typed").output == b"6 yes\r\n"
    fish.ask("send", b"half a line")
    assert fish.exec("echo whole").output == b"whole\r\n"


def test_a_shell_that_ends_is_followed_by_a_new_one(fish: Guest) -> None:
    """`exit` in a command ends the command, as in any file that fish reads."""
    fish.exec("set here 1")
    assert fish.exec("exit 3; echo not reached").output == b""
    before = fish.shell()["pid"]
    killed = fish.exec("kill -9 $fish_pid; sleep 1000")
    assert killed.shell_exited is True
    assert fish.exec('echo "x$here-"').output == b"x-\r\n"
    assert fish.shell()["pid"] != before


SETTINGS = [
    "function fish_prompt; printf '\\e]133;D;9\\a> '; end; function fish_right_prompt; echo right; end",
    "fish_vi_key_bindings",
    "bind --erase --all; function fish_user_key_bindings; bind --erase --all; end",
    "function before --on-event fish_preexec; false; end; function x --on-event fish_postexec; false; end",
    "function printf; false; end; function cat; false; end; alias rm false",
    "set -gx PATH /nowhere",
    "functions --erase fish_prompt",
    "set -g fish_greeting; set -g fish_color_command red; umask 077",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_of_the_user_cannot_break_completion(made: Make, settings: str) -> None:
    """In a file that is read at the start, and in the shell itself."""
    for guest in (made(f"{settings}\n"), made("")):
        guest.exec(settings)
        result = guest.exec("echo one\n/bin/sh -c 'exit 4'")
        assert (result.output.replace(b"\r", b""), result.exit_code) == (b"one\n", 4)
        guest.ask("send", b"/bin/sh -c 'exit 5'\r")
        assert guest.exec("echo two $status").output.replace(b"\r", b"") == b"two 5\n"


SLOW_RM = """#!/bin/sh
echo begun >> {0}/begun
until [ -e {0}/go ]; do sleep 0.02; done
/bin/rm "$@"
echo $? >> {0}/removed
exit $(tail -n 1 {0}/removed)
"""


def test_an_offer_that_is_withdrawn_while_it_is_taken_is_not_confused_with_the_next(
    made: Make, tmp_path: Path
) -> None:
    """Otherwise the key of the next one would be left to the command, whose output would show it."""
    guest = made("")
    slow = tmp_path / "rm"
    slow.write_text(SLOW_RM.format(tmp_path))
    slow.chmod(0o755)
    assert guest.exec(f"set -g _holdfast_rm {slow}").exit_code == 0
    assert polling.until(lambda: guest.shell()["state"] == "prompt", 60)
    control = guest.folder / "state/shells/main/control"

    def offered() -> set[Path]:
        return set(control.glob("command-[78]"))

    # What is typed is not told before the generation has been read.
    generation = guest.folder / "state/identity/generation"
    generation.parent.mkdir(exist_ok=True)
    generation.unlink(missing_ok=True)
    os.mkfifo(generation)
    guest.ask("send", b"/bin/sh -c 'exit 5'\r")
    with guest.call("exec", b"echo two $status", id="two") as command:
        assert polling.until(offered, 60)
        first = offered()
        guest.process.send_signal(signal.SIGSTOP)
        with generation.open("w") as fifo:
            generation.unlink()
            fifo.write("0")
        assert polling.until((tmp_path / "begun").exists, 60)
        guest.process.send_signal(signal.SIGCONT)
        assert polling.until(lambda: offered() - first, 60)
        (tmp_path / "go").touch()
        result = Result(list(command.frames()))
    assert (result.output, result.exit_code) == (b"two 5\r\n", 0)
    assert (tmp_path / "removed").read_text().split() == ["1", "0"]
