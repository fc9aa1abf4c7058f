"""Every program of the catalog, captured in the middle of its work, restored and forked."""

import pytest

from holdfast.runtime.controller import Holdfast
from holdfast.runtime.programs import catalog, runner

pytestmark = pytest.mark.engine

FAMILIES = list(dict.fromkeys(program.family for program in catalog.PROGRAMS))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_program_goes_on_or_is_refused_by_name(hf: Holdfast, family: str) -> None:
    """In the captured session and in four copies; nothing is left of any of it."""
    found = runner.run(hf, catalog.chosen([family]))
    assert [f"{one.program}: {one.reason}" for one in found if one.word == "red"] == []
