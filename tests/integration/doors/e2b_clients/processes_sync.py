"""E2B's synchronous client handles processes: commands, their input and ends, and terminals."""

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

import httpcore
from e2b import CommandExitException, InvalidArgumentException, NotFoundException, Sandbox, TimeoutException
from e2b.sandbox.commands.command_handle import PtySize

try:  # before 2.63 some calls raise errors as they come from below
    from e2b_connect.client import ConnectException as UnmappedException
except ImportError:
    UnmappedException = NotFoundException
LATE = (TimeoutException, httpcore.ReadTimeout)  # the latter before 2.63, if the client's clock is first
checks = 0


def check(found: object, why: object) -> None:
    global checks
    assert found, why
    checks += 1


def refused(work: Callable[[], object], *kinds: type[Exception], why: str = "") -> Any:
    """The call raises one of these, with these words."""
    global checks
    try:
        found = work()
    except kinds as error:
        caught = error
    else:
        raise AssertionError(f"not refused: {found!r}")
    assert why in str(caught), caught
    checks += 1
    return caught


def until(work: Callable[[], object], seconds: float = 60) -> None:
    """It becomes true."""
    end = time.monotonic() + seconds
    while not work():
        assert time.monotonic() < end, "never came true"
        time.sleep(0.02)


def in_the_foreground(box: Any) -> None:
    run = box.commands.run
    done = run("echo out; echo err >&2")
    check((done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0), done)
    check(not done.error, done.error)
    seen: list[str] = []
    heard: list[str] = []
    run("printf 'a\nb\n'; echo c >&2", on_stdout=seen.append, on_stderr=heard.append)
    check(("".join(seen), "".join(heard)) == ("a\nb\n", "c\n"), (seen, heard))
    failed = refused(lambda: run("echo some; echo why >&2; exit 3"), CommandExitException)
    check((failed.exit_code, failed.stdout, failed.stderr) == (3, "some\n", "why\n"), failed)
    check(failed.error == "exit status 3", failed.error)
    ended = refused(lambda: run("kill -9 $$"), CommandExitException)
    check((ended.exit_code, ended.error) == (-1, "signal: killed"), (ended.exit_code, ended.error))
    check(run("echo $A-$B", envs={"A": "1", "B": "x y"}).stdout == "1-x y\n", "envs")
    check(run("echo $OF_BOX $BOTH", envs={"BOTH": "call"}).stdout == "box call\n", "envs of the sandbox")
    check(run("pwd", cwd="/tmp").stdout == "/tmp\n", "cwd")
    check(run("id -un; pwd", user="root", cwd="/").stdout == "root\n/\n", "user root")
    check(run("id -un", user="nobody").stdout == "nobody\n", "another user")
    check(run("cat; echo end").stdout == "end\n", "no input: its end at once")
    check(run("echo 'héllo ☃'").stdout == "héllo ☃\n", "characters")
    bytes_ = run(r"printf 'a\377\000\033[31m\302'").stdout
    check(bytes_ == "a\ufffd\0\033[31m\ufffd", repr(bytes_))
    line = "0123456789abcde\n"
    big = run("yes 0123456789abcde | head -c 5000000").stdout
    wanted = (line * 320_000)[:5_000_000]
    check(len(big) == 5_000_000, len(big))
    check(hashlib.sha256(big.encode()).digest() == hashlib.sha256(wanted.encode()).digest(), "5 MB exact")
    refused(lambda: run("true", cwd="/no/such"), InvalidArgumentException, why="no such directory")
    refused(lambda: run("true", user="nobody-here"), InvalidArgumentException, why="no such user")


def times(box: Any) -> None:
    run = box.commands.run
    refused(lambda: run("echo $$ > /tmp/late; sleep 1000 & wait", timeout=1), *LATE)
    gone = "! kill -0 $(cat /tmp/late) 2>/dev/null && ! pgrep -x sleep >/dev/null && echo gone || true"
    until(lambda: run(gone).stdout == "gone\n")
    check(True, "what is late is killed, with what it started")
    check(run("sleep 1; echo slow", timeout=0).stdout == "slow\n", "no limit")


def in_the_background(box: Any) -> None:
    commands = box.commands
    handle = commands.run("sleep 1000", background=True)
    (listed,) = [each for each in commands.list() if each.pid == handle.pid]
    check(
        (listed.cmd, list(listed.args[:2]), listed.tag or None) == ("/bin/bash", ["-l", "-c"], None), listed
    )
    check(commands.kill(handle.pid), "it is there to be killed")
    killed = refused(handle.wait, CommandExitException)
    check((killed.error, killed.exit_code) == ("signal: killed", -1), killed)
    check(not commands.kill(handle.pid), "it is there no more")
    check(handle.pid not in [each.pid for each in commands.list()], "nor in the list")
    handle = commands.run("echo again; exit 4", background=True)
    check(refused(handle.wait, CommandExitException).exit_code == 4, "its exit code")

    handle = commands.run("for n in 1 2 3; do echo $n; sleep 0.2; done; echo err >&2", background=True)
    handle.disconnect()
    other = commands.connect(handle.pid)
    check(other.pid == handle.pid, "the same process")
    done = other.wait()
    check((done.stdout, done.stderr, done.exit_code) == ("1\n2\n3\n", "err\n", 0), done)
    done = commands.connect(handle.pid).wait()
    check((done.stdout, done.stderr) == ("1\n2\n3\n", "err\n"), "also after its end, from its beginning")
    refused(lambda: commands.connect(999_999), NotFoundException)

    handle = commands.run("sleep 1000", background=True)
    refused(commands.connect(handle.pid, timeout=0.5).wait, *LATE)
    check(handle.kill(), "it did not end with the time of one who had connected")
    until(lambda: handle.pid not in [each.pid for each in commands.list()])
    pieces = [
        (stdout, stderr)
        for stdout, stderr, _ in commands.run("echo 1; sleep 0.3; echo 2 >&2", background=True)
    ]
    check(pieces == [("1\n", None), (None, "2\n")], pieces)


def input_(box: Any) -> None:
    commands = box.commands
    handle = commands.run("read line; echo got $line", background=True, stdin=True)
    commands.send_stdin(handle.pid, "some wörds\n")
    check(handle.wait().stdout == "got some wörds\n", "input")
    handle = commands.run("head -c 3000000 | sha256sum", background=True, stdin=True)
    data = ("0123456789\n" * 300_000)[:3_000_000]
    for start in range(0, len(data), 500_000):
        commands.send_stdin(handle.pid, data[start : start + 500_000])
    digest = hashlib.sha256(data.encode()).hexdigest()
    check(handle.wait().stdout.split()[0] == digest, "3 MB of input")
    refused(lambda: commands.send_stdin(handle.pid, "x"), NotFoundException)
    handle = commands.run("sleep 1000", background=True)
    refused(lambda: commands.send_stdin(handle.pid, "x"), InvalidArgumentException, why="input is closed")
    handle.kill()
    handle = commands.run("sleep 1000", background=True, stdin=True)
    big = "x" * 1_000_000
    refused(lambda: commands.send_stdin(handle.pid, big, request_timeout=1), *LATE)
    check(commands.run("echo well").stdout == "well\n", "others are served while one does not read")
    handle.kill()
    if hasattr(commands, "close_stdin"):  # not in 2.25
        handle = commands.run("wc -c", background=True, stdin=True)
        commands.send_stdin(handle.pid, "12345")
        commands.close_stdin(handle.pid)
        check(handle.wait().stdout == "5\n", "the end of input")
    if hasattr(handle, "send_stdin"):  # not in 2.25
        handle = commands.run("cat", background=True, stdin=True)
        handle.send_stdin(b"by the handle")
        handle.close_stdin()
        check(handle.wait().stdout == "by the handle", "input by the handle")
    if hasattr(commands, "stream_input"):  # not before 2.63
        handle = commands.run("sha256sum", background=True, stdin=True)
        parts = [b"part %d\n" % n * 1000 for n in range(100)]
        commands.stream_input(handle.pid, iter(parts))
        commands.close_stdin(handle.pid)
        check(handle.wait().stdout.split()[0] == hashlib.sha256(b"".join(parts)).hexdigest(), "a stream")
        refused(lambda: commands.stream_input(handle.pid, ["x"]), NotFoundException)


class Screen:
    """The screen of a terminal, followed by a thread."""

    def __init__(self, handle: Any) -> None:
        self.shown = b""
        self.end: Any = None
        self.handle = handle
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            self.handle.wait(on_pty=self._show)
        except Exception as error:  # noqa: BLE001 - it is looked at below
            self.end = error

    def _show(self, data: bytes) -> None:
        self.shown += data

    def until(self, text: bytes) -> None:
        until(lambda: text in self.shown)

    def ended(self) -> Any:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.end


def terminals(box: Any) -> None:
    pty = box.pty
    handle = pty.create(PtySize(rows=30, cols=90), cwd="/tmp", envs={"WORD": "kept"})
    screen = Screen(handle)
    pty.send_stdin(handle.pid, b"stty size; echo $WORD-$TERM-$((40 + 2)); pwd; id -un\n")
    for text in (b"30 90\r\n", b"kept-xterm-256color-42\r\n", b"/tmp\r\n", b"user\r\n"):
        screen.until(text)
        check(True, text)
    pty.resize(handle.pid, PtySize(rows=50, cols=132))
    pty.send_stdin(handle.pid, b"stty size\n")
    screen.until(b"50 132\r\n")
    check(handle.pid in [each.pid for each in box.commands.list()], "it is listed")
    pty.send_stdin(handle.pid, b"sleep 1000\n")
    screen.until(b"sleep 1000\r\n")
    pty.send_stdin(handle.pid, b"\x03")
    pty.send_stdin(handle.pid, b"echo still-$((1 + 1))\n")
    screen.until(b"still-2\r\n")
    check(True, "Ctrl-C interrupts what runs there only")
    again = Screen(pty.connect(handle.pid))
    again.until(b"still-2\r\n")
    check(again.shown.startswith(screen.shown[:20]), "who connects sees it from its beginning")
    if hasattr(pty, "stream_input"):  # not before 2.63
        pty.stream_input(handle.pid, [b"echo stre", b"am-$((2 + 2))\n"])
        screen.until(b"stream-4\r\n")
        check(True, "a stream of keys")
    refused(lambda: box.commands.send_stdin(handle.pid, "x"), InvalidArgumentException, why="has a terminal")
    pty.send_stdin(handle.pid, b"exit 4\n")
    check(screen.ended().exit_code == again.ended().exit_code == 4, "its exit code")
    check(not pty.kill(handle.pid), "it is there no more")
    handle = pty.create(PtySize(rows=24, cols=80), timeout=0)
    screen = Screen(handle)
    check(pty.kill(handle.pid), "it is there to be killed")
    check(screen.ended().error == "signal: killed", screen.end)
    refused(lambda: pty.resize(handle.pid, PtySize(rows=24, cols=80)), NotFoundException, UnmappedException)
    handle = box.commands.run("sleep 1000", background=True)
    wrong = (InvalidArgumentException, UnmappedException)
    refused(lambda: pty.resize(handle.pid, PtySize(rows=9, cols=9)), *wrong, why="has no terminal")
    handle.kill()


box = Sandbox.create(timeout=600, envs={"OF_BOX": "box", "BOTH": "box"})
try:
    in_the_foreground(box)
    times(box)
    in_the_background(box)
    input_(box)
    terminals(box)
finally:
    box.kill()
print(f"ok: {checks}")
