"""A kernel's process, from its start to its end, without a supervisor around it."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.kernels.guest import process
from holdfast.kernels.guest.jupyter_library import KernelFailure
from holdfast.kernels.guest.kernel_channel import link_sockets
from holdfast.kernels.guest.process import KernelProcess, Message
from holdfast.runtime.guest.identity.account import UserAccount
from holdfast.runtime.guest.jobs.reaper import Reaper
from holdfast.runtime.guest.pulse import access


def test_the_remains_of_an_ended_kernel_do_not_affect_the_next(tmp_path: Path) -> None:
    """An old kernel's objects go whenever the collector runs: perhaps while the next kernel starts there."""

    async def main() -> None:
        reaper, loop = Reaper(), asyncio.get_running_loop()
        reaper.install(loop)
        old = KernelProcess("python3", tmp_path / "run", UserAccount.of(None), tmp_path, reaper, {})
        await old.start(lambda _channel, _message: None)
        old.kill()
        await old.ended.wait()
        await old.close()
        of_the_next = tmp_path / "run" / "connection.json"
        of_the_next.write_text("{}")
        del old
        gc.collect()
        assert of_the_next.exists()

    with asyncio.Runner() as runner:
        runner.run(main())


COLONS = """
from ipykernel.kernelapp import IPKernelApp
def bind(self, socket, port):
    socket.bind(f"ipc://{self.ip}:{port}")
    return port
IPKernelApp._try_bind_socket = bind
IPKernelApp.launch_instance(None)
"""


def test_sockets_that_are_named_as_addresses_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ipykernel that binds them as kernels of other languages do; it answers on all channels."""
    spec = {
        "argv": [sys.executable, "-c", COLONS, "-f", "{connection_file}"],
        "display_name": "C",
        "language": "c",
    }
    place = tmp_path / "data" / "kernels" / "colons"
    place.mkdir(parents=True)
    (place / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))

    async def main() -> None:
        reaper, loop = Reaper(), asyncio.get_running_loop()
        reaper.install(loop)
        kernel = KernelProcess("colons", tmp_path / "run", UserAccount.of(None), tmp_path, reaper, {})
        done = asyncio.Event()

        def hear(channel: str, message: Message) -> None:
            if (channel, message["content"].get("execution_state")) == ("iopub", "idle"):
                done.set()

        await kernel.start(hear)
        kernel.execute("1")
        await asyncio.wait_for(done.wait(), 60)
        kernel.kill()
        await kernel.ended.wait()
        await kernel.close()

    with asyncio.Runner() as runner:
        runner.run(main())


@pytest.mark.parametrize(
    "looks", [[("R", 0.1), ("D", 0.2), ("S", 0.2)], [("R", 0.1), ("R", 30.0)]], ids=["sleeps", "loops"]
)
def test_a_kernel_that_waits_for_the_processor_is_given_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looks: list[tuple[str, float]]
) -> None:
    """Not one that sleeps, nor one that has had more of the processor than a start takes."""
    place = tmp_path / "data" / "kernels" / "silent"
    place.mkdir(parents=True)
    spec = {"argv": ["sleep", "1000"], "display_name": "S", "language": "s"}
    (place / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "data"))
    monkeypatch.setattr(process, "READY_PATIENCE", 0.05)
    left = iter(looks)

    def stat(_pid: int) -> SimpleNamespace:
        state, cpu = next(left)
        return SimpleNamespace(state=state, cpu=cpu)

    async def main() -> None:
        reaper, loop = Reaper(), asyncio.get_running_loop()
        reaper.install(loop)
        kernel = KernelProcess("silent", tmp_path / "run", UserAccount.of(None), tmp_path, reaper, {})
        monkeypatch.setattr(access, "stat", stat)
        with pytest.raises(KernelFailure, match="no answer"):
            await kernel.start(lambda _channel, _message: None)
        monkeypatch.undo()
        assert next(left, None) is None
        await kernel.ended.wait()
        await kernel.close()

    with asyncio.Runner() as runner:
        runner.run(main())


def test_a_file_in_the_place_of_a_link_stays(tmp_path: Path) -> None:
    """The folder is the user's: nothing is followed, replaced or raised."""
    (tmp_path / "c-1").write_text("mine")
    (tmp_path / "c-2").symlink_to("/nowhere")
    for port in (1, 2, 3):
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(str(tmp_path / f"c:{port}"))
    link_sockets(tmp_path / "c", [1, 2, 3, 4])
    assert (tmp_path / "c-1").read_text() == "mine"
    assert (tmp_path / "c-2").readlink() == Path("/nowhere")
    assert (tmp_path / "c-3").readlink() == Path("c:3")
    assert not (tmp_path / "c-4").is_symlink()
