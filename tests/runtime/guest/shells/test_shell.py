"""A real supervisor with a real bash, on this machine."""

import hashlib
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.guest.harness import Guest, Refused


def test_exit_codes_output_and_state(guest: Guest) -> None:
    """Commands run one after the other in one shell: exit codes are exact and state stays."""
    assert guest.exec("true").exit_code == 0
    result = guest.exec("printf 'out\\n'; (exit 7)")
    assert (result.output, result.exit_code) == (b"out\r\n", 7)
    assert guest.exec("echo $?").output == b"7\r\n"
    guest.exec("cd /tmp; export FORK=1; f() { echo f:$1; }; alias hi='echo hello'")
    assert guest.exec("pwd; echo $FORK; f 2").output == b"/tmp\r\n1\r\nf:2\r\n"
    assert guest.exec("hi").output == b"hello\r\n"
    assert guest.exec("no-such-command").exit_code == 127
    assert guest.exec("fi").exit_code == 2
    assert guest.exec("").exit_code == 2
    assert guest.exec("kill -9 $BASHPID & wait $!").exit_code == 137


def test_scripts_of_many_lines(guest: Guest) -> None:
    """Loops, here-documents, comments and continued lines work as in a file."""
    script = (
        "for i in 1 2\ndo\n  echo $i\ndone\n\n# comment\ncat <<'END'\n$x \\\nq\nEND\necho a \\\n  b\nfalse"
    )
    result = guest.exec(script)
    assert result.output == b"1\r\n2\r\n$x \\\r\nq\r\na b\r\n"
    assert result.exit_code == 1


def test_text_that_an_interactive_shell_would_expand(guest: Guest) -> None:
    """An exclamation mark is text, tabs do not complete, and history has the command."""
    assert guest.exec('echo "wow!" "!!" "a!b"').output == b"wow! !! a!b\r\n"
    assert guest.exec("printf '[%s]' 'a\tb'").output == b"[a\tb]"
    assert b'echo "wow!" "!!" "a!b"' in guest.exec("history").output


def test_a_command_of_a_megabyte(guest: Guest) -> None:
    """Neither one long line nor many short ones are cut."""
    text = "x" * (1 << 20)
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert expected.encode() in guest.exec(f"printf %s {text} | sha256sum").output
    lines = "0123456789 abcdef\n" * (1 << 16)
    expected = hashlib.sha256(lines.encode()).hexdigest()
    assert expected.encode() in guest.exec(f"sha256sum <<'END'\n{lines}END").output
    assert guest.exec("n=0\n" + "((n++))\n" * 30_000 + "echo $n").output == b"30000\r\n"


def test_a_hundred_megabytes_of_output(guest: Guest) -> None:
    """All of it arrives, unchanged, and the supervisor's memory stays flat."""
    size = 100_000_000
    with guest.begin("stty -opost; yes 'holdfast output' | head -c 100000000; stty opost") as connection:
        digest, seen, at = hashlib.sha256(), 0, None
        for frame in connection.frames():
            assert frame.event in ("output", "finished")
            if frame.event == "output":
                assert at in (None, frame.head["offset"])
                at = frame.head["next"]
                digest.update(frame.payload)
                seen += len(frame.payload)
    assert seen == size
    whole, rest = divmod(size, 16)
    line = b"holdfast output\n"
    assert digest.digest() == hashlib.sha256(line * whole + line[:rest]).digest()
    status = Path(f"/proc/{guest.process.pid}/status").read_text()
    assert int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) < 60_000


def test_unread_output_is_a_gap_with_a_size(guest: Guest) -> None:
    """Output over the kept amount is reported as a gap, and offsets add up."""
    guest.exec("stty -opost; head -c 280000000 /dev/zero; stty opost", id="big")
    frames = guest.ask("wait", id="big")
    gaps = [frame.head for frame in frames if frame.event == "gap"]
    output = sum(len(frame.payload) for frame in frames if frame.event == "output")
    assert len(gaps) == 1
    assert gaps[0]["offset"] == frames[0].head["offset"]
    assert gaps[0]["size"] + output == 280_000_000


def test_binary_output_and_escape_sequences(guest: Guest) -> None:
    """Every byte comes through, and so do other programs' shell integration marks."""
    result = guest.exec(
        f"stty -opost; {sys.executable} -c 'import os; os.write(1, bytes(range(256)) * 40)'; stty opost"
    )
    assert result.output == bytes(range(256)) * 40
    assert guest.exec(r"printf '\033]133;D;9\a\033]133;A\a'").output == b"\x1b]133;D;9\x07\x1b]133;A\x07"


def test_a_recording_of_marks_is_not_a_mark(guest: Guest) -> None:
    """Showing the recorded terminal again, marks and all, neither ends the command nor shows marks."""
    guest.exec("false")
    segment = guest.folder / "state/shells/main/output" / f"{0:016d}"
    result = guest.exec(f"cat {segment}; echo end; (exit 5)")
    assert result.exit_code == 5
    assert result.output.endswith(b"end\r\n")
    assert b"133;" not in result.output


@pytest.mark.parametrize(
    "settings",
    [
        "PS1= PS2= PS0=NOISE; PROMPT_COMMAND='echo NOISE; false'",
        "unset PS1 PS2",
        "PS1='$(echo NOISE)> '; PROMPT_COMMAND=('echo NOISE' 'sleep 0.05')",
        "trap ': $BASH_COMMAND' DEBUG; trap 'echo ERR >/dev/null' ERR",
        "set -o vi",
        "set -u; set -o pipefail; shopt -s extdebug",
        "exec 3>&1 2>/dev/null",
        "stty raw -echo",
        "HISTFILE=; set +o history",
        "bind 'set enable-bracketed-paste off'; bind -r '\\C-j'",
    ],
)
def test_settings_of_the_user_cannot_break_completion(guest: Guest, settings: str) -> None:
    """Whatever a user sets, results stay exact and without noise."""
    guest.exec(settings)
    result = guest.exec("echo one\n(exit 4)")
    assert (result.output.replace(b"\r", b""), result.exit_code) == (b"one\n", 4)
    assert guest.exec("if true").incomplete
    assert guest.exec("echo two").output.replace(b"\r", b"") == b"two\n"


def test_errexit_ends_the_shell_and_a_new_one_follows(guest: Guest) -> None:
    """After `set -e` a failing command ends the shell; that is its result."""
    assert guest.exec("set -e").exit_code == 0
    result = guest.exec("(exit 9)")
    assert result.shell_exited
    assert result.exit_code == 9
    assert guest.exec("echo new").output == b"new\r\n"


def test_a_result_says_that_errexit_ended_the_shell(guest: Guest) -> None:
    """In words, and only then: not after an exit, a signal, or the end of a subshell."""
    for command in ("set -e; false", "set -e\nls /nothing\necho not reached"):
        result = guest.exec(command, id="one")
        assert result.shell_exited
        assert result.message.startswith("`set -e` ended the shell")
    assert guest.ask("wait", id="one")[-1].head["message"] == result.message
    for command in (
        "set -e; exit 3",
        "exit 3",
        "set -e; kill -9 $$",
        "set -e; (exit 0); exit",
        "(set -e; false)",
    ):
        assert "message" not in guest.exec(command).finished, command
    guest.exec(
        "mkdir $HOME/../state/shells/main/control/ended; chmod 0 $HOME/../state/shells/main/control/ended"
    )
    assert guest.exec("set -e; false").shell_exited
    assert guest.exec("echo on").output == b"on\r\n"


def test_exit_and_exec_end_the_shell(guest: Guest) -> None:
    """`exit`, a program that replaces the shell, and a killed shell give a result and a new shell."""
    first = guest.shell()["pid"]
    result = guest.exec("echo bye; exit 3")
    assert result.shell_exited
    assert result.exit_code == 3
    assert result.output.startswith(b"bye\r\n")
    replaced = guest.exec("exec sh -c 'echo replaced; exit 4'")
    assert (replaced.output, replaced.exit_code, replaced.shell_exited) == (b"replaced\r\n", 4, True)
    killed = guest.exec("kill -KILL $$")
    assert (killed.exit_code, killed.signal, killed.shell_exited) == (None, signal.SIGKILL, True)
    assert replaced.start_offset > result.end_offset
    assert guest.exec("echo $$").output.strip() != str(first).encode()


def test_a_bash_that_replaces_the_shell_takes_commands(guest: Guest) -> None:
    """`exec bash` keeps the process, and commands run in it."""
    pid = guest.shell()["pid"]
    rcfile = guest.folder / "state/shells/main/bashrc"
    result = guest.exec(f"X=1; exec bash --rcfile {rcfile}")
    assert (result.exit_code, result.shell_exited) == (0, False)
    assert guest.exec("echo $$ $X").output == f"{pid}\r\n".encode()


def test_a_nested_shell_makes_no_marks(guest: Guest) -> None:
    """A shell inside the shell is a program like any other, even with the same settings."""
    rcfile = guest.folder / "state/shells/main/bashrc"
    with guest.begin(f"bash --rcfile {rcfile}", id="nested") as connection:
        guest.ask("send", b"PS1='inner> '\n")
        connection.until_output(b"2004hinner> ")
        with pytest.raises(Refused, match="nested"):
            guest.exec("echo outer")
        guest.ask("send", b"exit 6\n")
        assert connection.until("finished").head["exit_code"] == 6


@pytest.mark.parametrize("text", ["if true", "echo 'open", "cat <<END\nx", "echo $(", "f() {", "a &&"])
def test_an_incomplete_command_is_reported(guest: Guest, text: str) -> None:
    """A command that lacks its end is cancelled with a message, and the shell is ready again."""
    result = guest.exec(text)
    assert result.incomplete
    assert result.exit_code == 2
    assert re.match(r"the command is not finished \(line \d: [^)]+\)?.*: close its quotes", result.message)
    assert b">" not in result.output
    assert guest.exec("echo fine").output == b"fine\r\n"


def test_a_timeout_interrupts_and_keeps_output_and_shell(guest: Guest) -> None:
    """After a timeout the output so far is there, later lines did not run, and the shell is the same."""
    pid = guest.shell()["pid"]
    result = guest.exec("echo before\nsleep 1000\necho after\nsleep 1000", timeout=0.2)
    assert result.timed_out
    assert result.exit_code == 130
    assert result.output.startswith(b"before\r\n")
    assert b"after" not in result.output
    assert guest.exec("echo $$").output == f"{pid}\r\n".encode()


def test_a_timeout_ends_commands_that_ignore_the_interrupt(guest: Guest) -> None:
    """SIGTERM follows, then SIGKILL; the shell survives, with its background jobs."""
    guest.exec("sleep 1000 &")
    polite = guest.exec("bash -c \"trap 'echo INT' INT; while :; do sleep 1000; done\"", timeout=0.2)
    assert polite.timed_out
    assert polite.exit_code == 143
    stubborn = guest.exec("bash -c \"trap '' INT TERM; exec sleep 1000\"", timeout=0.2)
    assert stubborn.timed_out
    assert stubborn.exit_code == 137
    assert not stubborn.shell_exited
    assert b"Running" in guest.exec("jobs").output


def test_a_timeout_ends_a_loop_of_the_shell_itself(guest: Guest) -> None:
    """A loop without a process of its own is also interrupted."""
    result = guest.exec("while :; do :; done", timeout=0.2)
    assert result.timed_out
    assert not result.shell_exited


def test_a_shell_that_cannot_be_interrupted_is_replaced(guest: Guest) -> None:
    """When the shell itself ignores everything it is killed, and the result says so."""
    result = guest.exec("trap '' INT TERM; while :; do :; done", timeout=0.1)
    assert result.timed_out
    assert result.shell_exited
    assert result.signal == signal.SIGKILL
    assert guest.exec("echo alive").output == b"alive\r\n"


def test_ctrl_c_reaches_the_foreground(guest: Guest) -> None:
    """The signal operation interrupts the running command, and the rest of its lines does not run."""
    with guest.begin("echo started; sleep 1000\necho not this") as connection:
        connection.until_output(b"started")
        guest.ask("signal", signal="INT")
        finished = connection.until("finished")
    assert finished.head["exit_code"] == 130
    assert b"not this" not in guest.exec("echo ok").output


def test_ctrl_d_at_the_prompt_gives_a_new_shell(guest: Guest) -> None:
    """End of input ends the shell as it would end any; the stream continues in a new one."""
    guest.exec("true")
    first = guest.shell()["pid"]
    with guest.call("read", offset=-1, follow=True) as reader:
        guest.ask("send", b"\x04")
        reader.until_output(b"exit")
        assert guest.exec("echo back").output == b"back\r\n"
    assert guest.shell()["pid"] != first


def test_a_half_typed_line_is_replaced(guest: Guest) -> None:
    """A person's unfinished line does not become part of the command, in whatever mode the line is."""
    guest.exec("true")
    for typed in (b"rm -rf ", b"'open quote", b"\x12search", b"\x16", b"\x1b3"):
        guest.ask("send", typed)
        assert guest.exec("echo clean").output == b"clean\r\n"


def test_a_typed_command_holds_the_shell(guest: Guest) -> None:
    """While something typed runs, exec is refused and the message names it."""
    guest.exec("true")
    with guest.call("read", offset=-1, follow=True) as reader:
        guest.ask("send", b"echo begun; sleep 987\n")
        reader.until_output(b"begun\r\n")
        with pytest.raises(Refused, match="sleep 987") as caught:
            guest.exec("true")
        assert caught.value.code == "busy"
    guest.ask("signal", signal="INT")
    assert guest.exec("echo free").output == b"free\r\n"


def test_programs_read_typed_input(guest: Guest) -> None:
    """Input goes to the program in the foreground, not to the rest of the command."""
    with guest.begin("read -p 'name? ' x\necho hello $x") as connection:
        connection.until_output(b"name? ")
        guest.ask("send", b"world\n")
        connection.until_output(b"hello world")
        connection.until("finished")


def test_a_lost_client_loses_nothing(guest: Guest) -> None:
    """A command continues without its client, runs once, and can be joined by its id from any offset."""
    begun = guest.begin("echo one; read x; echo two; echo ran >>runs", id="job")
    begun.until_output(b"one")
    begun.close()
    with guest.call("exec", b"ignored: the id is known", id="job") as second:
        assert second.until_output(b"one").startswith(b"one")
        guest.ask("send", b"\n")
        finished = second.until("finished").head
    start = finished["start_offset"]
    late = guest.ask("wait", id="job", from_offset=start + 5)
    assert late[0].head["offset"] == start
    assert late[1].head["offset"] == start + 5
    assert b"".join(frame.payload for frame in late).endswith(b"two\r\n")
    assert guest.exec("cat runs").output == b"ran\r\n"
    with pytest.raises(Refused, match="no such command"):
        guest.ask("wait", id="never")


def test_the_terminal_can_be_read_without_its_marks(guest: Guest) -> None:
    """A reader gets prompt, echo and output, from any offset, and no marks."""
    guest.exec("echo visible")
    guest.exec("true")
    frames = guest.ask("read", offset=0)
    screen = b"".join(frame.payload for frame in frames)
    assert b"echo visible\r\n" in screen
    assert b"\rvisible\r\n" in screen
    assert b"133;" not in screen
    end = frames[-1].head["offset"]
    for offset in range(0, end, 7):
        assert b"133;" not in b"".join(frame.payload for frame in guest.ask("read", offset=offset))


def test_people_attach_and_type(guest: Guest) -> None:
    """Several clients see the same terminal; each can type and resize; without them the original size
    returns.
    """
    guest.exec("true")
    with guest.call("attach", rows=30, cols=100, tail=1000) as one:
        assert one.until("attached").head["rows"] == 30
        with guest.call("attach", rows=31, cols=101) as two:
            two.until("attached")
            two.send("input", b"stty size\n")
            one.until_output(b"31 101")
            two.until_output(b"31 101")
            two.send("resize", rows=50, cols=150)
            two.send("input", b"stty size\n")
            two.until_output(b"50 150")
            two.send("detach")
            assert two.until("closed").end
        assert guest.exec("stty size").output == b"30 100\r\n"
        one.send("detach")
        assert one.until("closed").end
    assert guest.exec("stty size").output == b"40 120\r\n"


def test_the_shell_is_an_ordinary_interactive_one(guest: Guest) -> None:
    """It has a terminal, job control, working signals for its programs, and no secrets in its environment."""
    assert guest.exec("tty | cut -c1-9").output == b"/dev/pts/\r\n"
    assert guest.exec("echo $-").output.strip().find(b"i") >= 0
    assert guest.exec("yes | head -1 >/dev/null; echo ${PIPESTATUS[0]}").output == b"141\r\n"
    nonce = (guest.folder / "state/shells/main/control/nonce").read_text().strip()
    assert nonce.encode() not in guest.exec("env; set").output
    assert guest.exec("cat /proc/self/oom_score_adj").output == b"500\r\n"
    assert guest.exec("sleep 1000 & sleep 1001 & jobs | wc -l; kill %1 %2").output.count(b"\r\n2\r\n") == 1
    assert guest.exec("ls -l /proc/self/fd | grep -c pts").exit_code == 0


def test_orphans_are_adopted_and_collected(guest: Guest) -> None:
    """A daemon's parent is the supervisor, and when it ends nothing is left of it."""
    result = guest.exec(
        "mkfifo fifo; (setsid sh -c 'echo $$ >daemon; read x <fifo' >/dev/null 2>&1 &)\n"
        "until [ -s daemon ]; do :; done; cat daemon"
    )
    pid = int(result.output)
    parent = guest.exec(f"awk '/PPid/{{print $2}}' /proc/{pid}/status").output
    assert parent == f"{guest.process.pid}\r\n".encode()
    guest.exec(f"echo >fifo; while [ -e /proc/{pid} ]; do :; done", timeout=30)
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("op", "args", "code"),
    [
        ("exec", {}, "invalid"),
        ("exec", {"id": "x" * 200}, "invalid"),
        ("exec", {"id": "a", "timeout": -1}, "invalid"),
        ("exec", {"id": "a", "shell": "other"}, "unknown_shell"),
        ("signal", {"signal": "STOP9"}, "invalid"),
        ("resize", {"rows": 0}, "invalid"),
        ("nonsense", {}, "unknown_op"),
        ("cell", {"id": "a", "kernel": "other"}, "unknown_kernel"),
        ("input", {}, "no_question"),
    ],
)
def test_wrong_requests_are_refused_by_name(guest: Guest, op: str, args: dict[str, Any], code: str) -> None:
    """A request that cannot be done gets one error with a code, and the supervisor continues."""
    with pytest.raises(Refused) as caught:
        guest.ask(op, **args)
    assert caught.value.code == code
    assert str(caught.value).startswith("cannot ")
    assert guest.exec("true").exit_code == 0


def test_a_command_with_nul_is_refused(guest: Guest) -> None:
    """A command that no shell could read is refused before it is tried."""
    with pytest.raises(Refused, match="NUL"):
        guest.exec(b"echo a\0b")
