"""The conclusions of `doctor --ci` from its checks."""

from __future__ import annotations

import pytest

from holdfast.runtime.ci import ci_host
from holdfast.runtime.guest_rpc.results import Check


def checks(*wrong: str) -> list[Check]:
    names = ("engine", "memory", "disk", "session", *ci_host.LIVE)
    return [Check(name, name not in wrong, "seen") for name in names]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ((), 0),
        (("live restore",), 3),
        (("checkpointer", "live capture"), 3),
        (("kernel features",), 3),
        (("memory",), 1),
        (("disk", "live capture"), 1),
        (("engine",), 1),
    ],
)
def test_the_exit_code_distinguishes_no_live_capture_from_failure(wrong: tuple[str, ...], code: int) -> None:
    """3 if jobs run and only their files can be kept, 1 if something is missing that every job needs."""
    assert ci_host.exit_code(checks(*wrong)) == code


def test_this_kernel_passes() -> None:
    """The features are found where captures are known to work: here."""
    assert [name for name, has in ci_host.KERNEL.items() if not has()] == []


def test_the_network_is_not_restored() -> None:
    """One verdict for all kinds of state; a session's network access has its own."""
    names = ("network", "live capture", "live restore", "terminal", "captured session")
    found = [Check(name, name not in ("network", "terminal"), "seen") for name in names]

    summary = {check.name: check for check in ci_host.summary(found)}

    assert list(summary) == ["session", "network", "live capture", "live restore", "what is restored"]
    assert [name for name, check in summary.items() if not check.ok] == ["network", "what is restored"]
    assert summary["what is restored"].detail == "differs: terminal"
