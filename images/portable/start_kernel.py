"""Starts a Python kernel in the image's interpreter if that has ipykernel, else in our own.

The interpreter is the one that `python` or `python3` names in the session. This process becomes it, so that
its PID is the kernel's from the start.
"""

import os
import shutil
import sys
from pathlib import Path

HERE = Path("/opt/holdfast")
OWN = str(HERE / "bin" / "python")
# Runs in the image's interpreter, of any version. SQLite refuses to write a database that a restore replaced.
# Variables such as PYTHONHOME are the image's, and not for our own interpreter (-E).
BECOME = """
import os, sys
own, shared = sys.argv[1:3]
arguments = sys.argv[3:]
try:
    import ipykernel.kernelapp
except Exception:
    os.execv(own, [own, "-E", "-m", "ipykernel_launcher"] + arguments)
arguments.append("--HistoryManager.hist_file=:memory:")
if sys.version_info >= (3, 9):
    sys.path.append(shared)
    arguments.append("--ext=holdfast_session")
sys.argv = ["ipykernel_launcher"] + arguments
if sys.path[0] == "":
    del sys.path[0]
ipykernel.kernelapp.launch_new_instance()
"""


def main() -> None:
    """Become the kernel."""
    arguments = sys.argv[1:]
    for name in ("python", "python3"):
        found = shutil.which(name)
        if found is not None and not Path(found).resolve().is_relative_to(HERE):
            try:
                os.execv(found, [found, "-c", BECOME, OWN, str(HERE / "python"), *arguments])  # noqa: S606
            except OSError:
                continue
    os.execv(OWN, [OWN, "-E", "-m", "ipykernel_launcher", *arguments])  # noqa: S606


main()
