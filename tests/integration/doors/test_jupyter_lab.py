"""JupyterLab in a real browser, with the kernel inside a session: variables of its agent, plots, widgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.integration.conftest import Cli
from tests.integration.doors.chromium import Page, browser
from tests.integration.doors.jupyter_lab import IDLE, OUTPUT, PLOT, RUN, Lab, lab, opened
from tests.integration.served import Served, serving
from websockets.sync.client import ClientConnection

from holdfast.base import polling
from holdfast.base.home import Home
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session

pytestmark = pytest.mark.timeout(600)

CELLS = (
    "print('the agent has', agents)",
    "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.show()",
    "import ipywidgets\nbutton = ipywidgets.Button(description='Press me')\n"
    "button.on_click(lambda _: agents.append('pressed'))\nbutton",
)
PRESS = """() => {
  const button = document.querySelector("button.jupyter-button");
  if (button) button.click();
  return Boolean(button);
}"""
KERNEL = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.id"


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientConnection]:
    with browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast, make_cli: Callable[[Home], Cli], shared_home: Home) -> Iterator[Served]:
    with serving(make_cli(shared_home), shared_home) as found:
        yield found


@pytest.fixture(scope="module")
def person(server: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab(server, tmp_path_factory.mktemp("lab")) as found:
        yield found


@pytest.fixture
def work(shared_hf: Holdfast) -> Iterator[Session]:
    made = shared_hf.new("work", image="data", network="none")
    yield made
    made.remove()


@pytest.mark.brief
def test_a_notebook_has_the_agents_variables_a_plot_and_widgets(
    line: ClientConnection, person: Lab, work: Session
) -> None:
    """A button of the notebook calls the function in the session; the agent sees its effect."""
    work.cell("agents = ['here']")
    page = Page(line)
    opened(page, person.notebook("first", "holdfast-work", CELLS))
    page.run(RUN)
    page.until(OUTPUT, "the agent has ['here']")
    page.until(PLOT)
    page.until(PRESS)
    assert polling.until(lambda: work.cell("agents").text == "['here', 'pressed']", 60, 0.5)
    page.close()


def test_a_notebook_goes_on_through_snapshot_rewind_restore_and_suspension(
    line: ClientConnection, person: Lab, work: Session, shared_hf: Holdfast
) -> None:
    """The kernel is the same after a snapshot, a rewind and a suspension; a copy is chosen by its name."""
    work.cell("agents = ['before']")
    page = Page(line)
    opened(page, person.notebook("long", "holdfast-work", ["agents.append('lab'); print(agents)"]))
    kernel = page.run(KERNEL)
    point = work.snapshot("point")
    page.run(RUN)
    page.until(OUTPUT, "['before', 'lab']")

    work.rewind(point)
    page.until(IDLE)
    page.run(RUN)
    page.until(OUTPUT, "['before', 'lab']")
    assert work.cell("agents").text == "['before', 'lab']"

    work.suspend()
    work.resume()
    page.until(IDLE)
    page.run(RUN)
    page.until(OUTPUT, "['before', 'lab', 'lab']")
    assert page.run(KERNEL) == kernel
    page.close()

    copy = point.restore("copy")
    page = Page(line)
    opened(page, person.notebook("copied", "holdfast-copy", ["agents.append('copy'); print(agents)"]))
    page.run(RUN)
    page.until(OUTPUT, "['before', 'copy']")
    assert page.run(KERNEL) != kernel
    page.close()
    copy.remove()
    for snapshot in shared_hf.snapshots():
        snapshot.remove()
