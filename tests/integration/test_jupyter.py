"""Front ends of Jupyter at the kernel of a real session, through everything that is done with sessions."""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.integration.served import Served
from tests.runtime.jupyter.front_end import FrontEnd, joined

from holdfast import Holdfast, Session


def _front(server: Served, client: str, name: str) -> AbstractContextManager[FrontEnd]:
    kernels = server.get("/api/kernels")
    kernel = next(each["id"] for each in kernels if each["name"] == f"holdfast-{name}")
    return joined(server.url.replace("http:", "ws:"), server.headers, client, kernel, binary=True)


def test_a_front_end_keeps_its_kernel_through_captures_copies_and_sleep(
    server: Served, shared: Session, shared_hf: Holdfast
) -> None:
    """A cell runs across a snapshot; a fork has kernel and variables of its own; a resumed one the same."""
    shared.cell("import time; agents = [1]")
    with _front(server, "here", "shared") as front:
        asked = front.execute("for n in range(20):\n    agents.append(n); time.sleep(0.1)\nprint('whole')")
        taken = shared.snapshot()
        reply, text = front.done(asked)
        assert (reply["status"], text) == ("ok", "whole\n")
        assert front.value("len(agents)") == "21"
        assert shared.cell("len(agents)").text == "21"

        (copy,) = taken.fork(1, name="notebook")
        try:
            with _front(server, "there", "notebook") as other:
                assert int(other.value("len(agents)")) <= 21
                other.done(other.execute("agents = 'of the copy'"))
            copy.suspend()
            refused = server.client.get("/api/kernels")
            assert "holdfast-notebook" not in {each["name"] for each in refused.json()}
            shared_hf.session("notebook").resume()
            with _front(server, "there", "notebook") as other:
                assert other.value("agents") == "of the copy"
        finally:
            copy.remove()
        assert front.value("len(agents)") == "21"
    taken.remove()
