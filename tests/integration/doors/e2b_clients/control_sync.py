"""E2B's synchronous client handles whole sandboxes: lives, snapshots, forks and limits."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from importlib.metadata import version
from typing import Any

from e2b import InvalidArgumentException, NotFoundException, Sandbox, SandboxException
from e2b.sandbox.sandbox_api import SandboxQuery, SandboxState

VERSION = tuple(map(int, version("e2b").split(".")[:2]))
checks = 0


def check(found: object, why: str) -> None:
    global checks
    assert found, why
    checks += 1


def refused(work: Callable[[], object], why: str, kind: type[Exception] = SandboxException) -> None:
    """The call raises, with a sentence of the server."""
    try:
        work()
    except kind as error:
        said = str(error)
    else:
        said = "nothing"
    check(why in said, f"not refused: {why}, but {said}")


def every(paginator: Any) -> list[Any]:
    found: list[Any] = []
    while paginator.has_next:
        found += paginator.next_items()
    return found


def asked(sandbox: Sandbox, **headers: str) -> tuple[int, bytes]:
    """Return status and body of an answer of a port; not every system resolves names below localhost."""
    host = sandbox.get_host(3000)
    connection = HTTPConnection("127.0.0.1", int(host.rpartition(":")[2]), timeout=60)
    connection.request("GET", "/fact", headers={"Host": host} | headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def serve(sandbox: Sandbox) -> None:
    """Start a server in a sandbox, and wait until it listens."""
    sandbox.files.write("/srv/site/fact", "from a port")
    sandbox.commands.run("python3 -m http.server 3000 --directory /srv/site", background=True)
    sandbox.commands.run("until curl -sf localhost:3000 >/dev/null; do sleep 0.1; done")


mine = f"control sync {VERSION} & {time.time()}"
made: list[Sandbox] = []
try:
    # Made, looked at, listed.
    one = Sandbox.create(timeout=600, metadata={"of": mine, "ümlaut/key": "a b+c"}, envs={"COLOUR": "green"})
    made.append(one)
    check(
        one.sandbox_id.isalnum() and one.sandbox_id == one.sandbox_id.lower(),
        "an id that can be a host's name",
    )
    check(one.is_running(), "it runs")
    info = one.get_info()
    check(info.sandbox_id == one.sandbox_id and info.state == SandboxState.RUNNING, "its info")
    check(info.metadata == {"of": mine, "ümlaut/key": "a b+c"}, "its metadata")
    check(info.cpu_count >= 1 and info.memory_mb >= 256, "its size")
    left = info.end_at - datetime.now(UTC)
    check(timedelta(seconds=500) < left <= timedelta(seconds=600), f"its end: {left}")
    check(one.commands.run("echo $COLOUR").stdout == "green\n", "its variables")
    check(not one.get_host(3000).endswith("e2b.app"), "its ports are not at another provider's")
    serve(one)
    check(asked(one)[0] == 403, "its ports need its token")
    token = {"E2B-Traffic-Access-Token": str(one.traffic_access_token)}
    check(asked(one, **token) == (200, b"from a port"), "a port with its token")

    two = Sandbox.create(
        "code-interpreter-v1",
        timeout=600,
        metadata={"of": mine},
        network={"allow_public_traffic": True},
    )
    made.append(two)
    serve(two)
    check(asked(two) == (200, b"from a port"), "a public port")
    both = every(Sandbox.list(query=SandboxQuery(metadata={"of": mine})))
    check({each.sandbox_id for each in both} == {one.sandbox_id, two.sandbox_id}, "the list")
    some = every(Sandbox.list(query=SandboxQuery(metadata={"ümlaut/key": "a b+c", "of": mine})))
    check([each.sandbox_id for each in some] == [one.sandbox_id], "a list by metadata")
    paged = Sandbox.list(query=SandboxQuery(metadata={"of": mine}), limit=1)
    first = paged.next_items()
    check(paged.has_next and len(first) == 1, "a first page")
    second = paged.next_items()
    check(
        not paged.has_next and len(second) == 1 and first[0].sandbox_id != second[0].sandbox_id,
        "the next page",
    )

    # Another end.
    one.set_timeout(1200)
    check(one.get_info().end_at - info.end_at > timedelta(seconds=500), "a later end")
    Sandbox.connect(one.sandbox_id, timeout=60)
    check(one.get_info().end_at - info.end_at > timedelta(seconds=500), "who connects does not shorten it")
    one.set_timeout(300)
    check(one.get_info().end_at < info.end_at, "an earlier end")

    # Figures.
    figures = one.get_metrics()
    check(len(figures) > 0 and figures[-1].mem_used > 0 and figures[-1].cpu_count >= 1, "its figures")
    check(figures[-1].disk_total > figures[-1].disk_used > 0, f"its disk: {figures}")

    # Paused, with everything that lives in it.
    counting = one.commands.run("while :; do echo >> /tmp/count; sleep 0.1; done", background=True)
    check(one.pause() is not False, "paused")
    check(not one.is_running(), "it does not run")
    check(one.get_info().state == SandboxState.PAUSED, "it is said to be paused")
    listed = every(Sandbox.list(query=SandboxQuery(metadata={"of": mine}, state=[SandboxState.PAUSED])))
    check([each.sandbox_id for each in listed] == [one.sandbox_id], "the list of paused ones")
    one.pause()
    check(one.get_info().state == SandboxState.PAUSED, "paused twice")
    same = Sandbox.connect(one.sandbox_id, timeout=600)
    check(same.is_running() and same.sandbox_id == one.sandbox_id, "resumed")
    before = int(same.commands.run("wc -l < /tmp/count").stdout)
    same.commands.run("sleep 0.5")
    check(int(same.commands.run("wc -l < /tmp/count").stdout) > before, "its processes continued")
    check(counting.pid in [each.pid for each in same.commands.list()], "its processes kept their numbers")
    one.commands.kill(counting.pid)

    # Snapshots, and sandboxes from them.
    one.files.write("/tmp/fact", "captured")
    taken = one.create_snapshot()
    check(taken.snapshot_id, "a snapshot")
    one.files.write("/tmp/fact", "changed")
    back = Sandbox.create(taken.snapshot_id, timeout=600, metadata={"of": mine})
    made.append(back)
    check(back.files.read("/tmp/fact") == "captured", "a sandbox from a snapshot")
    check(one.files.read("/tmp/fact") == "changed", "the other continued")
    listed = [each.snapshot_id for each in every(Sandbox.list_snapshots(sandbox_id=one.sandbox_id))]
    check(listed == [taken.snapshot_id], f"the list of snapshots: {listed}")
    check(Sandbox.delete_snapshot(taken.snapshot_id), "deleted")
    check(not Sandbox.delete_snapshot(taken.snapshot_id), "there is none any more")
    refused(lambda: Sandbox.create(taken.snapshot_id), "cannot find the template")
    if VERSION >= (2, 31):  # earlier clients have no names for snapshots
        named = one.create_snapshot(name=f"named-{one.sandbox_id}")
        check(any(one.sandbox_id in name for name in named.names), "a named snapshot")
        again = Sandbox.create(f"named-{one.sandbox_id}", timeout=600)
        made.append(again)
        check(again.files.read("/tmp/fact") == "changed", "a sandbox from a name")
        check(Sandbox.delete_snapshot(named.snapshot_id), "a named one deleted")
    if VERSION >= (2, 50):  # earlier clients cannot fork
        forks = one.fork(count=2, timeout=600)
        made += [each for each in forks if isinstance(each, Sandbox)]
        check(len(forks) == 2 and all(isinstance(each, Sandbox) for each in forks), f"forks: {forks}")
        check({each.files.read("/tmp/fact") for each in forks} == {"changed"}, "forks have the files")
        forks[0].files.write("/tmp/fact", "of one")
        check(forks[1].files.read("/tmp/fact") == "changed", "forks are apart")

    # The network.
    closed = Sandbox.create(allow_internet_access=False, timeout=600)
    made.append(closed)
    check(closed.commands.run("ls /sys/class/net").stdout.split() == ["lo"], "closed")
    refused(lambda: closed.update_network({"allow_internet_access": True}), "cannot change the network")
    few = Sandbox.create(network={"allow_out": ["example.com"], "deny_out": ["0.0.0.0/0"]}, timeout=600)
    made.append(few)
    few.update_network({"allow_out": ["example.com", "*.example.org"], "deny_out": ["0.0.0.0/0"]})
    check(few.is_running(), "domains")
    reach = "python3 -c \"import socket; socket.create_connection(('{}', 9), 1)\" 2>&1 | tail -1"
    some = Sandbox.create(network={"deny_out": ["8.8.8.8"]}, timeout=600)
    made.append(some)
    check("ConnectionRefused" in some.commands.run(reach.format("8.8.8.8")).stdout, "an address denied")
    check("ConnectionRefused" not in some.commands.run(reach.format("9.9.9.9")).stdout, "others not denied")
    some.update_network({"deny_out": ["0.0.0.0/0"], "allow_out": ["8.8.8.8"]})
    check("ConnectionRefused" not in some.commands.run(reach.format("8.8.8.8")).stdout, "one allowed")
    check("ConnectionRefused" in some.commands.run(reach.format("9.9.9.9")).stdout, "all others denied")

    # What is refused.
    refused(lambda: Sandbox.create("no-such-template"), "cannot find the template")
    refused(lambda: Sandbox.connect("000000000000"), "not found", NotFoundException)
    refused(lambda: Sandbox.create(lifecycle={"auto_resume": True}), "auto_resume", InvalidArgumentException)

    # Ends come by themselves.
    brief = Sandbox.create(timeout=1)
    made.append(brief)
    kept = Sandbox.create(timeout=1, lifecycle={"on_timeout": "pause", "auto_resume": True})
    made.append(kept)
    for _ in range(300):
        if kept.get_info().state == SandboxState.PAUSED:
            break
        time.sleep(0.1)
    check(kept.get_info().state == SandboxState.PAUSED, "paused at its end")
    refused(brief.get_info, "not found", NotFoundException)
    check(not brief.kill(), "there is nothing to kill")
    check(kept.commands.run("echo awake").stdout == "awake\n", "a request woke it")
    check(kept.get_info().end_at > datetime.now(UTC) + timedelta(seconds=200), "it has time again")

    check(two.kill(), "killed")
    check(not two.kill(), "killed twice")
    refused(two.get_info, "not found", NotFoundException)
finally:
    for each in made:
        each.kill()
print(f"ok: {checks}")
