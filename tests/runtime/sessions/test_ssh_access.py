"""Access by ssh: names of hosts, keys of both ends, and the options of OpenSSH's client."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.base.home import Home
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.runtime.sessions import ssh_access
from holdfast.runtime.store.store import Store

ONE, TWO = "a" * 12, "b" * 12
PROXY = ("env", "HOLDFAST_HOME=/srv/a home", "/usr/bin/python3", "-I", "-m", "holdfast", "ssh-proxy")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def store(home: Home) -> Store:
    found = Store.open(home.database)
    for name, id_ in (("work", ONE), ("try", TWO)):
        found.add_session(name, "image", {}, session_id=id_, state="running")
    return found


def test_a_host_is_a_session_by_name_or_id() -> None:
    """Names keep their capitals: two sessions can differ in them alone."""
    assert [ssh_access.session_of(each) for each in ("Work.holdfast", f"{ONE}.holdfast", "a.b.holdfast")] == [
        "Work",
        ONE,
        "a.b",
    ]


@pytest.mark.parametrize(
    "host",
    [
        "work",
        ".holdfast",
        "-oProxyCommand=id.holdfast",
        "$(id).holdfast",
        "a b.holdfast",
        "a;id.holdfast",
        "a'b.holdfast",
        "../a.holdfast",
        "a\n.holdfast",
        "work.holdfast\n",
        "\u202ework.holdfast",
        "x" * 64 + ".holdfast",
    ],
)
def test_a_hostile_name_is_refused_in_one_line(host: str) -> None:
    with pytest.raises(InvalidArgument, match="it is not the name of a session") as refused:
        ssh_access.session_of(host)
    assert str(refused.value).isprintable()


def test_each_session_has_a_key_of_its_own_for_life(store: Store) -> None:
    """A session that was removed has none."""
    (private, first), (_, other) = ssh_access.host_key(store, ONE), ssh_access.host_key(store, TWO)
    assert first == ssh_access.host_key(store, ONE)[1] != other
    assert private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----")
    with pytest.raises(SessionNotFound):
        ssh_access.host_key(store, "c" * 12)


def test_a_key_that_is_damaged_is_drawn_again(store: Store) -> None:
    store.change_detail(ONE, ssh_access.DETAIL, lambda _: {"key": "no key"})
    assert ssh_access.host_key(store, ONE)[1] == ssh_access.host_key(store, ONE)[1]


def test_the_key_of_a_home_is_its_owners_alone(home: Home) -> None:
    """It is made once; half of one, which a process that was killed leaves, counts as none."""
    public = ssh_access.client_key(home)
    private = home.root / "ssh" / "client_key"
    assert public == ssh_access.client_key(home)
    assert public.startswith("ssh-ed25519 ")
    assert (private.stat().st_mode & 0o777, private.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    told = subprocess.run(["ssh-keygen", "-y", "-f", private], capture_output=True, text=True, check=True)
    assert told.stdout.split()[:2] == public.split()[:2]
    private.unlink()
    assert ssh_access.client_key(home) != public


def test_the_latest_session_of_a_name_is_the_known_one(home: Home) -> None:
    """Names that ssh takes for one do not replace each other."""
    for name, key in (("work", "ssh-ed25519 A"), ("Work", "ssh-ed25519 B"), ("work", "ssh-ed25519 C")):
        ssh_access.make_known(home, name, key)
    assert (home.root / "ssh" / "known_hosts").read_text().splitlines() == [
        "work.holdfast ssh-ed25519 B Work",
        "work.holdfast ssh-ed25519 C work",
    ]


def test_the_oldest_lines_leave_first() -> None:
    lines = [f"s{number}.holdfast ssh-ed25519 K s{number}" for number in range(2000)]
    kept = ssh_access.known_hosts(lines, "new", "ssh-ed25519 N").splitlines()
    assert (len(kept), kept[0], kept[-1]) == (
        ssh_access.MOST_KNOWN,
        lines[1001],
        "new.holdfast ssh-ed25519 N new",
    )


def read_by_ssh(config: Path, *words: str) -> dict[str, str]:
    """Return the settings that OpenSSH's client understands, by name."""
    command = ["ssh", "-G", "-F", str(config), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def test_ssh_gets_options_that_trust_and_forward_little(tmp_path: Path) -> None:
    """Settings at the top of a configuration count, so that the rest cannot loosen them."""
    config = tmp_path / "config"
    loose = "Host *\n ForwardAgent yes\n ForwardX11 yes\n StrictHostKeyChecking no\n User x\n"
    config.write_text(ssh_access.stanza(Path("/srv/a home"), PROXY) + loose)
    told = read_by_ssh(config, "work.holdfast")
    wanted = {
        "user": "holdfast",
        "proxycommand": "env 'HOLDFAST_HOME=/srv/a home' /usr/bin/python3 -I -m holdfast ssh-proxy -- '%n'",
        "userknownhostsfile": "/srv/a home/ssh/known_hosts",
        "globalknownhostsfile": "/dev/null",
        "stricthostkeychecking": "true",
        "forwardagent": "no",
        "forwardx11": "no",
        "updatehostkeys": "false",
        "identitiesonly": "yes",
        "permitlocalcommand": "no",
    }
    assert {name: told.get(name) for name in wanted} == wanted
    assert "proxycommand" not in read_by_ssh(config, "example.org")


def test_a_home_that_ssh_would_read_otherwise_is_refused() -> None:
    for path in ('/srv/"home', "/srv/100%h", "/srv/${HOME}"):
        with pytest.raises(InvalidArgument, match="the path of the home"):
            ssh_access.stanza(Path(path), PROXY)


def test_a_quote_in_a_name_does_not_end_the_word() -> None:
    """Clients before 9.6 put any name into the command, which a shell reads; one with a quote is not a
    host."""
    first, command, *_ = ssh_access.stanza(Path("/srv/home"), ("printf", "%s|")).splitlines()
    assert first == 'Host *.holdfast "!*\'*"'
    hostile = '$(id)`id`;id>&2 &x\\"!~.holdfast'
    said = command.replace("ProxyCommand", "").replace("%n", hostile).replace("%%", "%")
    done = subprocess.run(["sh", "-c", said], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"--|{hostile}|", "")
