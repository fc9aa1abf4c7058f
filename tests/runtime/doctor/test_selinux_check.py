"""doctor's findings about engines that label containers."""

from __future__ import annotations

from holdfast.engine.machine_facts import security_options
from holdfast.runtime.doctor.doctor import selinux_check


def test_an_engine_that_labels_containers_is_reported_as_not_tried() -> None:
    """With the setting that changes it; not every host that has SELinux has such an engine."""
    (found,) = selinux_check(
        security_options({"SecurityOptions": ["name=seccomp,profile=default", "name=selinux"]})
    )

    assert not found.ok
    assert "untested" in found.detail
    assert "selinux-enabled" in found.hint


def test_other_engines_have_no_such_line() -> None:
    assert selinux_check(security_options({"SecurityOptions": ["name=apparmor", "name=seccomp"]})) == []
