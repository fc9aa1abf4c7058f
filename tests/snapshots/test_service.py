"""How the checkpointer is started."""

from __future__ import annotations

from holdfast.snapshots import service


def test_the_checkpointer_cannot_touch_the_kernel_itself() -> None:
    """No modules, no reboot or kexec, no raw hardware, no change of security modules, no device files."""
    never = {"SYS_MODULE", "SYS_BOOT", "SYS_RAWIO", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "SYSLOG", "ALL"}
    assert never.isdisjoint(service.CAPABILITIES)
