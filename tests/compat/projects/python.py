"""Projects in Python: suites of pytest, of unittest, and of the interpreter itself."""

from __future__ import annotations

from tests.compat.project import Project

PROJECTS = (
    Project(
        name="jinja2",
        kind="python",
        does="its suite with pytest",
        fetch="sdist jinja2; pip_env pytest trio .",
        version="sed -n 's/^Version: //p' PKG-INFO",
        run="/srv/compat/env/bin/python -m pytest -p no:cacheprovider --junitxml=junit.xml tests",
        reads="junit",
        result="junit.xml",
    ),
)
