"""Copies of a session that know their identity, and draw numbers of their own."""

from __future__ import annotations

import json
from itertools import combinations
from typing import NamedTuple

import pytest

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.api.snapshot import Snapshot

HOOK = """mkdir -p ~/.config/holdfast/hooks.d && cat > ~/.config/holdfast/hooks.d/tell <<'END'
#!/bin/sh
echo "$HOLDFAST_EVENT $HOLDFAST_OLD_NAME $HOLDFAST_NAME $HOLDFAST_GENERATION" >> /tmp/told
test "$HOLDFAST_NAME" != id-2 || { echo "not here"; exit 3; }
END
chmod +x ~/.config/holdfast/hooks.d/tell"""
CELL = """
import os, random, secrets, ssl, tempfile, uuid
import holdfast_session as hs
events = []
@hs.on_restore
def restored(event):
    events.append((event.kind, event.old_name, event.name, event.generation))
@hs.on_resume
def resumed(event):
    events.append((event.kind, event.old_name, event.name, event.generation))
def draw():
    return {
        "random": random.getrandbits(64),
        "secrets": secrets.token_hex(8),
        "urandom": os.urandom(8).hex(),
        "openssl": ssl.RAND_bytes(8).hex(),
        "uuid4": uuid.uuid4().hex,
        "uuid1": uuid.uuid1().hex,
        "node": uuid.getnode(),
        "tempfile": tempfile.mktemp(),
        "hash": os.popen("python3 -c 'print(hash(\\"x\\"))'").read(),
    }
draw()
"""
LOOP = "( while read; do echo $RANDOM$RANDOM$RANDOM; done < /tmp/ask > /tmp/answer ) &"
SERVER = """
import os, socket
server = socket.socket(); server.bind(("127.0.0.1", 7007)); server.listen()
os.getrandom(8), os.urandom(8)
while True:
    client, _ = server.accept()
    client.sendall(os.urandom(32).hex().encode()); client.close()
"""


class Family(NamedTuple):
    """A session, a snapshot of it, and three copies."""

    parent: Session
    taken: Snapshot
    copies: list[Session]

    @property
    def every(self) -> list[Session]:
        return [self.parent, *self.copies]


@pytest.fixture(scope="module")
def family(shared_hf: Holdfast) -> Family:
    parent = shared_hf.new("id-parent")
    assert parent.exec(HOOK).ok
    assert parent.cell(CELL).ok
    parent.exec("echo '10.9.8.7 mine.example' >> /etc/hosts")
    parent.exec("sleep infinity < /etc/hosts 3< /etc/hostname 4< /etc/resolv.conf & held=$!")
    parent.exec(
        f"mkfifo /tmp/ask /tmp/answer; {LOOP} exec 7>/tmp/ask 8</tmp/answer; echo >&7; read -u 8 line"
    )
    parent.exec(f"cat > /tmp/server.py <<'END'{SERVER}END\npython3 /tmp/server.py & a=$RANDOM$SRANDOM")
    parent.exec("until (echo > /dev/tcp/127.0.0.1/7007) 2>/dev/null; do :; done")
    taken = parent.snapshot("id-taken")
    return Family(parent, taken, taken.fork(3, "id"))


def told(session: Session, command: str) -> str:
    result = session.exec(command, timeout=60)
    assert result.ok, result.text
    return result.text.strip()


def test_every_copy_knows_its_identity(family: Family) -> None:
    """Host name, address, container, files, environment of shells, jobs and kernels are the copy's own."""
    seen = set()
    for number, session in enumerate(family.every):
        generation = min(number, 1)
        facts = json.loads(told(session, "cat $HOLDFAST_IDENTITY"))
        assert (facts["session"], facts["name"]) == (session.id, session.name)
        assert (facts["generation"], facts["container"]) == (generation, session.row.container_id)
        assert facts["hostname"] == session.name
        assert told(session, "cat /proc/$held/fd/3") == session.name  # of another length than the parent's
        names = told(
            session, "hostname; cat /etc/hostname; echo $HOSTNAME; hostname -I; x='\\h'; echo ${x@P}"
        )
        assert names.split() == [*[session.name] * 3, *facts["addresses"], session.name]
        assert told(session, f"getent hosts {session.name}").split() == [*facts["addresses"], session.name]
        assert told(session, "getent hosts mine.example; grep -c id- /etc/hosts").split() == [
            *("10.9.8.7", "mine.example"),
            "1",
        ]
        shown = "echo $HOLDFAST_SESSION $HOLDFAST_NAME $HOLDFAST_GENERATION $HOSTNAME"
        mine = [session.id, session.name, str(generation), session.name]
        assert told(session, shown).split() == mine
        assert told(session, f"bash -c '{shown}'").split() == mine
        job = session.detach(shown)
        assert job.wait().text.split() == mine
        assert (
            session.cell("print(os.environ['HOLDFAST_NAME'], hs.identity()['name'])").stdout.split()
            == [session.name] * 2
        )
        assert told(session, "cat /var/lib/holdfast/identity/generation") == str(generation)
        seen.add((facts["session"], facts["container"], facts["hostname"], *facts["addresses"]))
    assert all(not {*one} & {*other} for one, other in combinations(seen, 2))


def test_no_two_draw_the_same(family: Family) -> None:
    """No generator gives the same in two of four: kernel, shell, its subshell, running programs."""
    drawn = []
    for session in family.every:
        found = dict(json.loads(session.cell("import json; print(json.dumps(draw()))").stdout))
        found["shell"] = told(session, "echo $RANDOM$RANDOM$RANDOM")
        found["subshell"] = told(session, "echo >&7; read -u 8 line; echo $line")
        found["srandom"] = told(session, "echo $SRANDOM$SRANDOM")
        found["mktemp"] = told(session, "mktemp")
        found["vdso"] = told(session, "cat < /dev/tcp/127.0.0.1/7007")
        drawn.append(found)
    for kind in drawn[0]:
        assert len({str(found[kind]) for found in drawn}) == 4, (kind, [found[kind] for found in drawn])


def test_hooks_were_notified_once(family: Family, shared_hf: Holdfast) -> None:
    """The parent's that it continues, the copies' that they are copies; failures are reported."""
    assert told(family.parent, "cat /tmp/told") == "resumed id-parent id-parent 0"
    events = "print(events)"
    assert family.parent.cell(events).stdout.strip() == "[('resumed', 'id-parent', 'id-parent', 0)]"
    for copy in family.copies:
        assert copy.verification is not None
        assert copy.verification.exact, copy.verification.deviations
        assert told(copy, "cat /tmp/told") == f"restored id-parent {copy.name} 1"
        assert copy.cell(events).stdout.strip() == f"[('restored', 'id-parent', '{copy.name}', 1)]"
        assert not [one for one in copy.journal(kinds=["changed"]) if "HOLDFAST" in str(one.details)]
        (restored,) = [one for one in copy.journal(kinds=["woken"]) if one.details["event"] == "restored"]
        later = [one for one in copy.journal(restored.seq) if one.kind.startswith("hook")]
        failed = copy.name == "id-2"
        assert sorted(one.kind for one in later) == sorted(["hook", "hook_failed" if failed else "hook"])
        complaints = shared_hf.session(copy.id).as_dict()["hooks"]
        assert [one.endswith("exit code 3 (not here)") for one in complaints] == [True] * failed


def test_a_copy_of_a_copy_and_a_session_that_was_suspended(family: Family) -> None:
    """Each restore is one generation; hooks stay registered; seeds set by hand are kept, also the
    parent's.
    """
    copy = family.copies[0]
    expected = copy.cell("random.seed(1); [random.random() for _ in range(4)]").text
    copy.cell("random.seed(1); a = random.random()")
    numbers = told(copy, "RANDOM=1; echo $RANDOM $RANDOM $RANDOM").split()
    copy.exec("RANDOM=1; a=$RANDOM")
    (deeper,) = copy.fork(1, "id-deeper")
    copy.suspend()
    copy.resume()
    for session, event, name in ((deeper, "restored id-1", "id-deeper"), (copy, "restored id-1", "id-1")):
        assert told(session, "tail -n1 /tmp/told") == f"{event} {name} 2"
        assert (
            told(session, "echo $HOLDFAST_GENERATION; cat $(dirname $HOLDFAST_IDENTITY)/generation") == "2\n2"
        )
        assert told(session, "echo $RANDOM $RANDOM").split() == numbers[1:]
        assert session.cell("[a, *(random.random() for _ in range(3))]").text == expected
    assert told(copy, "wc -l < /tmp/told") == "3"
    deeper.remove()


def test_a_snapshot_of_files_runs_hooks(family: Family) -> None:
    """A session that starts from files alone learns of their origin."""
    taken = family.parent.snapshot("id-files", kind="filesystem")
    begun = taken.restore("id-begun")
    assert told(begun, "tail -n1 /tmp/told") == "restored id-parent id-begun 1"
    assert told(begun, "echo $HOLDFAST_NAME $HOLDFAST_GENERATION") == "id-begun 1"
    begun.remove()
    taken.remove()
