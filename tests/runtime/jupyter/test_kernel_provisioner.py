"""Programs of jupyter_client at a session's kernel: they attach to it, and leave it to its agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zmq
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.session import Session
from tests.runtime.guest.harness import Guest, compile_marks
from tests.runtime.jupyter.gateway_server import NAME, TOKEN, Gateway, gateway

from holdfast.base import polling
from holdfast.errors import InvalidArgument, ServerUnavailable

PATIENCE = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    guest = Guest(compile_marks(tmp_path_factory.mktemp("marks")))
    try:
        with gateway(guest) as found:
            yield found
    finally:
        guest.stop()


@pytest.fixture
def specs(server: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelSpecManager:
    """Kernel specs of a session that is there, of one that is not, and of one that the environment names."""
    monkeypatch.setenv("HOLDFAST_URL", server.url)
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
    monkeypatch.delenv("HOLDFAST_SESSION", raising=False)
    for spec, config in (("here", {"session": NAME}), ("nowhere", {"session": "absent"}), ("named", {})):
        (tmp_path / spec).mkdir()
        provisioner = {"provisioner_name": "holdfast", "config": config}
        described = {
            "argv": [],
            "display_name": spec,
            "language": "python",
            "metadata": {"kernel_provisioner": provisioner},
        }
        (tmp_path / spec / "kernel.json").write_text(json.dumps(described))
    return KernelSpecManager(kernel_dirs=[str(tmp_path)])


@contextmanager
def started(specs: KernelSpecManager, spec: str = "here") -> Iterator[KernelManager]:
    manager = KernelManager(kernel_name=spec, kernel_spec_manager=specs)
    manager.start_kernel()
    try:
        yield manager
    finally:
        manager.shutdown_kernel()


@contextmanager
def client_of(manager: KernelManager) -> Iterator[BlockingKernelClient]:
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(PATIENCE)
        yield client
    finally:
        client.stop_channels()


def printed(client: BlockingKernelClient, code: str) -> str:
    texts: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        texts.append(message["content"].get("text", ""))

    reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=hear, allow_stdin=False)
    assert reply["content"]["status"] == "ok", reply["content"]
    return "".join(texts)


def test_it_attaches_to_the_agents_kernel_and_leaves_it(server: Gateway, specs: KernelSpecManager) -> None:
    """A shutdown of the kernel detaches; a cell that the agent runs at that moment continues."""
    server.guest.run_cell("agents = 41")
    with started(specs) as manager, client_of(manager) as client:
        assert printed(client, "print(agents + 1); agents += 1") == "42\n"
        gate = server.guest.folder / "detach-gate"
        client.execute(
            f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\nkept = 'on'"
        )
        while client.get_iopub_msg(PATIENCE)["header"]["msg_type"] != "execute_input":
            pass
    gate.touch()
    with started(specs) as manager, client_of(manager) as client:
        assert printed(client, "print(agents, kept)") == "42 on\n"
    assert not manager.has_kernel


def test_a_restart_replaces_the_process_at_the_same_ports(server: Gateway, specs: KernelSpecManager) -> None:
    """Its clients stay connected; the variables are lost, as requested."""
    server.guest.run_cell("agents = 'gone'")
    with started(specs) as manager, client_of(manager) as client:
        ports = manager.ports
        manager.restart_kernel()
        client.wait_for_ready(PATIENCE)
        assert printed(client, "print('agents' in dir())") == "False\n"
        assert manager.ports == ports


def test_a_cell_is_interrupted_and_asks(specs: KernelSpecManager) -> None:
    with started(specs) as manager, client_of(manager) as client:
        asked = client.execute("import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)")
        while client.get_iopub_msg(PATIENCE)["header"]["msg_type"] != "stream":
            pass
        manager.interrupt_kernel()
        reply = client.get_shell_msg(PATIENCE)
        assert (reply["parent_header"]["msg_id"], reply["content"]["ename"]) == (asked, "KeyboardInterrupt")
        client.execute("print(input('who? '))", allow_stdin=True)
        assert client.get_stdin_msg(PATIENCE)["content"]["prompt"] == "who? "
        client.input("ann")
        assert client.get_shell_msg(PATIENCE)["content"]["status"] == "ok"


def test_a_loss_of_the_server_is_no_restart(server: Gateway, specs: KernelSpecManager) -> None:
    """A manager that restarts kernels it takes for dead joins the same one again, with its variables."""
    server.guest.run_cell("agents = 'kept'")
    with started(specs) as manager:
        bridge: Any = manager.provisioner
        bridge._bridge.lost = "the server was away"
        bridge._bridge.close()
        assert not manager.is_alive()
        manager.restart_kernel(now=True)
        with client_of(manager) as client:
            assert printed(client, "print(agents)") == "kept\n"


def test_a_request_without_the_key_is_not_heard(server: Gateway, specs: KernelSpecManager) -> None:
    """Other users of the machine reach the ports too."""
    with started(specs) as manager, client_of(manager) as client:
        context = zmq.Context()
        try:
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.connect(f"tcp://127.0.0.1:{manager.shell_port}")
            for key in (b"", b"wrong"):
                stranger = Session(key=key)
                content = {"code": "stolen = True", "silent": False}
                stranger.send(socket, "execute_request", content)
            socket.send_multipart([b"nonsense"])
            assert printed(client, "print('stolen' in dir())") == "False\n"
            assert not socket.poll(200)
        finally:
            context.destroy()


def test_a_kernel_that_cannot_be_joined_is_told_in_a_line(
    server: Gateway, specs: KernelSpecManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that is not there or not named, a wrong token, no server."""
    for spec, kind, words in (
        ("nowhere", ServerUnavailable, "absent"),
        ("named", InvalidArgument, "no session is named"),
    ):
        with pytest.raises(kind, match=words), started(specs, spec):
            pass
    monkeypatch.setenv("HOLDFAST_SESSION", NAME)
    with started(specs, "named") as manager:
        assert manager.is_alive()
    monkeypatch.setenv("HOLDFAST_TOKEN", "f" * 40)
    with pytest.raises(ServerUnavailable, match="cannot join the kernel"), started(specs):
        pass
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:9")
    with pytest.raises(ServerUnavailable, match="does not answer"), started(specs):
        pass


def test_ports_are_given_back(specs: KernelSpecManager) -> None:
    with started(specs) as manager:
        port = manager.hb_port
    context = zmq.Context()
    try:
        assert polling.until(lambda: _bound(context, port), PATIENCE, 0.1)
    finally:
        context.destroy()


def _bound(context: zmq.Context[Any], port: int) -> bool:
    with context.socket(zmq.REP) as socket:
        try:
            socket.bind(f"tcp://127.0.0.1:{port}")
        except zmq.ZMQError:
            return False
    return True
