from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidArgument
from holdfast.runtime.sessions.session_options import Mount, SessionOptions, container_options


def _made(options: Any, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "name": "holdfast-a",
        "hostname": "work",
        "image": "i",
        "command": ("start",),
        "labels": {"a": "b"},
        "run_dir": Path("/home/run/a"),
        "init": Path("/home/init/a"),
        "first": "/dev/.holdfast-0/init",
        "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
        "network": "holdfast",
        "mptcp": True,
    }
    return container_options(options, **given | changes)


def test_the_defaults_are_safe() -> None:
    """No capability beyond the list, a limit for memory and processes, swap included, one mount of ours."""
    made = _made(SessionOptions())

    assert made["cap_drop"] == ["ALL"]
    assert not {"SYS_ADMIN", "SYS_PTRACE", "NET_RAW", "MKNOD", "SYS_RESOURCE"} & set(made["cap_add"])
    assert made["mem_limit"] == made["memswap_limit"] == 4 << 30
    assert made["pids_limit"] == 4096
    assert made["sysctls"] == {"net.mptcp.enabled": "0"}
    assert [mount["Target"] for mount in made["mounts"]] == ["/run/holdfast", "/dev/.holdfast-0/init"]
    assert made["entrypoint"] == ["/dev/.holdfast-0/init"]
    assert made["mounts"][1]["ReadOnly"] is True
    assert json.loads(made["security_opt"][0].removeprefix("seccomp=")) == {"defaultAction": "SCMP_ACT_ERRNO"}
    assert made["network"] == "holdfast"
    assert made["healthcheck"] == {"test": ["NONE"]}
    assert [(one["Name"], one["Hard"]) for one in made["ulimits"]] == [("nice", 0), ("rtprio", 0)]


def test_a_kernel_without_multipath_tcp_is_not_asked_about_it() -> None:
    """The switch is set only where the host has it: setting it elsewhere is an error."""
    assert _made(SessionOptions(), mptcp=False)["sysctls"] == {}
    made = _made(SessionOptions(), mptcp=False, ipv6=True)
    assert made["sysctls"] == {"net.ipv6.conf.lo.disable_ipv6": "0"}


def test_chosen_options_arrive() -> None:
    """Every option ends where the engine expects it."""
    chosen = SessionOptions.parse(
        network="none",
        memory="512m",
        cpus=1.5,
        pids=100,
        env=["A=1", "B=x=y"],
        mounts=["/tmp:/data:ro"],
        workdir="/srv",
    )
    made = _made(chosen)

    assert made["network_mode"] == "none"
    assert "network" not in made
    assert made["mem_limit"] == 512 << 20
    assert made["nano_cpus"] == 1_500_000_000
    assert made["environment"] == {"A": "1", "B": "x=y"}
    assert made["mounts"][2] == {"Type": "bind", "Source": "/tmp", "Target": "/data", "ReadOnly": True}
    assert made["working_dir"] == "/"


def test_options_survive_the_store() -> None:
    """The store's options are read back as the same options."""
    chosen = SessionOptions.parse(memory="1g", mounts=["/tmp:/data"], env=["A=1"])

    assert chosen == SessionOptions.parse(**json.loads(json.dumps(chosen.model_dump(mode="json"))))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("memory", "lots"),
        ("memory", "1m"),
        ("memory", -1),
        ("cpus", 0),
        ("cpus", "two"),
        ("pids", 1),
        ("network", "host"),
        ("user", "a b"),
        ("env", ["A"]),
        ("env", ["A B=1"]),
        ("mounts", ["/x"]),
        ("mounts", ["/x:relative"]),
        ("mounts", ["/x:/"]),
        ("mounts", ["/x:/proc/sys"]),
        ("mounts", ["/x:/run/holdfast/x"]),
        ("mounts", ["/x:/a/../proc"]),
        ("workdir", "here"),
        ("read_only", "perhaps"),
        ("writable", ["/srv"]),  # without read_only
        ("shell", "bin/bash"),
        ("shell", "/bin/ba sh"),
        ("shell", "bash -x"),
        ("python", "python3"),
        ("kernel", "../x"),
        ("image", "--privileged"),
        ("privileged", True),
    ],
)
def test_wrong_options_are_one_line(option: Any, value: Any) -> None:
    """An impossible option is refused in one line that begins with cannot."""
    with pytest.raises(InvalidArgument, match=r"^cannot [^\n]+$"):
        SessionOptions.parse(**{option: value})


def test_a_relative_source_starts_at_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The source of a mount can be relative."""
    monkeypatch.chdir(tmp_path)

    assert str(tmp_path / "data") == Mount.parse("data:/data").source


def test_an_interpreter_is_for_the_python_kernel() -> None:
    """With another kernel it would be ignored."""
    assert SessionOptions.parse(kernel="python3", python="/usr/bin/python3").python == "/usr/bin/python3"
    with pytest.raises(InvalidArgument, match="python is for the Python kernel"):
        SessionOptions.parse(kernel="ir", python="/usr/bin/python3")


def test_an_unknown_option_is_named() -> None:
    """In the words of this program, with the known ones."""
    with pytest.raises(InvalidArgument, match="unknown option 'memroy'") as raised:
        SessionOptions.parse(memroy="1g")

    assert "memory" in raised.value.hint


@pytest.mark.parametrize("name", ["allow", "domains", "writable"])
@pytest.mark.parametrize("value", ["example.org:80", 5])
def test_a_text_where_a_list_is_meant_is_refused_as_such(name: str, value: object) -> None:
    """It is not read as a list of its characters."""
    with pytest.raises(InvalidArgument, match=f"^cannot create session: {name} must be a list of texts$"):
        SessionOptions.parse(**{name: value})


def test_a_writable_root_needs_nothing() -> None:
    assert SessionOptions().root is None


def test_the_state_and_the_usual_folders_stay_writable() -> None:
    assert SessionOptions(read_only=True).root == {
        "own": ["/var/lib/holdfast"],
        "folders": [],
        "usual": ["/workspace", "/tmp", "/var/tmp", "/run"],
        "files": ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"],
    }


def test_chosen_folders_have_one_form_each() -> None:
    chosen = SessionOptions.parse(read_only=True, writable=["/srv//data/", "/srv/./data", "/cache"])
    assert chosen.writable == ("/srv/data", "/cache")
    assert (chosen.root or {})["folders"] == ["/srv/data", "/cache"]


def test_files_of_the_engine_are_as_the_folder_in_which_a_caller_wants_to_write() -> None:
    chosen = SessionOptions.parse(read_only=True, writable=["/etc"])
    assert (chosen.root or {})["files"] == []
    mounted = SessionOptions.parse(read_only=True, mounts=["/srv/hosts:/etc/hosts"])
    assert (mounted.root or {})["files"] == ["/etc/hostname", "/etc/resolv.conf"]


@pytest.mark.parametrize(
    "place",
    [
        "",
        "/",
        "//",
        "srv",
        "/srv/../etc",
        "/srv\0",
        "/proc",
        "/sys/fs",
        "/dev/shm",
        "/opt/holdfast",
        "/" + "x" * 300,
    ],
)
def test_invalid_choices_are_refused_in_one_line(place: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^cannot create session: writable [^\n]+$"):
        SessionOptions.parse(read_only=True, writable=[place])
