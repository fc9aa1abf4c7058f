"""The checkpointer's valid requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.snapshots.checkpointer.egress import netrules
from holdfast.snapshots.checkpointer.wire import requests
from holdfast.snapshots.checkpointer.wire.requests import (
    Attempts,
    BadRequest,
    CaptureTarget,
    CheckRequest,
    Confine,
    Describe,
    Dump,
    EndRequest,
    Hello,
    LeaseGate,
    MountedPlaces,
    ReadOnlyRoot,
    Restore,
    Substitute,
)

CONTAINER = "0123456789abcdef" * 4
DUMP: dict[str, Any] = {
    "v": 1,
    "op": "dump",
    "container": CONTAINER,
    "init_pid": 4000,
    "root_pid": 301,
    "folder": "00112233aabb",
}


def parse(raw: dict[str, Any]) -> requests.Request:
    return requests.parse(json.dumps(raw).encode())


def test_a_dump_names_its_target() -> None:
    """A capture is of one container, its first process and its supervisor."""
    assert parse(DUMP) == Dump(CaptureTarget(CONTAINER, 4000, 301), "00112233aabb", leave_running=True)


def test_a_dump_has_a_time_limit() -> None:
    """Never longer than the checkpointer's own."""
    request = parse(DUMP | {"limit": 1.5})
    assert isinstance(request, Dump)
    assert request.limit == 1.5
    for value in (0, -1, requests.COPY_LIMIT + 1, float("nan"), True, "1", [1]):
        with pytest.raises(requests.BadRequest, match="limit"):
            parse(DUMP | {"limit": value})


def test_a_dump_can_leave_descriptors_out() -> None:
    """By the pid inside and the number there."""
    request = parse(DUMP | {"substitute": [{"pid": 310, "fd": 7, "with": "null"}]})
    assert isinstance(request, Dump)
    assert request.substitute == (Substitute(310, 7),)


@pytest.mark.parametrize(
    "value",
    [
        None,
        "310:7",
        [7],
        [{"pid": 310, "fd": 7}],
        [{"pid": 310, "fd": 7, "with": "/etc/shadow"}],
        [{"pid": 310, "fd": -1, "with": "null"}],
        [{"pid": 310, "fd": "7 1:2", "with": "null"}],
        [{"pid": 1, "fd": 7, "with": "null"}],
        [{"pid": 310, "fd": 7, "with": "null"}] * 257,
    ],
)
def test_omitted_descriptors_have_a_fixed_form(value: object) -> None:
    """Numbers in bounds, and nothing that would be opened by name."""
    with pytest.raises(BadRequest):
        parse(DUMP | {"substitute": value})


def test_a_restore_carries_addresses() -> None:
    """A restore says which addresses were the parent's and which are its own."""
    raw = DUMP | {
        "op": "restore",
        "scratch": "ffffffffffff",
        "last_pid": 500,
        "old_addresses": ["172.17.0.2"],
        "new_addresses": ["172.17.0.3"],
    }

    assert parse(raw) == Restore(
        CaptureTarget(CONTAINER, 4000, 301),
        "00112233aabb",
        "ffffffffffff",
        False,
        False,
        500,
        ("172.17.0.2",),
        ("172.17.0.3",),
    )


def test_the_others_are_short() -> None:
    """Asking for versions needs little."""
    assert parse({"v": 1, "op": "hello"}) == Hello(None)


def test_a_check_and_an_end_name_their_target() -> None:
    """The inspected and the ended process are below one supervisor."""
    target = CaptureTarget(CONTAINER, 4000, 301)

    asked = parse(DUMP | {"op": "check", "everything": True, "mounts": ["/mnt/data"], "supervisor": 302})
    assert asked == CheckRequest(target, everything=True, mounts=("/mnt/data",), supervisor=302)
    assert parse(DUMP | {"op": "end", "pids": [310, 320], "supervisor": 302}) == EndRequest(
        target, (310, 320), 302
    )


@pytest.mark.parametrize("pids", [None, 310, ["310"], [1], [0], [True], [310] * 257])
def test_only_pids_are_ended(pids: Any) -> None:
    """Neither the container's first process nor a value that is not a number, and only a limited number of
    them."""
    with pytest.raises(BadRequest):
        parse(DUMP | {"op": "end", "pids": pids, "supervisor": 302})


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2},
        {"op": "run"},
        {"op": "discard"},
        {"container": CONTAINER[:12]},
        {"container": "../" + CONTAINER[3:]},
        {"init_pid": 1},
        {"init_pid": True},
        {"init_pid": "4000"},
        {"root_pid": 2**22},
        {"folder": "../../../../"},
        {"folder": "00112233aabb\n"},
        {"folder": None},
    ],
)
def test_anything_else_is_refused(changes: dict[str, Any]) -> None:
    """A name that could be a path, a pid that could be the host's first process, an unknown version."""
    with pytest.raises(BadRequest):
        parse(DUMP | changes)


@pytest.mark.parametrize("line", [b"", b"\xff", b"[]", b"[" * 60_000, b" " * 70_000, b"null"])
def test_invalid_requests_are_refused(line: bytes) -> None:
    """Bytes that are not a JSON object end in an answer, not in a crash."""
    with pytest.raises(BadRequest):
        requests.parse(line)


RULES: dict[str, Any] = {
    "refused": ["10.0.0.0/8"],
    "opened": [{"network": "10.0.0.53/32", "port": 53}],
    "callers": ["172.18.0.1"],
    "gateway": {"network": "172.18.0.1/32", "port": 20001},
    "denied": ["8.8.8.8/32"],
    "allowed": ["::/0"],
}


def test_refusals_are_asked_of_one_container() -> None:
    """Nothing else is in the question."""
    asked = {"v": 1, "op": "attempts", "container": CONTAINER, "init_pid": 4000}

    assert parse(asked) == Attempts(CONTAINER, 4000)
    with pytest.raises(BadRequest, match="container"):
        parse(asked | {"container": "../host"})


def test_a_lease_is_passed_on_to_one_container() -> None:
    """Until an instant, which is a number."""
    asked = {"v": 1, "op": "lease", "container": CONTAINER, "init_pid": 4000, "until": 130.5}

    assert parse(asked) == LeaseGate(CONTAINER, 4000, 130.5)
    for wrong in ("130", None, True, -1, 2**41):
        with pytest.raises(BadRequest, match="CLOCK_BOOTTIME"):
            parse(asked | {"until": wrong})


def test_a_container_is_confined_by_rules_and_released_only_on_request() -> None:
    """Addresses are parsed here: an invalid one is refused with the request."""
    asked = {"v": 1, "op": "confine", "container": CONTAINER, "init_pid": 4000, "rules": RULES}

    found = parse({**asked, "load": True})

    assert isinstance(found, Confine)
    assert found.rules.as_dict() == RULES
    assert (found.load, found.release) == (True, False)
    assert found.places is None
    placed = parse({**asked, "places": {"own": ["/run/holdfast"], "given": ["/etc/hosts", "/srv/ä b"]}})
    assert isinstance(placed, Confine)
    assert placed.places == MountedPlaces(("/run/holdfast",), ("/etc/hosts", "/srv/ä b"))
    for places in (1, {"own": ["run"]}, {"given": ["/srv/../etc"]}, {"own": "/run"}):
        with pytest.raises(BadRequest):
            parse({**asked, "places": places})
    for rules in (None, {}, {**RULES, "callers": ["x; flush ruleset"]}):
        with pytest.raises(BadRequest):
            parse({**asked, "rules": rules})


def test_a_description_is_a_strangers_by_default() -> None:
    """The conditions of a restore are asked of our own captures; of names, while it is frozen."""
    described = {"v": 1, "op": "describe", "folder": "00112233aabb"}
    assert parse(described) == Describe("00112233aabb", ours=False, target=None)
    still = described | {"ours": True, "container": CONTAINER, "init_pid": 4000, "root_pid": 301}
    assert parse(still) == Describe("00112233aabb", ours=True, target=CaptureTarget(CONTAINER, 4000, 301))
    with pytest.raises(BadRequest):
        parse(still | {"init_pid": 1})


def _rooted(root: object) -> requests.Request:
    rules = netrules.NetworkRules().as_dict()
    return parse(
        {"v": 1, "op": "confine", "container": CONTAINER, "init_pid": 4000, "rules": rules, "root": root}
    )


def test_a_root_stays_writable_unless_it_is_to_be_read_only() -> None:
    """Then the request names what can be written to."""
    request = _rooted(None)
    assert isinstance(request, Confine)
    assert request.root is None
    request = _rooted(
        {"own": ["/var/lib/x"], "folders": ["/srv/ä b"], "usual": ["/tmp"], "files": ["/etc/hosts"]}
    )
    assert isinstance(request, Confine)
    assert request.root == ReadOnlyRoot(("/var/lib/x",), ("/srv/ä b",), ("/tmp",), ("/etc/hosts",))


@pytest.mark.parametrize(
    "path",
    ["", "/", "srv", "/srv/", "//srv", "/srv/..", "/../srv", "/./srv", "/srv/.", "/s\0", "/" + "x" * 256],
)
def test_places_in_a_root_have_their_plain_form(path: str) -> None:
    """Nothing leads up, and none is the root itself."""
    for key in ("own", "folders", "usual", "files"):
        with pytest.raises(BadRequest, match=key):
            _rooted({key: [path]})
    with pytest.raises(BadRequest, match="root"):
        _rooted([path])
