"""The options of the pytest plugin, for every run of pytest where the package is installed.

It stands alone and imports pytest alone: what `--holdfast` needs is loaded when that is given. A session has
no package, and there the plugin brings its options itself.
"""

from __future__ import annotations

import pytest

MOST = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("holdfast", "captures of failing tests (Holdfast)")
    group.addoption(
        "--holdfast",
        action="store_true",
        help="capture the session at each failing test; a thawed copy waits there in a debugger (--pdbcls)",
    )
    group.addoption(
        "--holdfast-max",
        type=int,
        default=MOST,
        metavar="N",
        help=f"capture at most this many failing tests per run; {MOST} by default",
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Load the rest, if it is asked for."""
    if config.getoption("holdfast"):
        from holdfast.runtime.pytest_plugin import holdfast_pytest

        holdfast_pytest.pytest_configure(config)
