"""Connections over unix sockets that no program has accepted yet: they are in copies as they were."""

from __future__ import annotations

from holdfast.runtime.api.controller import Holdfast

CLIENT_FIRST = """
import os, socket, time
here, there = os.pipe()
child = os.fork()
if not child:  # it is later among the processes than the one that connects
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/srv/door")
    listener.listen(4)
    os.write(there, b"x")
    while not os.path.exists("/srv/go"):
        time.sleep(0.05)
    accepted, _ = listener.accept()
    accepted.sendall(accepted.recv(100).upper())
    os._exit(0)
os.read(here, 1)
client = socket.socket(socket.AF_UNIX)
client.connect("/srv/door")
open("/srv/connected", "w").close()
while not os.path.exists("/srv/go"):
    time.sleep(0.05)
client.sendall(b"hello")
open("/srv/answer", "wb").write(client.recv(100))
"""


def test_a_connection_waits_for_a_listener_of_a_later_process(hf: Holdfast) -> None:
    """As the supervisor's to a kernel that starts: CRIU restores its own order of such sockets only."""
    session = hf.new("waits")
    session.files.write("/srv/client.py", CLIENT_FIRST)
    session.exec("python3 /srv/client.py & until [ -e /srv/connected ]; do sleep 0.05; done", timeout=60)
    snapshot = session.snapshot()
    copy = snapshot.restore("copy")
    for each in (session, copy):
        each.exec("touch /srv/go; wait", timeout=60)
        assert each.exec("cat /srv/answer", timeout=60).text == "HELLO"
