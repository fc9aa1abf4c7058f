"""Two real snapshots, compared."""

import pytest
from tests.integration.conftest import Cli

from holdfast.errors import InvalidArgument, SnapshotNotFound
from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.history.diff.diff_result import Diff


def files(diff: Diff) -> dict[str, str]:
    return {one.path: one.change for one in diff.files}


@pytest.mark.thorough
def test_snapshots_of_branches(shared_hf: Holdfast, shared_cli: Cli) -> None:
    """Files, processes, ports, variables and kernel names of two branches, each way; and of one line."""
    trunk = shared_hf.new("diff-trunk")
    trunk.cell("common = 1; n = 1")
    trunk.exec("echo 1 > base; echo 1 > gone; V=1; sleep 1000 &")
    base = trunk.snapshot("diff-base")
    left, right = base.fork(2, "diff")
    for fork in (left, right):
        fork.exec("echo the-same > both")
    left.exec("echo 2 >> base; echo left > left; V=2; export LEFT=1; kill %1; wait")
    left.cell("n = 2")
    right.exec("rm gone; echo right > right; python3 -m http.server 3000 >/dev/null 2>&1 &")
    right.exec("until (echo > /dev/tcp/127.0.0.1/3000) 2>/dev/null; do :; done; unset V")
    right.cell("del common")
    one, other = left.snapshot("diff-left"), right.snapshot("diff-right")

    told = shared_hf.diff("diff-left", "diff-right")
    work = "/workspace"
    assert files(told) == {
        f"{work}/base": "changed",
        f"{work}/left": "deleted",
        f"{work}/right": "new",
        f"{work}/gone": "deleted",
    }
    assert [(p.change, p.command[:10], p.ports) for p in told.processes] == [
        ("new", "sleep 1000", ()),
        ("new", "python3 -m", (3000,)),
    ]
    shell = {(one.name, one.change) for one in told.shell}
    assert {("V", "deleted"), ("LEFT", "deleted")} <= shell
    assert {(one.name, one.change) for one in told.kernel} == {("common", "deleted"), ("n", "changed")}
    back = shared_hf.diff(other.id, one.id)
    other_way = {"new": "deleted", "deleted": "new", "changed": "changed"}
    assert {path: other_way[change] for path, change in files(back).items()} == files(told)
    since = shared_hf.diff("diff-base", "diff-left")
    assert files(since) == {
        f"{work}/{n}": c for n, c in (("base", "changed"), ("both", "new"), ("left", "new"))
    }
    assert shared_hf.diff("diff-left", "diff-left").empty

    plain = shared_cli("diff", "diff-left", "diff-right")
    assert plain.code == 0

    assert plain.out.startswith("from diff-left to diff-right:")
    assert "- /workspace/left" in plain.out
    assert len(plain.out) / 4 < 150
    json = shared_cli("diff", "diff-left", "diff-right", "--json").json
    assert (json["from"], json["to"], len(json["files"])) == ("diff-left", "diff-right", 4)

    kept = left.snapshot("diff-files", kind="filesystem")
    told = shared_hf.diff("diff-right", "diff-files")
    assert (told.processes, told.shell, told.kernel) == ((), (), ())
    assert "diff-files is a snapshot of files only" in told.text()
    assert files(shared_hf.diff("diff-left", "diff-files")) == {}

    base.remove()
    assert files(shared_hf.diff("diff-left", "diff-right")) == files(shared_hf.diff(one.id, other.id))
    with pytest.raises(SnapshotNotFound) as missing:
        shared_hf.diff("diff-left", "diff-1")
    assert "holdfast drift diff-1 --since" in missing.value.hint
    unrelated = shared_hf.session("shared").snapshot("diff-unrelated")
    with pytest.raises(InvalidArgument, match="was removed"):
        shared_hf.diff("diff-left", "diff-unrelated")
    for each in (kept, one, other, unrelated):
        each.remove()
    for session in (trunk, left, right):
        session.remove()
