"""Changes by commands and cells, recorded by a real supervisor with a real bash and kernel."""

import json
import os
from pathlib import Path
from typing import Any

from tests.runtime.guest.harness import Guest


def entries(guest: Guest, *kinds: str) -> list[dict[str, Any]]:
    """The entries of some kinds so far."""
    frames = guest.ask("journal", kinds=list(kinds))
    return [json.loads(frame.payload) for frame in frames if frame.event == "entry"]


def wait_for_change(guest: Guest, key: str) -> dict[str, Any]:
    """The first entry `changed` with this field."""
    with guest.call("journal", kinds=["changed"], follow=True) as journal:
        for frame in journal.frames():
            entry: dict[str, Any] = json.loads(frame.payload)
            if key in entry:
                return entry
    raise AssertionError("the journal ended")


def held(guest: Guest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(guest.ask("holdings")[0].payload)
    return found


def test_a_command_that_changed_the_shell(guest: Guest) -> None:
    """An entry names the command, and each variable, function and the directory with old and new values."""
    guest.exec("A=1; export B=2", id="first")
    guest.exec("true", id="nothing")
    guest.exec("A=3; unset B; cd /usr; f() { :; }; alias q=ls", id="second")
    held(guest)

    told = [entry for entry in entries(guest, "changed") if "shell" in entry]
    assert [entry["id"] for entry in told] == ["first", "second"]
    first, second = told
    assert [pair[1][3] for pair in (first["variables"]["A"], first["variables"]["B"])] == ["1", "2"]
    assert [value and value[3] for value in second["variables"]["A"]] == ["1", "3"]
    assert second["variables"]["B"][1] is None
    assert second["cwd"][1] == "/usr"
    assert second["functions"]["f"][0] is None
    assert second["aliases"]["q"][1][3] == "ls"


def test_secrets_are_masked_in_the_session(guest: Guest) -> None:
    """Values whose names look secret, and passwords in addresses and options, are not reported."""
    guest.exec("export API_TOKEN=geheim1 DB=postgres://u:geheim2@h/d; password=geheim3; keyboard=us")
    guest.exec("(exec -a 'server --password=geheim4 --token geheim5' sleep 1000) &")
    found = held(guest)

    variables = found["shells"]["main"]["variables"]
    assert (variables["API_TOKEN"][3], variables["password"][3]) == ("***", "***")
    assert (variables["DB"][3], variables["keyboard"][3]) == ("postgres://u:***@h/d", "us")
    assert "geheim" not in json.dumps(found)
    assert "geheim" not in json.dumps(entries(guest, "changed"))
    guest.exec("kill %1")


def test_a_cell_that_changed_the_kernel(guest: Guest) -> None:
    """Names of the kernel are reported with their kinds; values are not."""
    guest.run_cell("x = 5; items = [1, 2]", id="cell-1")
    entry = wait_for_change(guest, "names")

    assert entry["id"] == "cell-1"
    assert entry["names"]["items"] == [None, ["list of 2", ""]]
    assert entry["names"]["x"][1][0] == "int"
    names = held(guest)["kernels"]["main"]["names"]
    assert set(names) == {"x", "items"}


SLOW = {".ipython/profile_default/startup/slow.py": "import time\ntime.sleep(5)\n"}


def test_a_kernel_that_starts_is_one_of_the_session(marks_library: Path) -> None:
    """Its process has the role of a kernel from the beginning, before it has answered."""
    guest = Guest(marks_library, home=SLOW)
    try:
        kernel = f"ipykernel_launcher -f {guest.folder}"
        for _ in range(2000):
            seen = [each["role"] for each in held(guest)["processes"] if kernel in each["command"]]
            if seen:
                break
        assert seen == ["kernel"]
    finally:
        guest.stop()


def test_processes_with_ports_and_commands(guest: Guest) -> None:
    """A server is reported with its port and the command it is from; shells and kernels with their role."""
    server = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1])"
    listen = f'exec 3< <(exec python3 -u -c "{server}; time.sleep(1000)"); read -u 3 port; echo $port'
    result = guest.exec(listen, id="srv")
    port = int(result.output.split()[-1])
    processes = held(guest)["processes"]

    (found,) = [one for one in processes if port in one["ports"]]
    assert found["origin"] == "srv"
    assert found["command"].startswith("python3 -u -c import socket")
    assert {one["role"] for one in processes} >= {"supervisor", "shell"}
    guest.exec(f"kill {found['pid']}")


def test_facts_about_files(guest: Guest) -> None:
    """Kind, size, times and package of each path; a missing one is null; edited files have no package."""
    site = guest.folder / "site-packages"
    info = site / "toy-1.0.dist-info"
    info.mkdir(parents=True)
    for name in ("toy.py", "edited.py"):
        (site / name).write_text("x = 1\n")
    (info / "RECORD").write_text("toy.py,,\nedited.py,,\ntoy-1.0.dist-info/RECORD,,\n")
    later = (info / "RECORD").stat().st_ctime_ns + 10**10
    os.utime(site / "edited.py", ns=(later, later))
    (site / "link").symlink_to("/nowhere")
    asked = {
        "paths": [str(site / name) for name in ("toy.py", "edited.py", "link", "nothing", "")],
        "records": [["pip", "toy", str(info / "RECORD")]],
        "since": 0.0,
    }
    facts, versions = guest.ask("files", json.dumps(asked).encode())

    told = json.loads(facts.payload)
    assert [one and (one[0], one[4]) for one in told] == [("f", 0), ("f", -1), ("l", -1), None, ("d", -1)]
    assert told[0][1] == 6
    assert json.loads(versions.payload) == {}
