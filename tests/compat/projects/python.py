"""Projects in Python: suites of pytest, of unittest, and of the interpreter itself."""

from __future__ import annotations

from tests.compat.project import Project

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
    Project(
        name="cpython",
        kind="python",
        does="of the interpreter's own suite: threads, processes, sockets, signals, asyncio's tasks and locks",
        fetch="packages libpython3.13-testsuite",
        version="python3 -V",
        run="""
            /usr/bin/python3 -m test --timeout 300 --junit-xml junit.xml -j1 test_threading test_queue test_select test_poll \\
                test_signal test_socketserver test_sched test_asyncio.test_tasks test_asyncio.test_locks test_pty test_mmap \\
                test_fcntl test_subprocess""",
        reads="junit",
        result="junit.xml",
    ),
)
