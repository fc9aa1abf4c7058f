from holdfast.runtime.history.drift.changed_paths import Change, FileChange
from holdfast.runtime.history.drift.packages import Package, find, separate, settle

SITE = "/opt/python/lib/python3.13/site-packages"


def change(path: str, kind: Change = "new", *, folder: bool = False) -> FileChange:
    return FileChange(path, kind, folder=folder)


def told(found: list[Package]) -> list[tuple[str, str, str | None, str | None]]:
    return [(one.manager, one.name, one.old, one.new) for one in found]


def test_a_wheel_is_recognized_by_its_record() -> None:
    """The file that pip writes last proves the package; its other files are not packages."""
    found = find([change(f"{SITE}/idna-3.4.dist-info/RECORD"), change(f"{SITE}/idna-3.4.dist-info/METADATA")])

    assert told(found) == [("pip", "idna", None, "3.4")]


def test_an_upgrade_has_both_versions() -> None:
    """The folder of the old version has been removed and the new one's exists."""
    found = find(
        [
            change(f"{SITE}/urllib3-1.26.dist-info", "deleted", folder=True),
            change(f"{SITE}/urllib3-2.0.1.dist-info/RECORD"),
        ]
    )

    assert told(settle(found, {}, {})) == [("pip", "urllib3", "1.26", "2.0.1")]


def test_an_uninstalled_package() -> None:
    """Only an old version: it has been removed, with the files next to it."""
    changes = [change(f"{SITE}/six-1.dist-info", "deleted"), change(f"{SITE}/six.py", "deleted")]
    found = settle(find(changes), {}, {})

    assert told(found) == [("pip", "six", "1", None)]
    left, counted = separate([*changes, change(f"{SITE}/mine.py", "changed")], found)
    assert [one.path for one in left] == [f"{SITE}/mine.py"]
    assert counted[0].files == 2


def test_packages_of_other_managers() -> None:
    """Debian's, npm's top level, gems and binaries of cargo and go are recognized by their paths."""
    found = find(
        [
            change("/var/lib/dpkg/info/jq.list"),
            change("/var/lib/dpkg/info/libjq1:amd64.list"),
            change("/w/node_modules/left-pad/package.json"),
            change("/w/node_modules/@types/node/package.json"),
            change("/w/node_modules/a/node_modules/b/package.json"),
            change("/var/lib/gems/3.3.0/specifications/rake-13.1.0.gemspec"),
            change("/root/.cargo/bin/rg"),
            change("/usr/lib/python3/dist-packages/yaml-6.0.dist-info/RECORD"),
        ]
    )

    assert [(one.manager, one.name) for one in found] == [
        ("apt", "jq"),
        ("apt", "libjq1"),
        ("cargo", "rg"),
        ("gem", "rake"),
        ("npm", "@types/node"),
        ("npm", "left-pad"),
    ]


def test_versions_are_filled_in() -> None:
    """The guest reports new versions and a log's; the snapshot's record has the old ones."""
    found = find([change("/var/lib/dpkg/info/jq.list", "changed"), change("/w/node_modules/a/package.json")])
    jq, a = found

    done = settle(found, {jq.key: {"new": "1.7", "old": "1.6"}, a.key: {"new": "2.0"}}, {a.key: "1.0"})
    assert told(done) == [("apt", "jq", "1.6", "1.7"), ("npm", "a", "1.0", "2.0")]


def test_a_removed_debian_package() -> None:
    """Without an installed version it has been removed, although its list can stay for its configuration."""
    found = find([change("/var/lib/dpkg/info/jq.list", "changed")])

    assert told(settle(found, {found[0].key: {"new": "", "old": "1.6"}}, {})) == [("apt", "jq", "1.6", None)]


def test_files_of_packages_are_counted_not_listed() -> None:
    """A package owns the files it brought; edits in it have no owner and are reported."""
    found = find([change(f"{SITE}/idna-3.4.dist-info/RECORD")])
    key = found[0].key
    owned = FileChange(f"{SITE}/idna/core.py", "new", owner=key)
    left, counted = separate([owned, change(f"{SITE}/idna/edited.py")], found)

    assert [one.path for one in left] == [f"{SITE}/idna/edited.py"]
    assert counted[0].files == 1
