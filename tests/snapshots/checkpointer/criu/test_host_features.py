"""The checkpointer's report about its machine."""

from __future__ import annotations

import pytest

from holdfast.snapshots.checkpointer.criu.host_features import cpu_flags, vdso

HYBRID = """processor\t: 0
model name\t: Some  Processor @ 2.0GHz
flags\t\t: fpu sse avx2 avx512f

processor\t: 1
model name\t: Another
flags\t\t: fpu sse avx2
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU part\t: 0xd0c\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HYBRID, ("Some Processor @ 2.0GHz", ["avx2", "fpu", "sse"])),
        (ARM, ("", ["asimd", "fp", "sve"])),
        ("", ("", [])),
    ],
)
def test_only_features_of_every_processor_count(text: str, expected: tuple[str, list[str]]) -> None:
    """A program can be moved from one to another at any time."""
    assert cpu_flags(text) == expected


def test_the_functions_of_the_vdso_are_found() -> None:
    """Each within the code, and no second names."""
    found = vdso()
    assert any("gettime" in name for name in found["symbols"])
    assert all(name.startswith("__") and 0 < at < found["code"] for name, at in found["symbols"].items())
    assert found["data"] > 0
