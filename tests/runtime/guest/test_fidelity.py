"""The hard cases of a shell, each in a new bash of a real supervisor."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, Refused, Result

PYTHON = sys.executable
Step = tuple[str, str, int]
"""A command, its output without carriage returns, its exit code."""

STEPS: dict[str, list[Step]] = {
    "a DEBUG trap speaks before each command": [
        ("trap 'echo DBG' DEBUG", "", 0),
        ("echo one; (exit 4)", "DBG\none\n", 4),
        ("trap - DEBUG", "DBG\n", 0),
    ],
    "ERR, RETURN and INT traps": [
        ("trap 'echo ERR' ERR; f() { trap 'echo RET' RETURN; return 3; }", "", 0),
        ("f", "RET\nERR\n", 3),
        ("trap 'echo INT' INT; kill -INT $$; echo after", "INT\nafter\n", 0),
    ],
    "set -u, -x, pipefail": [
        ("set -u", "", 0),
        ("echo $nope; echo not this", "bash: nope: unbound variable\n", 1),
        ("set -o pipefail; false | true", "", 1),
        ("set -x", "", 0),
        ("echo traced", "+ echo traced\ntraced\n", 0),
    ],
    "set -v, posix, noglob, onecmd of another shell": [
        ("set -o posix; set -f; echo *", "*\n", 0),
        ("set -r; cd /", "bash: cd: restricted\n", 1),
    ],
    "PROMPT_COMMAND that speaks, fails, reads": [
        ("PROMPT_COMMAND='echo PC; false'", "", 0),
        ("(exit 3)", "", 3),
        ("echo $?", "3\n", 0),
        ("PROMPT_COMMAND=('echo A' 'read -t 0.01 x' 'exit_code=$?')", "", 0),
        ("(exit 3)", "", 3),
    ],
    "prompts of several lines, with escapes and wide characters": [
        (r"PS1='\[\e[1m\]one\n漢字 \w\$ \[\e[0m\]$(exit 7)'; PS0='NOISE\n'", "", 0),
        ("echo 漢字é🎉; (exit 3)", "漢字é🎉\n", 3),
    ],
    "output of the shell redirected": [
        ("exec 5>&1 6>&2 >out 2>&1", "", 0),
        ("echo hidden; no-such-command", "", 127),
        ("exec >&5 2>&6", "", 0),
        ("grep -o 'hidden\\|not found' out", "hidden\nnot found\n", 0),
    ],
    "input of the shell redirected: it ends, as any bash, and a new one follows": [
        ("exec </dev/null", "", 0),
        ("echo after", "after\n", 0),
    ],
    "the C locale": [
        ("export LC_ALL=C", "", 0),
        ("echo 漢字; printf ü | wc -c", "漢字\n2\n", 0),
    ],
    "a terminal declared dumb, or not at all": [
        ("export TERM=dumb; echo one", "one\n", 0),
        ("unset TERM; echo two", "two\n", 0),
        ("echo three", "three\n", 0),
    ],
    "editing of another kind": [
        ("bind 'set editing-mode vi'; bind 'set show-mode-in-prompt on'; bind 'set keyseq-timeout 1'", "", 0),
        ("echo one; (exit 2)", "one\n", 2),
        ("bind 'set convert-meta on'; bind 'set enable-meta-key off'; echo ü", "ü\n", 0),
    ],
    "the key that takes commands bound to something else": [
        (r"""bind '"\e[9517~": "junk"' '"\e[9518~": "junk"' '"\e": "x"'""", "", 0),
        (r"bind -m emacs-standard -r '\e['", "", 0),
        ("echo one", "one\n", 0),
        (r"bind -r '\e[9517~'; bind -r '\e[9518~'", "", 0),
        ("echo two", "two\n", 0),
    ],
    "the builtin removed": [
        ("enable -d holdfast_marks; echo one", "one\n", 0),
        ("echo two; (exit 3)", "two\n", 3),
    ],
    "variables unset, all of them": [
        ("for v in $(compgen -v); do unset $v; done 2>/dev/null", "", 0),
        ("echo one; (exit 3)", "one\n", 3),
    ],
    "history turned off, refused, replayed": [
        ("HISTCONTROL=ignoreboth HISTIGNORE='*' IGNOREEOF=9; set +o history", "", 0),
        ("echo one; (exit 3)", "one\n", 3),
    ],
    "subshells, return, errors of syntax": [
        ("(echo sub; exit 9)", "sub\n", 9),
        ("f() { return 4; }; f", "", 4),
        ("echo a; )", "bash: syntax error near unexpected token `)'\n", 2),
        ("case x in", "", 2),
        ("echo fine", "fine\n", 0),
    ],
    "here-documents and odd line ends": [
        ("cat <<'A' - <<B\none\nA\ntwo $((1+1))\nB", "two 2\n", 0),
        ("echo \\", "\n", 0),
        ("echo one # comment", "one\n", 0),
        ("printf 'a\x01b\x7fc\x1b[31m' | od -An -c | tr -d ' '", "a001b177c033[31m\n", 0),
    ],
    "coprocesses and process substitution": [
        ("coproc cat; echo hi >&${COPROC[1]}; read x <&${COPROC[0]}; echo got $x >got", "[1] ?\n", 0),
        ("cat got; disown %1; kill $COPROC_PID", "got hi\n", 0),
        ("diff <(echo a) <(echo b) | tail -n 1; cat <(echo c)", "> b\nc\n", 0),
    ],
    "progress bars and no newline at the end": [
        (r"printf 'x%.0s' {1..5}; printf '\r50%%\r100%%'", "xxxxx50%100%", 0),
        ("echo next", "next\n", 0),
    ],
    "jobs ended, stopped and continued": [
        ("sleep 1000 & sleep 1001 &", "[1] ?\n[2] ?\n", 0),
        ("kill %1; wait %1; echo $?", "[1]-  Terminated              sleep 1000\n143\n", 0),
        ("kill -STOP %2; until [[ $(jobs) == *Stopped* ]]; do :; done; bg", "[2]+ sleep 1001 &\n", 0),
        ("disown %2; jobs; kill $!", "", 0),
    ],
    "no job control": [
        ("set +m", "", 0),
        ("sleep 1000 & jobs -r | wc -l; kill $!; wait; set -m; echo end", "[1] ?\n1\nend\n", 0),
    ],
    "a shell that stops itself continues": [
        ("kill -STOP $$; echo one", "one\n", 0),
        ("suspend; echo two", "two\n", 0),
    ],
    "a program that dies in raw mode": [
        (f"{PYTHON} -c 'import tty, os; tty.setraw(0); os.kill(os.getpid(), 9)'", "Killed\n", 137),
        (f"{PYTHON} -c 'import tty, os; tty.setraw(0); os._exit(3)'", "", 3),
        ("echo one", "one\n", 0),
    ],
    "the other screen, the mouse, no cursor, left behind": [
        (r"printf '\e[?1049h\e[?1000h\e[?25l\e(0'; false", "\x1b[?1049h\x1b[?1000h\x1b[?25l\x1b(0", 1),
        ("echo one", "one\n", 0),
    ],
    "the size of the terminal": [
        ("stty rows 33 cols 77", "", 0),
        ("echo $COLUMNS $LINES; tput cols; stty size", "77 33\n77\n33 77\n", 0),
        ("stty cols 5 rows 2; shopt -u checkwinsize", "", 0),
        ("echo 0123456789; (exit 3)", "0123456789\n", 3),
    ],
}  # fmt: skip
MODES = [
    "raw -echo", "-echo", "cbreak", "-icanon min 0 time 0", "-onlcr", "-isig", "-icrnl", "inlcr", "igncr",
    "olcuc", "iuclc", "tostop", "-opost", "intr x", "ixoff", "ocrnl", "onlret", "istrip", "eol x",
    "cols 1 rows 1",
]  # fmt: skip


@pytest.fixture(scope="module")
def supervisors(marks_library: Path) -> Iterator[Supervisors]:
    kept = Supervisors(marks_library)
    yield kept
    kept.stop()


@pytest.fixture
def guest(supervisors: Supervisors) -> Iterator[Guest]:
    """The same supervisor for all, a new shell for each."""
    yield supervisors.running()
    supervisors.new_shell()


class Supervisors:
    """One for all tests, and a new one after a test that left its shell in use."""

    def __init__(self, marks: Path) -> None:
        self._marks = marks
        self._running: Guest | None = None

    def running(self) -> Guest:
        if self._running is None:
            self._running = Guest(self._marks)
        return self._running

    def new_shell(self) -> None:
        """Start a new shell, silently if the test did not end its command: it has failed."""
        if self._running:
            try:
                self._running.exec("kill -KILL $$")
            except Refused:
                self.stop()

    def stop(self) -> None:
        if self._running:
            self._running.stop()
        self._running = None


def test_a_shell_in_use_is_left_to_its_test(marks_library: Path) -> None:
    """The next test does not see what one test leaves hanging."""
    supervisors = Supervisors(marks_library)
    first = supervisors.running()
    with first.begin("cat"):
        supervisors.new_shell()
    second = supervisors.running()
    try:
        assert second is not first
        assert first.process.poll() is not None
        assert second.exec("echo one").output == b"one\r\n"
        supervisors.new_shell()
        assert supervisors.running() is second
    finally:
        supervisors.stop()


def plain(result: Result) -> str:
    return result.output.replace(b"\r", b"").decode()


def matches(said: str, expected: str) -> bool:
    """A question mark stands for the number of a process."""
    lines, wanted = said.split("\n"), expected.split("\n")
    return len(lines) == len(wanted) and all(
        line.rstrip("0123456789") == want[:-1] if want.endswith("?") else line == want
        for line, want in zip(lines, wanted, strict=True)
    )


@pytest.mark.parametrize("name", STEPS)
def test_each_command_has_its_own_output_and_exit_code(guest: Guest, name: str) -> None:
    """Neither the prompt, the echo nor a different command appears in an output, whatever was set before."""
    for command, expected, code in STEPS[name]:
        result = guest.exec(command)
        assert matches(plain(result), expected), (command, plain(result))
        assert result.exit_code == code, command
        assert not result.shell_exited, command


@pytest.mark.parametrize("mode", MODES)
def test_modes_left_behind_break_nothing(guest: Guest, mode: str) -> None:
    """Whatever mode a program left the terminal in, commands run and end, with their output and exit code."""
    assert guest.exec(f"stty {mode}").exit_code == 0
    result = guest.exec("echo one\n(exit 3)")
    assert (plain(result).lower(), result.exit_code) == ("one\n", 3)
    assert guest.exec("stty sane").exit_code == 0
    assert guest.exec("echo two").output == b"two\r\n"


def test_exit_runs_its_trap_and_reports_stopped_jobs(guest: Guest) -> None:
    """The first `exit` with stopped jobs is refused by bash, as a result; the second ends the shell."""
    guest.exec(
        "trap 'echo EXITED' EXIT; sleep 1000 & kill -STOP $!; until [[ $(jobs) == *Stopped* ]]; do :; done"
    )
    refused = guest.exec("exit 5")
    assert refused.output.endswith(b"There are stopped jobs.\r\n")
    assert not refused.shell_exited
    ended = guest.exec("exit 5")
    assert (ended.output, ended.exit_code, ended.shell_exited) == (b"exit\r\nEXITED\r\n", 5, True)


def test_a_command_stopped_by_a_key_is_a_job(guest: Guest) -> None:
    """Ctrl-Z ends the command as bash reports it; it can be inspected, continued and interrupted."""
    with guest.begin("cat") as connection:
        guest.ask("send", b"typed\n")
        connection.until_output(b"typed\r\ntyped\r\n")
        guest.ask("send", b"\x1a")
        assert connection.until("finished").head["exit_code"] == 148
    assert guest.exec("jobs").output == b"[1]+  Stopped                 cat\r\n"
    with guest.begin("fg") as connection:
        connection.until_output(b"cat\r\n")
        guest.ask("send", b"again\n")
        connection.until_output(b"again\r\nagain\r\n")
        guest.ask("send", b"\x04")
        assert connection.until("finished").head["exit_code"] == 0


def test_a_loop_of_short_programs_is_interrupted(guest: Guest) -> None:
    """Wherever the loop is when the signal comes: between two programs, or in one that just ended."""
    for _ in range(8):
        with guest.begin("echo begun; while :; do /bin/true; done\necho not this") as connection:
            connection.until_output(b"begun\r\n")
            guest.ask("signal", signal="INT")
            assert connection.until("finished").head["exit_code"] == 130
    assert guest.exec("echo next").output == b"next\r\n"


def test_the_size_changes_in_the_middle_of_a_command(guest: Guest) -> None:
    """Programs see the new size immediately and get SIGWINCH; the shell knows it at its next prompt."""
    script = (
        "import os, signal; window = [signal.SIGWINCH]; signal.pthread_sigmask(signal.SIG_BLOCK, window)\n"
        "print('begun', flush=True); signal.sigwait(window); print(*os.get_terminal_size())"
    )
    with guest.begin(f'{PYTHON} -c "{script}"') as connection:
        connection.until_output(b"begun\r\n")
        guest.ask("resize", rows=33, cols=77)
        connection.until_output(b"77 33\r\n")
        connection.until("finished")
    assert guest.exec("echo $COLUMNS $LINES").output == b"77 33\r\n"
    guest.ask("resize", rows=40, cols=120)


def test_input_typed_line_by_line(guest: Guest) -> None:
    """A loop of `read` gets what is typed, and the end of it."""
    with guest.begin("while read -r x; do echo got:$x; done; echo end") as connection:
        guest.ask("send", b"one\ntwo\n\x04")
        assert b"got:one\r\ngot:two\r\nend\r\n" in connection.until_output(b"end\r\n")
        connection.until("finished")


def test_a_paste_of_several_lines_waits_for_enter(guest: Guest) -> None:
    """Pasted lines run when Enter is pressed; an `exec` before that replaces them, as any half-typed line."""
    guest.exec("true")
    guest.ask("send", b"\x1b[200~echo pasted >one\necho pasted >two\n\x1b[201~")
    assert guest.exec("ls one two 2>/dev/null; echo none").output == b"none\r\n"
    with guest.call("read", offset=-1, follow=True) as reader:
        guest.ask("send", b"\x1b[200~echo first-$((1))\necho second-$((2))\x1b[201~\r")
        reader.until_output(b"second-2\r\n")


def test_a_paste_that_never_ended_does_not_hold_the_shell(guest: Guest) -> None:
    """The person who pasted has left; the next command runs, and the pasted text does not."""
    guest.exec("true")
    guest.ask("send", b"\x1b[200~touch pasted\ntouch pas")
    assert guest.exec("ls pas* 2>/dev/null; echo none").output == b"none\r\n"


def test_output_stopped_by_a_key_resumes_for_a_command(guest: Guest) -> None:
    """Ctrl-S of a person who left does not hold the shell forever."""
    guest.exec("true")
    guest.ask("send", b"\x13")
    assert guest.exec("echo one").output == b"one\r\n"


def test_a_prompt_stopped_by_a_key_comes_for_a_command(guest: Guest) -> None:
    """Ctrl-S can come between a command and the prompt, which is then not shown."""
    guest.exec("PROMPT_COMMAND='sleep 0.3'")
    guest.ask("send", b"\x13")
    assert guest.exec("PROMPT_COMMAND=; echo one").output == b"one\r\n"


def test_output_of_jobs_between_prompts_belongs_to_no_command(guest: Guest) -> None:
    """Output of a background job while nothing runs is in the terminal, and in no command's output."""
    guest.exec("mkfifo gate; { read x <gate; echo late; } & disown")
    with guest.call("read", offset=-1, follow=True) as reader:
        guest.exec("exec 7>gate; rm gate")
        guest.ask("send", b"echo >&7\n")
        reader.until_output(b"late\r\n")
    assert guest.exec("echo next").output == b"next\r\n"


def test_a_line_of_megabytes_and_bytes_of_any_kind(guest: Guest) -> None:
    """Neither the length of a line nor its bytes matter."""
    assert guest.exec("head -c 3000000 /dev/zero | tr '\\0' x").output == b"x" * 3_000_000
    result = guest.exec("stty -opost; head -c 100000 /dev/urandom | tee random; stty opost")
    assert result.output == (guest.folder / "work" / "random").read_bytes()


def test_the_longest_command(guest: Guest) -> None:
    """Up to the size limit of a request."""
    assert guest.exec(f"printf %s {'x' * (8_380_000)} | wc -c").output == b"8380000\r\n"


@pytest.mark.parametrize(
    ("replacement", "name", "typed", "end"),
    [
        ("exec dash", "dash", b"echo is-$((1))\n", b"exit\n"),
        (f"exec {PYTHON} -q", "python", b"'is-%d' % 1\n", b"exit()\n"),
        ("exec bash --norc", "a bash that was started without its settings", b"echo is-$((1))\n", b"exit\n"),
    ],
    ids=["dash", "python", "bash"],
)
def test_a_shell_of_a_different_kind_is_a_plain_terminal(
    guest: Guest, replacement: str, name: str, typed: bytes, end: bytes
) -> None:
    """`exec` is refused immediately with the reason; typing and reading work; when it ends, bash is back."""
    with guest.begin(replacement) as connection:
        guest.ask("send", typed)
        connection.until_output(b"is-1")
        for _ in range(2):
            with pytest.raises(Refused, match=f"the shell is now {name}.*, which does not mark") as caught:
                guest.exec("echo one")
            assert caught.value.code == "impossible"
        guest.ask("send", end)
        finished = connection.until("finished").head
    assert finished["shell_exited"]
    assert guest.exec("echo back").output == b"back\r\n"


def test_a_shell_of_a_different_kind_that_was_typed(guest: Guest) -> None:
    """The same for one that no command of ours started."""
    guest.exec("true")
    with guest.call("read", offset=-1, follow=True) as reader:
        guest.ask("send", b"exec dash\n")
        guest.ask("send", b"echo is-$((1))\n")
        reader.until_output(b"is-1\r\n")
        with pytest.raises(Refused, match="the shell is now dash"):
            guest.exec("echo one")
        guest.ask("send", b"exit\n")
    assert guest.exec("echo back").output == b"back\r\n"


def test_the_files_of_a_shell_removed_by_its_user(guest: Guest) -> None:
    """They are made again: the shell continues, and so does the next one."""
    assert guest.exec(f"rm -r {guest.folder}/state/shells/main/control").exit_code == 0
    assert guest.exec("echo one").output == b"one\r\n"
    guest.exec(f"rm -r {guest.folder}/state/shells/main/control; exit")
    assert guest.exec("echo two; (exit 3)").exit_code == 3


def test_a_command_that_cannot_be_left_is_refused_and_forgotten(guest: Guest) -> None:
    """The reason is given, as on a full disk, and the shell is free once it has passed."""
    obstacles = [guest.folder / f"state/shells/main/control/command-{key}.new" for key in "78"]
    guest.exec("true")
    for obstacle in obstacles:
        (obstacle / "in the way").mkdir(parents=True)
    with pytest.raises(Refused, match="cannot be left for the shell"):
        guest.exec("echo one")
    for obstacle in obstacles:
        (obstacle / "in the way").rmdir()
        obstacle.rmdir()
    assert guest.exec("echo two").output == b"two\r\n"


@pytest.mark.parametrize(
    ("command", "signals", "codes"),
    [
        ("cat", ("INT",), {130}),
        ("cat", ("INT", "INT"), {130}),
        ("cat", ("KILL", "INT"), {130, 137}),
        ("sleep 600", ("INT", "INT"), {130}),
        ("select x in one two; do :; done", ("INT",), {130}),
    ],
)
def test_an_interrupt_ends_its_command_and_reaches_no_other(
    guest: Guest, command: str, signals: tuple[str, ...], codes: set[int]
) -> None:
    """Whenever it comes: no end of a command is lost, and the next command is whole."""
    for _ in range(12):
        with guest.begin(f"echo begun; {command}") as connection:
            connection.until_output(b"begun")
            for name in signals:
                guest.ask("signal", signal=name)
            assert connection.until("finished").head["exit_code"] in codes
        assert guest.exec("echo next").output == b"next\r\n"
