"""The verdict of a check is read from output to which a shell can add lines."""

from tests.compat.programs import verdict


def test_the_last_verdict_counts() -> None:
    """Earlier ones are of functions that a check called."""
    assert verdict.read("ok: one\nnot ok: two\n").said == "two"
    assert not verdict.read("ok: one\nnot ok: two\n").ok
    assert verdict.read("not ok: one\nok: two\n").ok


def test_noise_of_the_shell_is_not_a_verdict() -> None:
    """Job control prints before and after; colors and carriage returns are removed."""
    found = verdict.read("[1] 12\r\n\x1b[32mok: all is well\x1b[0m\r\n[1]+  Done   sleep\r\n")
    assert (found.ok, found.said) == (True, "all is well")


def test_a_missing_verdict_is_a_bad_one() -> None:
    """And quotes what was printed instead."""
    found = verdict.read("bash: nothing: command not found\n\n")
    assert not found.ok
    assert "command not found" in found.said
    assert "nothing" in verdict.read("").said


def test_text_of_the_program_is_made_safe_to_show() -> None:
    """A hostile program cannot write to the terminal of a reader of the table."""
    found = verdict.read("ok: \x1b]0;title\x07 fine\x08" + "x" * 1000)
    assert "\x1b" not in found.said
    assert len(found.said) <= verdict.LONGEST
