"""The process group to end when no process is free."""

from __future__ import annotations

from holdfast.runtime.guest.pulse.process_lineage import ScannedProcess
from holdfast.runtime.guest.pulse.process_shortage import LEAST, ProcessCrowd, largest


def _group(number: int, members: int) -> list[ScannedProcess]:
    return [ScannedProcess(number + at, 1, number, number, 0.0) for at in range(members)]


def test_the_largest_group_is_named_with_the_command_that_ends_it() -> None:
    """The supervisor's own group is never named, nor is one of few processes."""
    table = [*_group(100, LEAST + 5), *_group(300, LEAST), *_group(500, LEAST - 1)]
    found = largest(table, {100})
    assert found == ProcessCrowd(300, LEAST, 300)
    assert found is not None
    assert found.remedy == "kill -KILL -- -300"
    assert largest(table, {100, 300}) is None
    assert largest([*_group(0, 20), *_group(1, 20)], ()) is None
