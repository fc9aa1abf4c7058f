"""Files of unix sockets that were renamed or linked have the names in copies that they had."""

from __future__ import annotations

import json

import pytest

from holdfast.errors import LiveUnsupported
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

SERVER = """
import os, select, socket
os.makedirs("/srv/d/app")
os.chdir("/srv/d")
socks = {}
def bound(name, kind=socket.SOCK_STREAM):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind("/srv/d/" + name)
    if kind == socket.SOCK_STREAM:
        made.listen()
    socks[made] = name
    return made
def said(made, number):
    socks[made] = number
said(bound("a.tmp"), "renamed"); os.rename("a.tmp", "a")
said(bound("b.tmp"), "linked"); os.link("b.tmp", "b"); os.unlink("b.tmp")
said(bound("c"), "twice"); os.link("c", "c2")
said(bound("app/x"), "moved"); os.rename("app", "app-old")
said(bound("e.tmp"), "first"); os.rename("e.tmp", "e1")
said(bound("e.tmp"), "second"); os.rename("e.tmp", "e2")
said(bound("e.tmp"), "third")
said(bound("g.tmp"), "gone"); os.unlink("g.tmp")
said(bound("h.tmp", socket.SOCK_DGRAM), "datagram"); os.rename("h.tmp", "h")
os.chmod("a", 0o640)
os.chown("a", 5, 6)
open("/srv/ready", "w").close()
while True:
    for one in select.select(list(socks), [], [])[0]:
        if one.type == socket.SOCK_DGRAM:
            data, sender = one.recvfrom(100)
            one.sendto(socks[one].encode(), sender)
            continue
        with one.accept()[0] as accepted:
            accepted.sendall(socks[one].encode())
"""
SEEN = """
import json, os, socket, stat
os.chdir("/srv/d")
found = {}
for folder, _, names in os.walk("."):
    for name in names:
        path = os.path.join(folder, name)
        state = os.stat(path)
        kind = socket.SOCK_DGRAM if name == "h" else socket.SOCK_STREAM
        with socket.socket(socket.AF_UNIX, kind) as client:
            if name == "h":
                client.bind("")
            client.connect(path)
            client.send(b"x") if name == "h" else None
            said = client.recv(100).decode()
        found[path] = [said, stat.S_IMODE(state.st_mode), state.st_uid, state.st_gid, state.st_nlink]
print(json.dumps([found, sorted(os.listdir(".")), os.path.samefile("c", "c2")], sort_keys=True))
"""
RELATIVE = """
import os, socket, signal
os.makedirs("/srv/r", exist_ok=True)
os.chdir("/srv/r")
made = socket.socket(socket.AF_UNIX)
made.bind("rel.tmp")
made.listen()
os.rename("rel.tmp", "rel")
open("/srv/relative", "w").close()
signal.pause()
"""
FULL = """
import os, resource, signal
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
ready = os.open("/srv/full.new", os.O_CREAT | os.O_WRONLY)
try:
    while True:
        held.append(os.dup(ready))
except OSError:
    os.rename("/srv/full.new", "/srv/full")
signal.pause()
"""
DEEP = """
import os, signal
os.makedirs("/srv/p", exist_ok=True)
os.chdir("/srv/p")
for number in range(100):
    os.mkdir("p" * 50)
    os.chdir("p" * 50)
open("/srv/deep", "w").close()
signal.pause()
"""


# It has accepted a connection, of which everything else is gone: the client, the listener and its file.
LEFT = """
import os, signal, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("/srv/left")
listener.listen()
client = socket.socket(socket.AF_UNIX)
client.connect("/srv/left")
accepted, _ = listener.accept()
client.sendall(b"last words")
client.close()
listener.close()
os.unlink("/srv/left")
signal.signal(signal.SIGUSR1, lambda *_: None)
open("/srv/waits", "w").write(str(os.getpid()))
signal.pause()
open("/srv/heard.new", "wb").write(accepted.recv(100) + accepted.recv(100))
os.rename("/srv/heard.new", "/srv/heard")
"""


def started(session: Session, code: str, sign: str) -> None:
    done = session.exec(f"python3 -c '{code}' & until [ -e {sign} ]; do sleep 0.05; done", timeout=60)
    assert done.exit_code == 0, done.output


def seen(session: Session) -> list[object]:
    done = session.exec(f"python3 -c '{SEEN}'", timeout=60)
    assert done.exit_code == 0, done.output
    return list(json.loads(done.output))


def test_sockets_have_the_names_they_had(hf: Holdfast) -> None:
    """Renamed, linked, in a folder that was moved, several of one first name; live and suspended."""
    session = hf.new("binds")
    started(session, SERVER, "/srv/ready")
    started(session, LEFT, "/srv/waits")
    expected = seen(session)
    answers = {path: said[0] for path, said in dict(expected[0]).items()}  # type: ignore[call-overload]
    assert answers == {
        "./a": "renamed",
        "./b": "linked",
        "./c": "twice",
        "./c2": "twice",
        "./app-old/x": "moved",
        "./e1": "first",
        "./e2": "second",
        "./e.tmp": "third",
        "./h": "datagram",
    }
    copy = session.snapshot("bound").restore("copy")
    assert seen(copy) == expected
    assert seen(copy.snapshot("again").restore("grandchild")) == expected
    session.suspend()
    session.resume()
    assert seen(session) == expected
    hears = "kill -USR1 $(cat /srv/waits); until [ -e /srv/heard ]; do sleep 0.05; done"
    for each in (copy, session):
        assert each.exec(hears, timeout=60).ok
        assert each.files.read("/srv/heard") == b"last words"


def test_unrepeatable_commands_are_refused_beforehand(hf: Holdfast) -> None:
    """By the program and its kind, before anything ends."""
    session = hf.new("refused")
    started(session, RELATIVE, "/srv/relative")
    started(session, FULL, "/srv/full")
    started(session, DEEP, "/srv/deep")
    with pytest.raises(LiveUnsupported):
        session.suspend()
    assert session.exec("echo $((6 * 7))").output.strip() == b"42"
    found = {one.kind: one for one in session.check().blocks}
    assert {kind: one.what for kind, one in found.items()} == {
        "socket_renamed": "unix stream rel.tmp",
        "no_descriptor": "64 of 64 descriptors",
        "deep": "path longer than 4095 bytes",
    }
    assert all(one.command.split()[0] == "python3" for one in found.values())
