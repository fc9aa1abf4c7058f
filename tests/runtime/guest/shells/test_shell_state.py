"""A shell's own record of its state: parsed from bytes, and written by a real bash on this machine."""

import os
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest

from holdfast.runtime.guest.shells.shell_state import (
    MAX_BYTES,
    ShellState,
    ShellVariable,
    StateFile,
    parse,
    read,
)


def state_of(guest: Guest) -> ShellState:
    """Return the state as the shell wrote it at the end of its last command."""
    found = parse((guest.folder / "state/shells/main/control/state").read_bytes())
    assert found is not None
    return found


def written(guest: Guest) -> tuple[int, int]:
    """Return a value that differs when the file was written again."""
    status = (guest.folder / "state/shells/main/control/state").stat()
    return status.st_ino, status.st_ctime_ns


RECORDS = (
    ("holdfast", "1", "", "0:0000000000000000", "=7"),
    ("c", "", "", "0:0000000000000000", "=/srv"),
    ("u", "", "", "0:0000000000000000", "=0027"),
    ("v", "A", "x", "3:00000000000000aa", "=a\nb"),
    ("v", "LONG", "", "4000:00000000000000bb", ""),
    ("v", "list", "ax", "2:00000000000000cc", ""),
    ("f", "go", "x", "9:00000000000000dd", "=() { :; }"),
    ("l", "ll", "", "5:00000000000000ee", "=ls -l"),
    ("end", "7", "", "0:0", ""),
)


def encoded(records: tuple[tuple[str, ...], ...] = RECORDS) -> bytes:
    return "".join(f"{one}\0" for record in records for one in record).encode()


def test_the_agreed_form_is_read() -> None:
    """Every kind of record becomes what it stands for; the environment is the exported, known part."""
    state = parse(encoded())

    assert state is not None
    assert (state.pid, state.cwd, state.umask, state.cut) == (7, "/srv", 0o027, False)
    assert state.variables["A"] == ShellVariable("A", "x", 3, "00000000000000aa", "a\nb")
    assert state.variables["LONG"].value is None
    assert state.exported() == {"A": "a\nb", "BASH_FUNC_go%%": "() { :; }"}
    assert state.aliases["ll"].value == "ls -l"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"nonsense",
        encoded()[:-1],
        encoded(RECORDS[:-1]),
        encoded((*RECORDS[:3], RECORDS[-1])),
        encoded(RECORDS[1:]),
        encoded((RECORDS[0], ("v", "A", "x", "-3:0", "=a"), ("end", "1", "", "0:0", ""))),
        encoded((RECORDS[0], ("v", "A", "x", "3:" + "0" * 99, "=a"), ("end", "1", "", "0:0", ""))),
        encoded((RECORDS[0], ("q", "A", "x", "3:0", "=a"), ("end", "1", "", "0:0", ""))),
        b"\0" * MAX_BYTES,
        b"\xff" * 100,
    ],
)
def test_malformed_state_is_ignored(data: bytes) -> None:
    """The folder belongs to the user: an incomplete or malformed file is not believed."""
    assert parse(data) is None


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """A link, a pipe, a folder, a huge file and nothing at all: none is followed, waited for or loaded."""
    (tmp_path / "real").write_bytes(encoded())
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 40)

    assert read(tmp_path / "real") == encoded()
    for name in ("link", "pipe", "folder", "huge", "nothing"):
        assert read(tmp_path / name) is None
    # A folder in the place of the file cannot be removed, and must not keep a shell from starting.
    StateFile(tmp_path / "folder").begin({})


def test_without_a_state_the_kernel_is_asked(tmp_path: Path) -> None:
    """For a shell other than bash, the directory is the process's own and the environment the initial one."""
    file = StateFile(tmp_path / "state")
    file.begin({"GIVEN": "1"})
    (tmp_path / "state").write_bytes(encoded())

    assert file.cwd() == "/"
    file.pid = os.getpid()
    assert file.state() == ShellState()
    assert file.cwd() == str(Path.cwd())
    assert file.exported() == {"GIVEN": "1"}


def test_variables_of_every_kind(guest: Guest) -> None:
    """At the end of a command its variables, functions, aliases and directory are in the file."""
    guest.exec(
        "cd /usr; umask 027; export EXP='a b'; plain=1; declare -r CONST=c; declare -i num=3; list=(a b c)\n"
        "declare -A map=([k]=v [l]=w); declare -n ref=plain; declare -x nothing; f() { echo f; }\n"
        "g() { echo g; }; export -f g; alias hi='echo hello'"
    )
    state = state_of(guest)

    assert (state.cwd, state.umask) == ("/usr", 0o027)
    shown = {
        name: (one.attributes, one.size, one.value)
        for name, one in state.variables.items()
        if name in ("EXP", "plain", "CONST", "num", "list", "map", "ref", "nothing")
    }
    assert shown == {
        "EXP": ("x", 3, "a b"),
        "plain": ("", 1, "1"),
        "CONST": ("r", 1, "c"),
        "num": ("i", 1, "3"),
        "list": ("a", 3, None),
        "map": ("A", 2, None),
        "ref": ("n", 5, "plain"),
    }
    assert set(state.functions) == {"f", "g"}
    assert state.aliases["hi"].value == "echo hello"
    exported = state.exported()
    assert (exported["EXP"], exported["PWD"]) == ("a b", "/usr")
    assert exported["BASH_FUNC_g%%"].startswith("() {")
    assert "plain" not in exported
    assert guest.exec('env -i "$BASH" -c :').exit_code == 0


def test_every_change_is_seen(guest: Guest) -> None:
    """A changed element, body or long value has a different digest; an unset one has none."""
    before = (
        "list=(1 2 3); declare -A map=([a]=1); long=$(printf %5000s x); f() { echo one; }; alias q=a; gone=1"
    )
    after = "list[1]=5; map[a]=2; long=${long/x/y}; f() { echo two; }; alias q=b; unset gone"
    guest.exec(before)
    first = state_of(guest)
    guest.exec(after)
    second = state_of(guest)

    for name in ("list", "map", "long"):
        assert first.variables[name].size == second.variables[name].size
        assert first.variables[name].digest != second.variables[name].digest
    assert first.functions["f"].digest != second.functions["f"].digest
    assert (first.aliases["q"].value, second.aliases["q"].value) == ("a", "b")
    assert "gone" in first.variables
    assert "gone" not in second.variables


def test_a_function_among_many_that_is_defined_again(guest: Guest) -> None:
    """With hundreds of functions, where not all are printed each time, a change of one is still seen."""
    guest.exec('for i in {1..300}; do eval "f$i() { echo $i; }"; done')
    first = state_of(guest)
    guest.exec("f150() { echo x; }; unset -f f7")
    second = state_of(guest)

    assert len(first.functions) == 300
    changed = {name for name in second.functions if first.functions[name] != second.functions[name]}
    assert changed == {"f150"}
    assert set(first.functions) - set(second.functions) == {"f7"}


def test_hostile_values(guest: Guest) -> None:
    """Newlines, escape sequences, bytes that are not text and names of records stay values."""
    guest.exec("x=$'a\\nend\\nv\\n=1\\e[31m'; y=$'\\xff\\xfe'; export z=\"=$(printf %70000s x)\"; e=")
    state = state_of(guest)

    assert state.variables["x"].value == "a\nend\nv\n=1\x1b[31m"
    assert state.variables["y"].value == "\udcff\udcfe"
    assert (state.variables["z"].size, state.variables["z"].value) == (70001, None)
    assert state.variables["e"].value == ""


def test_a_large_environment_is_cut_and_says_so(guest: Guest) -> None:
    """The file stays bounded whatever a shell holds."""
    guest.exec('for i in {1..40}; do export "big$i=$(printf %60000s x)"; done')
    state = state_of(guest)

    assert state.cut
    assert (guest.folder / "state/shells/main/control/state").stat().st_size < MAX_BYTES
    assert guest.exec("unset ${!big*}").exit_code == 0
    assert not state_of(guest).cut


def test_only_a_change_is_written(guest: Guest) -> None:
    """Commands that change nothing leave the file alone, though some of bash's variables always change."""
    guest.exec("x=1")
    before = written(guest)
    guest.exec("echo $RANDOM $SECONDS $EPOCHREALTIME $BASHPID; (exit 3); true | false")
    guest.exec("ls / >/dev/null")
    assert written(guest) == before
    guest.exec("x=2")
    assert written(guest) != before


def test_subshells_and_nested_shells_write_nothing(guest: Guest) -> None:
    """Changes in another process are not part of the shell's state."""
    guest.exec("x=outer")
    before = written(guest)
    rcfile = guest.folder / "state/shells/main/bashrc"
    guest.exec("(x=inner; cd /usr); x=inner bash -c 'y=1'; echo $(x=inner)")
    with guest.begin(f"bash --rcfile {rcfile}", id="nested") as connection:
        guest.ask("send", b"PS1='inner> '; x=nested\n")
        connection.until_output(b"2004hinner> ")
        guest.ask("send", b"exit\n")
        connection.until("finished")
    assert state_of(guest).variables["x"].value == "outer"
    assert written(guest)[0] == before[0]


def test_typed_commands_and_new_shells(guest: Guest) -> None:
    """A typed line also changes the state; after the shell's end the state is the new shell's."""
    guest.exec("x=1")
    with guest.call("attach", rows=24, cols=80) as terminal:
        terminal.until("attached")
        terminal.send("input", b"x=typed; cd /usr; echo do''ne\n")
        terminal.until_output(b"done")
    assert guest.exec("true").exit_code == 0
    assert (state_of(guest).variables["x"].value, state_of(guest).cwd) == ("typed", "/usr")

    first = state_of(guest).pid
    guest.exec("exit 0")
    guest.exec("new=1")
    state = state_of(guest)
    assert state.pid != first
    assert "x" not in state.variables
    assert state.variables["new"].value == "1"


def test_a_shell_that_replaced_itself(guest: Guest) -> None:
    """`exec bash` keeps the pid and has a state of its own."""
    rcfile = guest.folder / "state/shells/main/bashrc"
    guest.exec("x=1; export y=2")
    guest.exec(f"exec bash --rcfile {rcfile}")
    guest.exec("z=3")
    state = state_of(guest)
    assert "x" not in state.variables
    assert (state.variables["y"].value, state.variables["z"].value) == ("2", "3")


def test_a_folder_that_cannot_be_written_disturbs_nothing(guest: Guest) -> None:
    """Where the state cannot be written, commands end as they should, and it is written when possible."""
    control = guest.folder / "state/shells/main/control"
    guest.exec("x=1")
    (control / "state.new").mkdir()
    assert guest.exec("x=2; (exit 5)").exit_code == 5
    assert state_of(guest).variables["x"].value == "1"
    (control / "state.new").rmdir()
    assert guest.exec("true").exit_code == 0
    assert state_of(guest).variables["x"].value == "2"
