"""The first process of a session finds in its container the files that the images put there."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import pytest

from holdfast.images import build
from holdfast.images.build import IMAGES


@pytest.mark.parametrize("kind", ["session", "portable"])
def test_a_supervisor_of_this_version_knows_past_runs(kind: str) -> None:
    """By the file that the first process looks for before it starts one again."""
    source = (IMAGES / "toolbox" / "init.c").read_text()
    (named,) = re.findall(r'#define KNOWS_PAST "/opt/holdfast/([^"]+)"', source)
    assert named in {str(PurePosixPath(name)) for name in build.context(kind, {}).files}
