"""Changes since a point in time, in real sessions: files, packages, processes, shells, kernels, and
by whom.
"""

import base64
import hashlib
import io
import zipfile
from typing import Any

import pytest
from tests.integration.conftest import Cli

from holdfast.errors import InvalidArgument, SessionDead, SessionError
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.history.drift.drift_result import Drift


def wheel(version: str) -> str:
    """Return bash text that writes a wheel of one module to /tmp."""
    name = f"toy-{version}-py3-none-any.whl"
    info = f"toy-{version}.dist-info"
    files = {
        "toy/__init__.py": "x = 1\n",
        "toy/data.txt": "data\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: toy\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(text)}\n")
    files[f"{info}/RECORD"] = "".join([*lines, f"{info}/RECORD,,\n"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return f"base64 -d > /tmp/{name} <<'END'\n{base64.encodebytes(packed.getvalue()).decode()}END"


DEB = """
mkdir -p /tmp/deb/DEBIAN /tmp/deb/usr/share/tinydeb
cat > /tmp/deb/DEBIAN/control <<END
Package: tinydeb
Version: VERSION
Architecture: all
Maintainer: x <x@x>
Description: x
END
echo VERSION > /tmp/deb/usr/share/tinydeb/file
dpkg-deb -b /tmp/deb /tmp/tiny.deb >/dev/null && dpkg -i /tmp/tiny.deb >/dev/null
"""
PIP = "pip install -q --no-index --no-deps"


def run(session: Session, command: str, *, apart: bool = False) -> None:
    """Run a command; `apart` separates its work from others' by several ticks of the kernel's clock."""
    result = session.exec(f"sleep 0.05; {command}; sleep 0.05" if apart else command, timeout=120)
    assert result.ok, result.text


def files(drift: Drift) -> dict[str, str]:
    return {one.path: one.change for one in drift.files}


def actors(drift: Drift, numbers: tuple[int, ...]) -> list[tuple[str, str]]:
    return [(drift.authors[number].kind, drift.authors[number].text) for number in numbers]


def test_changes_since_a_snapshot(shared_hf: Holdfast) -> None:
    """Three edits, a package, a server, variables and names: each is reported once, with its author."""
    session = shared_hf.new("since-snapshot")
    run(session, "mkdir app; cd app; echo 1 > kept; echo 1 > edited; echo 1 > gone; export MODE=test OLD=1")
    run(session, wheel("1.0"))
    session.cell("n = 1; gone = 2")
    session.snapshot("words")
    run(session, "echo 2 >> edited; rm gone; echo new > made", apart=True)
    run(session, f"{PIP} /tmp/toy-1.0-py3-none-any.whl", apart=True)
    run(session, "exec 3< <(exec python3 -u -m http.server 3000 2>/dev/null); read -u 3 line")
    run(session, "export MODE=prod API_KEY=geheim; unset OLD; cd /usr; f() { :; }")
    session.cell("n = 'text'; del gone; items = [1, 2, 3]")
    session.exec("cd /workspace/app")
    with Holdfast(shared_hf.context.home.root, actor="person:ada") as ada:
        ada.session(session.name).files.write("brought", "x")
    session.exec("cd /usr")
    drift = session.drift("words")

    assert files(drift) == {
        "/workspace/app/brought": "new",
        "/workspace/app/edited": "changed",
        "/workspace/app/gone": "deleted",
        "/workspace/app/made": "new",
    }
    assert [(one.manager, one.name, one.old, one.new) for one in drift.packages] == [
        ("pip", "toy", None, "1.0")
    ]
    assert drift.packages[0].files >= 5
    assert [(one.change, one.ports) for one in drift.processes] == [("new", (3000,))]
    assert {(one.kind, one.name, one.change) for one in drift.shell} == {
        ("directory", "cwd", "changed"),
        ("variable", "MODE", "changed"),
        ("variable", "API_KEY", "new"),
        ("variable", "OLD", "deleted"),
        ("variable", "line", "new"),
        ("function", "f", "new"),
    }
    assert {(one.name, one.change) for one in drift.kernel} == {
        ("n", "changed"),
        ("gone", "deleted"),
        ("items", "new"),
    }
    assert [one.brought_by for one in drift.files] == ["person:ada", "", "", ""]
    edited = next(one for one in drift.files if one.path.endswith("edited"))
    (editor,), (installer,) = actors(drift, edited.by), actors(drift, drift.packages[0].by)
    assert "echo 2 >> edited" in editor[1]
    assert PIP in installer[1]
    assert [kind for kind, _ in actors(drift, drift.processes[0].by)] == ["command"]
    assert actors(drift, drift.kernel[0].by)[0][0] == "cell"
    text = drift.text()
    assert "geheim" not in text
    assert len(text) / 4 < 250
    session.remove()


def test_packages_that_are_replaced_and_removed(shared_hf: Holdfast) -> None:
    """An upgrade has both versions, for pip and dpkg; an edit of a package's file is reported as an edit."""
    session = shared_hf.new("packages")
    run(session, f"{wheel('1.0')}\n{wheel('2.0')}\n{PIP} /tmp/toy-1.0-py3-none-any.whl")
    run(session, DEB.replace("VERSION", "1.1"))
    session.snapshot("replaced")
    run(session, f"{PIP} /tmp/toy-2.0-py3-none-any.whl")
    run(session, DEB.replace("VERSION", "1.2"))
    drift = session.drift("replaced")
    assert [(one.manager, one.name, one.old, one.new) for one in drift.packages] == [
        ("apt", "tinydeb", "1.1", "1.2"),
        ("pip", "toy", "1.0", "2.0"),
    ]
    assert set(files(drift)) == {
        "/tmp/tiny.deb",
        "/tmp/deb/DEBIAN/control",
        "/tmp/deb/usr/share/tinydeb/file",
    }

    run(session, "echo 'x = 2' >> /opt/python/lib/python3*/site-packages/toy/__init__.py")
    session.snapshot("removed")
    run(session, "pip uninstall -q -y toy; dpkg -r tinydeb >/dev/null; rm -r /tmp/deb")
    drift = session.drift("replaced")
    assert [(one.name, one.old, one.new) for one in drift.packages] == [
        ("tinydeb", "1.1", None),
        ("toy", "1.0", None),
    ]
    drift = session.drift("removed")
    assert [(one.name, one.new) for one in drift.packages] == [("tinydeb", None), ("toy", None)]
    assert files(drift) == {"/tmp/deb": "deleted"}
    session.remove()


def test_changes_since_an_entry_a_command_and_a_time(shared_hf: Holdfast) -> None:
    """Any entry of the journal is a starting point; earlier changes are not reported."""
    session = shared_hf.new("since-entry")
    run(session, "A=1; B=1; echo early > early; sleep 1000 &")
    session.cell("x = 1")
    session.drift("#0")  # kernels are checked a while after a cell, or on request
    run(session, "A=2; echo late > late; rm /etc/issue; sleep 2000 &")
    session.cell("y = 1")
    everything = session.drift("#0")
    begun = {one.text: one for one in everything.authors.values()}
    moment = begun["A=2; echo late > late; rm /etc/issue; sleep 2000 &"]

    assert {"/workspace/early", "/workspace/late", "/etc/issue"} <= set(files(everything))
    for since in (moment.id, str(moment.seq - 1), f"#{moment.seq - 1}"):
        drift = session.drift(since)
        assert files(drift) == {"/workspace/late": "new", "/etc/issue": "deleted"}
        assert [(one.command, one.change) for one in drift.processes] == [("sleep 2000", "new")]
        assert [(one.name, one.old, one.new) for one in drift.shell] == [("A", "1", "2")]
        assert [(one.name, one.change) for one in drift.kernel] == [("y", "new")]
    assert set(files(session.drift("1h"))) == set(files(everything))

    run(session, "kill %2; wait %2; C=1")
    with pytest.raises(InvalidArgument, match="not a snapshot, journal entry"):
        session.drift("nothing-like-this")
    with pytest.raises(InvalidArgument, match="newest is #"):
        session.drift("#100000")
    session.remove()


def test_restored_sessions_and_forks(shared_hf: Holdfast) -> None:
    """A restored session is compared over its lineage; points in another timeline's past are refused."""
    session = shared_hf.new("trunk")
    session.cell("pass")  # the kernel has started, and all its own setup is over
    run(session, "echo 1 > base; echo 1 > gone; V=1; sleep 1000 &")
    # Open for writing, as databases and logs are: a restore opens them, and the overlay copies them up.
    run(session, "echo old > held; echo old > written; exec 7>> held 8>> written")
    first = session.snapshot("first")
    run(session, "echo 2 > trunk; V=2")
    second = session.snapshot("second")
    fork = second.restore("fork")
    assert fork.drift("second").empty
    run(fork, "echo 3 > fork; rm gone; rm trunk; V=3; echo new >&8")

    drift = fork.drift("second")
    assert files(drift) == {
        "/workspace/fork": "new",
        "/workspace/gone": "deleted",
        "/workspace/trunk": "deleted",
        "/workspace/written": "changed",
    }
    assert [(one.old, one.new) for one in drift.shell] == [("2", "3")]
    assert drift.processes == ()
    drift = fork.drift("first")
    assert files(drift) == {
        "/workspace/fork": "new",
        "/workspace/gone": "deleted",
        "/workspace/written": "changed",
    }
    assert [(one.name, one.old, one.new) for one in drift.shell] == [("V", "1", "3")]

    other = first.restore("other")
    with pytest.raises(InvalidArgument, match="snapshot second is not an ancestor of this session"):
        other.drift("second")
    other.suspend()
    with pytest.raises(SessionError, match="it is suspended"):
        other.drift("first")
    for each in (session, fork, other):
        each.remove()
    second.remove()
    first.remove()


def test_the_command_line(shared: Session, shared_cli: Cli, shared_hf: Holdfast) -> None:
    """Text for people and agents, JSON for programs, and errors that say what to do."""
    run(shared, "mkdir -p many; cd many; for i in {1..40}; do echo $i > file$i; done; cd ..")
    seq = max(shared.drift("#0").authors) - 1

    done = shared_cli("drift", shared.name, "--since", f"#{seq}")
    assert done.code == 0
    assert "+ /workspace/many/ 40 files" in done.out
    assert "file7" in shared_cli("drift", shared.name, "--since", f"#{seq}", "--files").out
    told: Any = shared_cli("drift", shared.name, "--since", f"#{seq}", "--json").json
    assert len(told["files"]) == 40
    assert (told["name"], told["since"]["seq"]) == (shared.name, seq)
    failed = shared_cli("drift", shared.name, "--since", "never", "--json")
    assert (failed.code, failed.error["code"]) == (1, "invalid_argument")
    assert "cannot compare" in failed.error["message"]


def test_a_removed_session_is_an_error(hf: Holdfast) -> None:
    """A dead session cannot be asked, and says so."""
    session = hf.new("dead")
    taken = session.snapshot("dead-before", kind="filesystem")
    hf.engine.kill_remove(session.row.container_id or "")
    with pytest.raises(SessionDead):
        session.drift("dead-before")
    taken.remove()
