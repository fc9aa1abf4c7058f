"""The tabs of the documentation: one task on the command line, in Python, and over HTTP; each can be used."""

from __future__ import annotations

import ast
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from tests.runtime.cli.test_help_pages import LEAVES, typed

from holdfast import Holdfast, Session, Snapshot
from holdfast.base.home import Home
from holdfast.runtime.api.session_files import SessionFiles
from holdfast.runtime.cli.grammar import Words
from holdfast.runtime.serve import server_app
from holdfast.runtime.serve.callers import Callers

DOCS = Path(__file__).parents[1] / "docs"
TABS = ("Command line", "Python", "HTTP")
PAGES = ("files", "lineage", "network", "pulse")
OWNERS = {"hf": Holdfast, "work": Session, "before": Snapshot, "work.files": SessionFiles}
"""The names in the Python of a tab, and what has their attributes."""


def tabs(page: str) -> dict[str, str]:
    """Return the code of each tab of a page by the tab's title; each has one."""
    text = (DOCS / f"{page}.md").read_text()
    found = re.findall(r'^=== "(.+)"\n\n((?:    .*\n|\n)+)', text, re.M)
    return {
        title: re.sub(r"```\w*\n(.*?)```\n?", r"\1", textwrap.dedent(body), flags=re.S)
        for title, body in found
    }


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    """Return the application of the server, of which only the paths are used."""
    return server_app.inner(Callers(Home(tmp_path_factory.mktemp("home")), lambda _: None))


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_all_three(page: str) -> None:
    """In the same order on each page."""
    assert tuple(tabs(page)) == TABS


@pytest.mark.parametrize("page", PAGES)
def test_the_command_line_takes_its_lines(page: str) -> None:
    """Verb and options of each are there."""
    lines = re.findall(r"^\$ holdfast (.*)$", tabs(page)["Command line"], re.M)
    assert len(lines) >= 2
    for line in lines:
        words = typed(line)
        assert Words(LEAVES[words[0]], words[1:]).values()


def calls(code: str) -> Iterator[tuple[str, str]]:
    """Yield owner and name of each method that is called."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield ast.unparse(node.func.value), node.func.attr


@pytest.mark.parametrize("page", PAGES)
def test_the_methods_of_python_exist(page: str) -> None:
    """On the handles that they are called on."""
    found = list(calls(tabs(page)["Python"]))
    assert len(found) >= 2
    for owner, name in found:
        assert hasattr(OWNERS[owner], name), f"{owner}.{name}"


@pytest.mark.parametrize("page", PAGES)
def test_the_server_has_the_paths(page: str, app: FastAPI) -> None:
    """With these methods and, in the body, these fields."""
    found = re.findall(r"^(GET|POST|PUT|PATCH|DELETE) (/v1/\S+) *(\{.*)?", tabs(page)["HTTP"], re.M)
    assert len(found) >= 2
    schemas = app.openapi()["components"]["schemas"]
    for method, path, body in found:
        bare = path.partition("?")[0]
        known = [
            operations[method.lower()]
            for pattern, operations in app.openapi()["paths"].items()
            if method.lower() in operations and re.fullmatch(re.sub(r"\{[^}]+\}", "[^/]+", pattern), bare)
        ]
        assert known, f"{method} {bare}"
        if body:
            form = known[0]["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            assert set(json.loads(body)) <= set(schemas[form]["properties"]), body
