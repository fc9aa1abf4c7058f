"""The interpreter and the kernel that cells run in, as chosen for `new`."""

from __future__ import annotations

import pytest
from tests.integration.conftest import Cli

from holdfast.runtime.api.controller import Holdfast


@pytest.mark.thorough
def test_a_chosen_interpreter_stays_that_of_all_copies(hf: Holdfast) -> None:
    """Also after a restart, in a restore without processes, and in kernels that are opened later."""
    session = hf.new("chosen", python="/usr/bin/python3")
    code = "import os, sys; sys.executable, 'HOLDFAST_PYTHON' in os.environ"
    expected = "('/usr/bin/python3', False)"
    assert session.cell(code).text == expected
    taken = session.snapshot()
    session.kernels.open("second")
    assert session.cell(code, kernel="second").text == expected
    (copy,) = session.fork(1)
    copy.kernel.restart()
    assert copy.cell(code).text == expected
    assert taken.restore(rung="files").cell(code).text == expected


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        ("--python", "/no/python", "cannot run cells in /no/python: there is no such program in the session"),
        ("--python", "/bin/cat", "cannot run cells in /bin/cat: it is not Python"),
        ("--kernel", "fortran", "cannot start kernel fortran: the session has no such kernel, but python3"),
    ],
)
def test_a_broken_kernel_is_refused_in_one_line(
    hf: Holdfast, cli: Cli, option: str, value: str, why: str
) -> None:
    """Nothing is left behind, which the fixture sees."""
    done = cli("new", "never", option, value)
    assert done.code == 1
    assert why in done.err
    assert len([line for line in done.err.splitlines() if "cannot" in line]) == 1
    assert hf.sessions() == []
