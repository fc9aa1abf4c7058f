"""A real supervisor with a real zsh, on this machine: the same exact ends and exit codes as with bash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, Refused

Make = Callable[..., Guest]


@pytest.fixture
def made(marks_library: Path) -> Iterator[Make]:
    """Start supervisors whose user has these files."""
    guests: list[Guest] = []

    def make(**home: str) -> Guest:
        files = {f".{name}": text for name, text in home.items()}
        guests.append(Guest(marks_library, home=files, shell="zsh"))
        return guests[-1]

    yield make
    for guest in guests:
        guest.stop()


@pytest.fixture(scope="module")
def zsh(marks_library: Path) -> Iterator[Guest]:
    rc = "PS1='me%# '\nalias greet='echo hello'\nmine() { echo mine-$1; }\n"
    running = Guest(marks_library, home={".zshrc": rc, ".zshenv": "export FROM_ENV=1\n"}, shell="zsh")
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("echo hi", "hi", 0),
        ("false", "", 1),
        ("(exit 7)", "", 7),
        ("greet; mine 1; echo $FROM_ENV", "hello\nmine-1\n1", 0),
        ("echo $ZSH_VERSION | cut -c1", "5", 0),
        ("f() { echo f-$1 }\nf a\nalias q='echo Q'\nq b # comment !! !x\nfalse", "f-a\nQ b", 1),
        ("cat <<'X'\n$a \\\nb\nX", "$a \\\nb", 0),
        ("for i in 1 2\ndo\n  echo $i\ndone", "1\n2", 0),
        ("echo a \\\n  b", "a b", 0),
        ("print -n partial", "partial", 0),
        ("return 5", "", 5),
        ("sleep 60 &\nkill $!\nwait $! 2>/dev/null", None, 143),
        ("sh -c 'kill -9 $$'", None, 137),
        ("setopt monitor; sleep 0.1 & fg 2>/dev/null", None, 0),
        ("! true", "", 1),
        ("", "", 0),
        ("stty size", "40 120", 0),
        ("printf '\\033]133;D;9\\a\\033]133;A\\a'", "\x1b]133;D;9\x07\x1b]133;A\x07", 0),
    ],
)
def test_output_and_exit_codes(zsh: Guest, command: str, output: str | None, code: int) -> None:
    result = zsh.exec(command)
    assert result.exit_code == code
    if output is not None:
        assert result.output.replace(b"\r", b"").decode().rstrip("\n") == output


def test_a_commands_effects_are_there_for_the_next(zsh: Guest) -> None:
    zsh.exec(
        "cd /usr; x=1; typeset y=2; export Z=3; g() { echo g }; alias later='echo late'; setopt nullglob"
    )
    result = zsh.exec("echo $x$y$Z; g; later; echo none*; pwd; (exit 4)")
    assert result.output == b"123\r\ng\r\nlate\r\n\r\n/usr\r\n"
    assert (result.exit_code, result.cwd) == (4, "/usr")
    assert zsh.exec("echo $?").output == b"4\r\n"
    zsh.exec("unsetopt nullglob; cd")


@pytest.mark.parametrize(
    "text", ["for i in", "echo 'abc", "if true; then", "cat $(echo", "f() {", "fi", "echo ) x"]
)
def test_faulty_and_unfinished_text_ends_at_once(zsh: Guest, text: str) -> None:
    """Zsh reads a command from a file, so it asks for no more."""
    result = zsh.exec(text)
    assert result.exit_code not in (0, None)
    assert b"parse error" in result.output or b"unmatched" in result.output
    assert zsh.exec("echo still").output == b"still\r\n"


def test_texts_are_not_judged_by_the_grammar_of_bash(zsh: Guest) -> None:
    assert zsh.exec("for x (1 2) echo $x").exit_code == 0
    assert not zsh.exec("(exit 2)").finished.get("message")
    with pytest.raises(Refused, match="cannot check the text: the shell is zsh"):
        zsh.ask("check_syntax", b"for x (1 2) echo $x")


def test_a_command_of_a_megabyte(zsh: Guest) -> None:
    """It is shown at the prompt with its first lines only."""
    result = zsh.exec("x='" + "a\n" * 500_000 + "'; echo $#x")
    assert result.output == b"1000000\r\n"


def test_a_command_that_takes_too_long_is_interrupted(zsh: Guest) -> None:
    """A program, a builtin, or a loop of either; the text after it does not run."""
    for command in ("sleep 1000", "while true; do :; done", "while true; do /bin/true; done"):
        result = zsh.exec(f"{command}\necho not reached", timeout=0.5)
        assert (result.exit_code, result.timed_out) == (130, True)
        assert b"not reached" not in result.output
    assert zsh.exec("echo free").output == b"free\r\n"


def test_a_question_is_noticed_and_answered(zsh: Guest) -> None:
    with zsh.begin("read 'name?name? '; echo hello $name") as asking:
        assert asking.until("waiting").head["state"]["prompt"].strip() == "name?"
        zsh.ask("send", b"ada\r")
        assert asking.until("finished").head["exit_code"] == 0
    assert zsh.exec("echo $name").output == b"ada\r\n"


def test_a_person_types_between_commands(zsh: Guest) -> None:
    """Their commands are in the journal with exit codes, and the shell is free afterwards."""
    zsh.exec("cd /tmp")
    zsh.ask("send", b"typed=yes; (exit 6)\r")
    assert zsh.exec("echo $? $typed").output == b"6 yes\r\n"
    zsh.ask("send", b"if true\r")  # it asks for more
    zsh.ask("send", b"then typed=more; fi\r")
    assert zsh.exec("echo $typed").output == b"more\r\n"
    zsh.ask("send", b"half a line")
    assert zsh.exec("echo whole").output == b"whole\r\n"


def test_exit_ends_the_shell_and_a_new_one_follows(zsh: Guest) -> None:
    zsh.exec("here=1")
    ended = zsh.exec("exit 3")
    assert (ended.exit_code, ended.shell_exited) == (3, True)
    assert zsh.exec("echo -$here-").output == b"--\r\n"


SETTINGS = [
    "precmd_functions=() preexec_functions=() zshaddhistory_functions=(); zle -D zle-line-init",
    "zle -N zle-line-init mine; mine() { echo NOISE >/dev/null }; zle -N zle-line-finish mine",
    "emulate ksh",
    "emulate sh",
    "setopt ksharrays shwordsplit noclobber globsubst nounset pipefail warncreateglobal",
    "bindkey -v; bindkey -d",
    "bindkey -e; KEYTIMEOUT=1",
    "alias builtin=false .=false print=false; print() { false }; zf_rm() { false }",
    "PS1=$'%{\\e]133;D;9\\a%}$(echo NOISE)> '; RPS1=right; setopt promptsubst",
    "precmd() { false }; preexec() { echo -n }; TRAPZERR() { : }; chpwd() { : }",
    "exec 3>&1 2>/dev/null",
    "ZLE_RPROMPT_INDENT=0; PROMPT_EOL_MARK=; setopt promptsp",
    "HISTFILE=; setopt histignorespace sharehistory banghist",
    "IFS=x; typeset -r REPLY=fixed",
    "umask 777",
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_settings_of_the_user_cannot_break_completion(made: Make, settings: str) -> None:
    """In a file that is read at the start, and in the shell itself."""
    for guest in (made(zshrc=f"{settings}\n"), made()):
        guest.exec(settings)
        result = guest.exec("echo one\n(exit 4)")
        assert (result.output.replace(b"\r", b""), result.exit_code) == (b"one\n", 4)
        guest.ask("send", b"(exit 5)\r")
        assert guest.exec("echo two $?").output.replace(b"\r", b"") == b"two 5\n"


def test_files_elsewhere_are_found(made: Make, tmp_path: Path) -> None:
    """A variable or the user's first file can name the folder; children see it unchanged."""
    (tmp_path / ".zshrc").write_text("from=there\n")
    guest = made(zshenv=f"ZDOTDIR={tmp_path}\nsetopt norcs\n")
    assert guest.exec("echo $from $ZDOTDIR").output == f"there {tmp_path}\r\n".encode()
    assert (
        made(zshrc="from=home\n").exec("echo $from ${ZDOTDIR-unset} ${(t)ZDOTDIR}").output
        == b"home unset\r\n"
    )


def test_another_shell_in_its_place_is_named(made: Make) -> None:
    guest = made()
    assert guest.exec("true").exit_code == 0
    with guest.call("exec", b"exec sh -c 'echo there; exec cat'", id="another") as another:
        another.until_output(b"there")
        with pytest.raises(Refused, match=r"the shell is now (dash|sh|cat)"):
            guest.exec("true")


def test_exported_variables_reach_jobs_and_programs(made: Make) -> None:
    guest = made()
    guest.exec("export GIVEN=yes; inner=no")
    state = (guest.folder / "state/shells/main/control/state").read_bytes()
    assert b"v\0GIVEN\0x\0" in state
    assert b"inner" not in state
