"""Bash's judgement of text that is not run, and the explanations in results of text it could not read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.runtime.guest.harness import Guest, Refused

from holdfast.runtime.guest.shells.shell_state import ShellState, ShellVariable
from holdfast.runtime.guest.shells.syntax import SyntaxFault, judge, options, prelude


def _checked(guest: Guest, text: str) -> tuple[int | None, bool]:
    head = guest.ask("check_syntax", text.encode())[-1].head
    return head.get("line"), head.get("incomplete", False)


TEXTS: list[tuple[str, int | None, bool]] = [
    ("echo ok", None, False),
    ("cat << EOF\n$(echo\nEOF", None, False),
    ("echo a \\", None, False),
    ("echo a # b \\", None, False),
    ("true\ncat << EOF\ntext", 3, True),
    ("echo 'open", 1, True),
    ('echo "$(echo a"', 1, True),
    ("echo `a", 1, True),
    ("for i in 1 2", 1, True),
    ("f() {\n", 1, True),
    ("true\ntrue &&", 2, True),
    ("echo first\n)\necho second", 2, False),
    ("fi", 1, False),
    ("echo !(x)", 1, False),
]


def test_text_is_checked_without_running_it(guest: Guest) -> None:
    """Bash distinguishes unfinished text from invalid text, and names the line; so does running it."""
    assert [(text, *_checked(guest, text)) for text, _, _ in TEXTS] == TEXTS
    assert [guest.exec(text).incomplete for text, _, _ in TEXTS] == [more for _, _, more in TEXTS]


def test_nothing_of_a_checked_text_runs(guest: Guest, tmp_path: Path) -> None:
    """Neither the text nor commands in the shell's environment run; the shell can be busy."""
    made = tmp_path / "made"
    guest.exec(f"export BASH_ENV={tmp_path}/env; echo 'touch {made}' > $BASH_ENV")
    guest.exec(f"echo() {{ touch {made}; }}; export -f echo; alias -- 'x=$(touch {made})'; alias \"y='`:`\"")
    with guest.begin("sleep 600"):
        for text in (f"touch {made}", f"set +n\ntouch {made}", f": $(touch {made}) <(touch {made})", "x y"):
            assert _checked(guest, text) == (None, False)
        guest.ask("signal", signal="INT")
    assert not made.exists()


def test_the_grammar_is_that_of_the_present_shell(guest: Guest) -> None:
    """Options and aliases that the shell has now count."""
    assert _checked(guest, "wenn true; then :; fi")[0] == 1
    guest.exec("shopt -s extglob; alias wenn=if; alias 'two=echo 1\necho 2'")
    assert _checked(guest, "echo !(x)") == (None, False)
    assert _checked(guest, "wenn true; then :; fi") == (None, False)
    assert _checked(guest, "true\nfi") == (2, False)
    guest.exec("shopt -u extglob expand_aliases")
    assert _checked(guest, "echo !(x)") == (1, False)
    assert _checked(guest, "wenn true; then :; fi") == (1, False)
    guest.exec("bind() { :; }; set -o posix")
    assert _checked(guest, "bad-name() { :; }") == (None, False)


def test_uncheckable_text_is_refused(guest: Guest) -> None:
    """A NUL byte is, and a shell that is not there; the largest text is read."""
    for op, payload, shell in (("invalid", b"a\0b", "main"), ("unknown_shell", b"true", "two")):
        with pytest.raises(Refused) as refused:
            guest.ask("check_syntax", payload, shell=shell)
        assert refused.value.code == op
    assert _checked(guest, "echo a\n" * (1 << 20) + "(") == ((1 << 20) + 1, True)
    assert not [name for name in guest.open_files() if "memfd" in name]


SAID = {
    "cat << EOF": (
        r"not finished \(line 1: the here-document does not end \(expected `EOF'\)\): close its quotes"
    ),
    "echo 'open": r"not finished \(line 1: unexpected EOF .*\): close its quotes",
    "echo first\n)\necho second": r"could not read all of the command: line 2: syntax error near .* `\)'",
    "if fi": r"line 1: syntax error near unexpected token `fi'",
    "(exit 2)": "$",
    "echo syntax error": "$",
    "eval 'fi'": "$",
}


def test_results_quote_text_that_bash_could_not_read(guest: Guest) -> None:
    """Also where the exit code is a later line's; a caller that joins later gets the same."""
    for number, (command, said) in enumerate(SAID.items()):
        message = guest.exec(command, id=f"c{number}").finished.get("message", "")

        assert re.search(said, message), (command, message)
        assert (said == "$") == (message == "")
    assert re.search(SAID["cat << EOF"], guest.ask("wait", id="c0")[-1].head["message"])


def test_complaints_are_judged_by_the_first() -> None:
    """Lines that are not bash's are skipped, as are warnings that mean nothing."""
    assert judge("", 1) is None
    assert judge("what\nbash: line 3: warning: odd\n", 1) is None
    assert judge("bash: line 3: syntax error: oh\u2028no\nbash: line 4: more", 2) == SyntaxFault(
        1, "oh\u2028no", incomplete=False
    )


def test_a_hostile_state_of_the_shell_only_quotes() -> None:
    """Names and values of aliases are quoted, whatever is in them."""
    state = ShellState(
        aliases={"a": ShellVariable("a", value="$(id)'\n"), "b;id": ShellVariable("b;id", value="x")}
    )

    assert prelude(state) == "alias -- 'a=$(id)'\"'\"'\n' 'b;id=x' 2>/dev/null\nset -n\n"
    assert options(ShellState()) == ["-O", "expand_aliases"]
