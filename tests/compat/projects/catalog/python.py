"""Projects in Python: suites of pytest and of unittest."""

from __future__ import annotations

from tests.compat.projects.project import Project

_PYTHON = "/srv/compat/env/bin/python"

PROJECTS = (
    Project(
        name="jinja2",
        kind="python",
        does="its suite with pytest",
        fetch="sdist jinja2; pip_env pytest trio .",
        version="sed -n 's/^Version: //p' PKG-INFO",
        run=f"{_PYTHON} -m pytest -p no:cacheprovider --junitxml=junit.xml tests",
        reads="junit",
        result="junit.xml",
    ),
    Project(
        name="click",
        kind="python",
        does="its suite with pytest: command lines, prompts, files, completion",
        fetch="sdist click; pip_env pytest .",
        version="sed -n 's/^Version: //p' PKG-INFO",
        run=f"for n in 1 2 3; do {_PYTHON} -m pytest -p no:cacheprovider --junitxml=junit.xml tests || exit; done",
        reads="junit",
        result="junit.xml",
    ),
    Project(
        name="tornado",
        kind="python",
        does="of its suite with unittest: HTTP servers and clients, streams, WebSockets, processes, locks, queues",
        fetch="sdist tornado; pip_env .",
        version="sed -n 's/^Version: //p' PKG-INFO",
        run=f"""
            {_PYTHON} -m tornado.test --verbose $(printf 'tornado.test.%s_test ' httpserver iostream process websocket \
                netutil locks queues ioloop gen tcpclient simple_httpclient)""",
        reads="unittest",
    ),
)
