"""Facts about a kernel whose ipykernel is ours, in an interpreter of the image."""

from __future__ import annotations

import json

from holdfast.runtime.api.session import Session

PLACE = "/opt/holdfast/"

# Evaluated in the kernel.
_SEEN = f"""
import json, os, subprocess, sys
child = subprocess.run([sys.executable, "-c", "import sys; print(sys.path)"], capture_output=True, text=True)
listed = subprocess.run([sys.executable, "-m", "pip", "list"], capture_output=True, text=True)
ours = [place.startswith("{PLACE}") for place in sys.path if not place.endswith(".ipython")]
print(json.dumps([ours, child.stdout, listed.stdout, dict(os.environ)]))
"""


def completes(session: Session) -> None:
    """Check that the code completer has all its requirements."""
    code = "import jedi; [each.name for each in jedi.Interpreter('import json; json.du', [{}]).complete()]"
    assert session.cell(code).text == "['dump', 'dumps']"


def is_beside(session: Session) -> None:
    """Check that our packages are last on the kernel's path, and not in its children's."""
    ran = session.cell(_SEEN)
    assert ran.ok, ran
    ours, child, listed, variables = json.loads(ran.stdout)
    assert ours == sorted(ours)
    assert any(ours)
    assert "holdfast" not in child
    assert "ipykernel" not in listed
    assert not {"PYTHONPATH", "PYTHONHOME"} & set(variables)
    assert f"'{PLACE}kernels/" in str(session.cell("import ipykernel; ipykernel.__file__").text)
    completes(session)
    written = f"import pathlib; [*pathlib.Path('{PLACE}kernels').rglob('*.pyc')]"
    assert session.cell(written).text == "[]"
    assert session.cell("import time").ok
    ended = session.cell("time.sleep(60)", timeout=0.5)
    assert ended.status in ("timeout", "interrupted")
    assert session.cell("1 + 1").text == "2"
