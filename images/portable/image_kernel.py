"""Turns this interpreter, of the image and of any version from 3.6 on, into a Python kernel.

It is run by `start_kernel.py`, not imported. ipykernel is the image's if it has one that works (`theirs`).
Otherwise ours is added for this process alone, at the end of `sys.path`, where it hides nothing
(`behind`), or in front if it cannot run with packages of the image (`before`).
"""

# An interpreter may be older than our rules for code.
# ruff: noqa: RUF005, UP031, UP036

import importlib.machinery
import importlib.util
import os
import sys

PLACE = "/opt/holdfast"
NEWEST_COMPILED = 12
"""The compiled packages of this minor version are for all later ones."""


class KernelFileLoader(importlib.machinery.SourceFileLoader):
    """Loads our modules without writing files next to them, which would be in each snapshot."""

    def set_data(self, *_arguments: object, **_more: object) -> None:
        """Do not keep a compiled form."""


def folders(version: tuple, gnu: bool) -> list:  # type: ignore[type-arg]
    """Return the folder of our packages for a version and a C library."""
    minor = min(version[1], NEWEST_COMPILED)
    library = "gnu" if gnu else "musl"
    packages = "python3.11" if version[1] >= 11 else "python3.8"
    return [PLACE + "/kernels/cp3%d-%s" % (minor, library), PLACE + "/kernels/" + packages]


def has_gnu() -> bool:
    """Check whether the C library is glibc: other libraries do not report a version (confstr(3))."""
    try:
        return bool(os.confstr("CS_GNU_LIBC_VERSION"))
    except (OSError, ValueError):
        return False


def finder(path: str) -> importlib.machinery.FileFinder:
    """Return a finder for one of our folders, and refuse other folders, as `sys.path_hooks` requires."""
    if not path.startswith(PLACE + "/"):
        raise ImportError(path)
    compiled = (importlib.machinery.ExtensionFileLoader, importlib.machinery.EXTENSION_SUFFIXES)
    return importlib.machinery.FileFinder(path, compiled, (KernelFileLoader, [".py"]))


def become(attempt: str, number: int, start: list, arguments: list) -> None:  # type: ignore[type-arg]
    """Become a kernel in one of the ways named above, or start the next attempt.

    `number` counts all attempts; `start` begins the command line that makes another, and `arguments` are
    the kernel's.
    """
    if sys.path[0] == "":
        del sys.path[0]
    sys.path_hooks.insert(0, finder)
    if attempt == "theirs" and importlib.util.find_spec("ipykernel") is None:
        attempt, number = "behind", number + 1
    if attempt == "behind":
        sys.path.extend(folders(sys.version_info, has_gnu()))
    elif attempt == "before":
        sys.path[:0] = folders(sys.version_info, has_gnu())
    try:
        import ipykernel.kernelapp
    except Exception as error:  # noqa: BLE001
        sys.stderr.write("no kernel in %s with packages %s: %s\n" % (sys.executable, attempt, error))
        sys.stderr.flush()
        os.execv(start[0], start + ["--attempt=%d" % (number + 1)] + arguments)  # noqa: S606
    os.environ.pop("HOLDFAST_PYTHON", None)  # was for us alone
    # SQLite refuses to write a database that a restore replaced.
    arguments = arguments + ["--HistoryManager.hist_file=:memory:"]
    if sys.version_info >= (3, 8):
        sys.path.append(PLACE + "/python")
        arguments.append("--ext=holdfast_session")
    sys.argv = ["ipykernel_launcher"] + arguments
    ipykernel.kernelapp.launch_new_instance()
