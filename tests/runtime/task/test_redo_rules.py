"""The actions that are repeated, skipped, or last; and results that count as different."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.runtime.api.redo_snapshot import Redo
from holdfast.runtime.task.redo_rules import RedoneAction, RedoOptions, difference, fate
from holdfast.runtime.task.stated_actions import StatedAction, output_digest

MAKE = StatedAction("#4", 1.0, "agent", "command", "make", place="main", result=0, output_digest="00ab")
PLAIN = RedoOptions()


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (MAKE, ("repeat", "")),
        (replace(MAKE, kind="cell"), ("repeat", "")),
        (replace(MAKE, kind="job", place="server", result=None), ("repeat", "")),
        (replace(MAKE, key="deploy-1"), ("skip", "it was sent with key deploy-1, to run once")),
        (replace(MAKE, result=None), ("skip", "it had not ended")),
        (replace(MAKE, kind="files_out"), ("skip", "it changed nothing in the session")),
        (replace(MAKE, kind="files_in"), ("stop", "its files came from outside, and were not recorded")),
        (replace(MAKE, kind="missing"), ("stop", "entries of the journal are no longer kept here")),
        (
            replace(MAKE, text="curl -H [scrubbed: github token]"),
            ("stop", "a secret was removed from its text"),
        ),
        (replace(MAKE, cut=True), ("stop", "its text was recorded only in part")),
        (replace(MAKE, typed=1), ("stop", "it was given input, which is not repeated")),
        (
            replace(MAKE, kind="run"),
            ("stop", ("only a short text is recorded of a program run without a shell")),
        ),
        (replace(MAKE, place="second"), ("stop", "there is no shell second in a new session")),
    ],
)
def test_only_faithfully_repeatable_commands_are_repeated(
    action: StatedAction, expected: tuple[str, str]
) -> None:
    assert fate(action, PLAIN) == expected


def test_the_caller_decides_on_single_entries_and_keys() -> None:
    """An entry that cannot be repeated can be left out; a key can be said to be repeatable."""
    cut = replace(MAKE, cut=True, key="k")
    assert fate(cut, RedoOptions(skip=("#4",))) == ("skip", "left out on request")
    assert fate(replace(MAKE, key="k"), RedoOptions(repeat=("k",)))[0] == "repeat"
    assert fate(cut, RedoOptions(repeat=("k",)))[0] == "stop"
    assert fate(replace(MAKE, key="k"), RedoOptions(repeat=("other",)))[0] == "skip"


@pytest.mark.parametrize(
    ("result", "digest", "expected"),
    [
        (0, "00ab", ""),
        (0, "00ac", "its output differs"),
        (1, "00ab", "it ended with 1, and had ended with 0"),
        (None, "00ab", "it ended with no exit code, and had ended with 0"),
        (0, "", ""),
    ],
)
def test_another_exit_code_or_output_is_a_difference(result: int | None, digest: str, expected: str) -> None:
    """An unknown output does not count."""
    assert difference(MAKE, result, digest, PLAIN) == expected


def test_outputs_that_differ_by_nature_can_be_left_uncompared() -> None:
    only = RedoOptions(exit_codes=True)
    assert difference(MAKE, 0, "00ac", only) == ""
    assert difference(MAKE, 3, "00ab", only) != ""
    assert difference(replace(MAKE, output_digest=""), 0, "00ac", PLAIN) == ""
    assert difference(replace(MAKE, kind="job", result=137), None, "", PLAIN) == ""


def test_a_cell_is_compared_without_its_number() -> None:
    """Nor by its traceback, which has the number; an error by its name and value."""

    def digest(number: int, value: str, **more: object) -> str:
        shown = {"output_type": "execute_result", "execution_count": number, "data": {"text/plain": value}}
        failed = {"output_type": "error", "ename": "E", "evalue": value, "traceback": [f"Cell In[{number}]"]}
        return output_digest("cell_ended", {"outputs": [shown, failed], **more})

    assert digest(1, "2") == digest(7, "2") != digest(1, "3")
    assert digest(1, "2", outputs_cut=True) == ""
    assert output_digest("cell_ended", {"outputs": "x"}) == output_digest("cell_ended", {}) == ""
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert output_digest("cell_ended", {"outputs": deep}) == ""


def test_a_redo_is_complete_if_every_repeated_command_agrees() -> None:
    def made(*fates: str, left: int = 0) -> Redo:
        return Redo("s", "a" * 12, "", "fresh", tuple(RedoneAction(MAKE, each) for each in fates), left)  # type: ignore[arg-type]

    assert made("same", "skipped").complete
    assert not made("same", left=1).complete
    assert not made("same", "differs").complete
    assert not made("stopped").complete
