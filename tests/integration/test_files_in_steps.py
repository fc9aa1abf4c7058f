"""Snapshots of a session whose files change little: each stores the change, and has all of its moment."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot
from holdfast.snapshots.layer import layer_chain

LARGE = 30_000_000
PLACES = "/srv /usr/share/doc /etc/issue /usr/local"
FORM = "%p %y %m %n %s %T@ %l\\n"
SEEN = f"find {PLACES} -printf '{FORM}' 2>&1 | sort; find /srv -type f | sort | xargs sha256sum"


def files(session: Session) -> str:
    return session.exec(SEEN).text


def stored(snapshot: Snapshot) -> int:
    """Return the bytes of files that are charged to a snapshot."""
    found = snapshot.row.details["storage"]
    assert isinstance(found, dict)
    return int(found["files"])


def test_each_change_of_files_is_stored_once_and_each_moment_comes_back(hf: Holdfast, tmp_path: Path) -> None:
    """Changes, deletions, folders in place of others, names of one file; also from an export alone.

    When the first is removed, the next one is charged for what it has in common with it.
    """
    work = hf.new("work")
    work.exec(f"mkdir -p /srv/tree/in /srv/gone; head -c {LARGE} /dev/urandom > /srv/large")
    work.exec("seq 1000 > /srv/tree/in/file; ln /srv/large /srv/name; echo > /srv/gone/x; rm /etc/issue")
    first, then = work.snapshot("first"), [files(work)]
    assert stored(first) > LARGE

    work.exec("echo 2 >> /srv/tree/in/file; rm -r /srv/gone; rm -r /usr/share/doc; mkdir /usr/share/doc")
    work.exec("mv /srv/tree /srv/moved; echo back > /etc/issue; mkfifo /usr/share/doc/pipe")
    second = work.snapshot("second")
    then.append(files(work))

    work.exec("rm /srv/name; ln -s large /srv/name; rm -r /usr/local/*; touch /usr/local/new; rm /etc/issue")
    third = work.snapshot("third")
    then.append(files(work))
    assert stored(second) < 500_000
    # Of a file with two names one is gone, which is a change of the file.
    assert LARGE < stored(third) < LARGE + 500_000

    work.exec("touch /srv/small")
    fourth = work.snapshot("fourth", kind="filesystem")
    assert stored(fourth) < 500_000

    assert files(first.restore("one")) == then[0]
    first.remove()
    assert stored(hf.snapshot("second")) > LARGE
    assert files(second.restore("two")) == then[1]
    second.remove()
    back = third.restore("three")
    assert files(back) == then[2]
    assert stored(back.snapshot("again")) < 500_000

    file = tmp_path / "third.hf"
    third.export(file)
    third.remove()
    assert files(hf.import_(file).restore("from-far")) == then[2]
    # Nothing is known any more, or wrong: the next has everything.
    chain = hf.home.run / work.id / "written" / layer_chain.FILE
    os.truncate(chain, chain.stat().st_size // 2)
    whole = work.snapshot("whole")
    assert stored(whole) > LARGE
    assert files(whole.restore("last")) == files(work)
