"""Secrets that a session uses and does not have: the view of its hosts, of others, and their place.

The hosts are servers of the tests, on the host's address in the sessions' network, with certificates of an
authority that only the gateway knows.
"""

from __future__ import annotations

import base64
import json
import socket
import ssl
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forging import Thin
from tests.machines import searching
from tests.machines.hosts import Hosts, hosts

from holdfast.runtime.api.controller import Holdfast
from holdfast.runtime.api.session import Session
from holdfast.runtime.storage import snapshot_image
from holdfast.runtime.store.rows import SnapshotRow
from holdfast.runtime.transfer import send
from holdfast.runtime.transfer.outgoing_parts import KINDS, Remembered
from holdfast.runtime.transfer.transfer_options import SendOptions
from holdfast.snapshots.bundle import image_layers, media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.bundle.keys import Keys

PATIENCE = 120.0
CALLING = Path(__file__).parents[1] / "inside" / "calling.py"
VALUE = "r3al-Value/of+the=secret-4711"


@pytest.fixture(scope="module")
def world(shared_hf: Holdfast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with hosts(shared_hf, tmp_path_factory.mktemp("hosts")) as made:
        yield made


@pytest.fixture(scope="module")
def session(shared_hf: Holdfast, world: Hosts) -> Session:
    given = f"api.test:{world.api.port},http://plain.test:{world.plain.port},forged.test:{world.forged.port}"
    made = shared_hf.new("keyed", secrets=[f"TOKEN@{given}={VALUE}"])
    made.cell(CALLING.read_text(), timeout=PATIENCE)
    return made


def said(session: Session, command: str) -> str:
    return session.exec(command, timeout=PATIENCE).text.strip()


def test_the_host_of_a_secret_gets_its_value_wherever_the_placeholder_is(
    session: Session, world: Hosts
) -> None:
    """In headers, Basic authentication, the query, forms, JSON; the session sees placeholders come back."""
    url = f"https://api.test:{world.api.port}"
    placeholder = said(session, "echo $TOKEN")
    assert placeholder.startswith("holdfast-secret-")

    told = [
        said(session, f'curl -sSi -H "Authorization: Bearer $TOKEN" {url}/header'),
        said(session, f'curl -sS -u "me:$TOKEN" {url}/basic'),
        said(session, f'curl -sS "{url}/query?key=$TOKEN&b=1"'),
        said(session, f'curl -sS -d "key=$TOKEN" {url}/form'),
        said(
            session, f"""curl -sS -H 'Content-Type: application/json' -d '{{"key": "'$TOKEN'"}}' {url}/json"""
        ),
        said(session, f'curl -sS -H "Authorization: Bearer $TOKEN" {url}/stream'),
        said(session, f'curl -sS -H "Authorization: Bearer $TOKEN" {url}/large | head -c 3000'),
        said(session, f'curl -sSi -H "Authorization: Bearer $TOKEN" {url}/malformed'),
    ]

    assert f"Authorization: Bearer {VALUE}" in world.api.asked[0]
    assert "Basic bWU6cjNhbC1WYWx1ZS9vZit0aGU9c2VjcmV0LTQ3MTE=" in world.api.asked[1]
    assert "/query?key=r3al-Value%2Fof%2Bthe%3Dsecret-4711&b=1" in world.api.asked[2]
    assert world.api.asked[3].endswith("key=r3al-Value%2Fof%2Bthe%3Dsecret-4711")
    assert world.api.asked[4].endswith(json.dumps({"key": VALUE}))
    assert all(f"Authorization: Bearer {VALUE}" in asked for asked in world.api.asked[5:])
    assert [VALUE in text or "r3al" in text or "bWU6cjNhbC1" in text for text in told] == [False] * 8, told
    assert "502" in told[7]
    assert [text.count(placeholder) > 0 for text in (told[0], *told[2:6])] == [True] * 5, told


def test_the_usual_tools_trust_the_gateway_and_packages_come(session: Session, world: Hosts) -> None:
    """Pip and Python, each with its own trust store; apt and pip from their usual places."""
    api = f"api.test:{world.api.port}"
    world.asked()
    said(session, f"pip download --no-deps --index-url https://me:$TOKEN@{api}/pip nothing 2>&1")
    python = said(
        session,
        "/usr/bin/python3 -c 'import os, urllib.request as u; "
        f'print(u.urlopen(u.Request("https://{api}/python", headers={{"X": os.environ["TOKEN"]}})).status)\'',
    )
    asked = world.asked()

    assert python == "200"
    assert [any(text.startswith(f"GET /{tool}") for text in asked) for tool in ("pip", "python")] == [
        True
    ] * 2
    basic = base64.b64encode(f"me:{VALUE}".encode()).decode()
    assert basic in "".join(asked)
    assert said(session, "apt-get update -q >/dev/null 2>&1; echo $?") == "0"
    assert said(session, "pip download -q --no-deps -d /tmp/six six >/dev/null 2>&1; echo $?") == "0"


def test_git_clones_and_pushes_with_a_token_that_the_session_does_not_have(
    session: Session, world: Hosts, tmp_path: Path
) -> None:
    """The recipe of docs/secrets.md: helper and user name are set once; a large push arrives whole."""
    repository = tmp_path / "private.git"
    subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
    for setting in ("http.receivepack", "http.uploadpack"):
        subprocess.run(["git", "-C", repository, "config", setting, "true"], check=True)
    world.api.serve_repositories(tmp_path, VALUE)
    origin = f"https://api.test:{world.api.port}"
    session.exec(f"git config --global credential.{origin}.username x-access-token")
    session.exec(
        f"""git config --global credential.{origin}.helper '!f() {{ echo "password=$TOKEN"; }}; f'"""
    )
    session.exec("git config --global user.name Ada && git config --global user.email ada@example.org")

    told = session.exec(
        f"git clone -q {origin}/repositories/private.git /tmp/private && cd /tmp/private && "
        "head -c 3000000 /dev/urandom > large && git add large && git commit -qm 'Add a large file' && "
        "git push -q origin HEAD:main && git fetch -q origin && "
        "git rev-parse HEAD origin/main; cd - >/dev/null",
        timeout=PATIENCE,
    )

    pushed = subprocess.check_output(["git", "-C", repository, "rev-parse", "main"], text=True).strip()
    assert (told.exit_code, told.text.split()[-2:]) == (0, [pushed] * 2), told.text
    subprocess.run(["git", "-C", repository, "fsck", "--strict"], check=True, capture_output=True)
    assert said(session, f"grep -rc '{VALUE}' ~/.gitconfig /tmp/private/.git/config").count(":0") == 2
    refused = session.exec(
        f"GIT_TERMINAL_PROMPT=0 TOKEN=wrong git ls-remote {origin}/repositories/private.git"
    )
    assert refused.exit_code == 128


ASK = """
import os, urllib.request
token = os.environ["TOKEN"]
def ask():
    headers = {{"Authorization": "Bearer " + token}}
    asked = urllib.request.Request("https://api.test:{port}/kernel", headers=headers)
    return urllib.request.urlopen(asked).read().decode()
answer = ask()
"""


def places_of(hf: Holdfast, session: Session, needle: bytes) -> list[str]:
    """Return where it is, in every part of a session except the gateway's own folder."""
    api, container = hf.engine.client.api, str(session.row.container_id)
    found = ["inspect"] if needle in json.dumps(api.inspect_container(container)).encode() else []
    pids = [int(row[1]) for row in api.top(container)["Processes"]]
    found += [f"memory of {pid}" for pid in pids if searching.in_memory(pid, needle)]
    for layer in hf.engine.files.layers(container)[:1]:
        found += searching.in_folder(layer, needle)
    return found


def exported(hf: Holdfast, row: SnapshotRow, folder: Path) -> Path:
    """Return the content of a snapshot's bundle, except the layers of its image, which are checked
    elsewhere.
    """
    keys = Keys(hf.home)
    keys.new()
    known = Remembered(hf.home.root / "cache" / "layers.json")
    for layer in image_layers.look(hf.engine, snapshot_image.obtain(hf.context, row)).layers:
        packed = BlobDescriptor(media.LAYER_ZSTD, layer, 1000, {media.RAW_BYTES: "5000"})
        known.add(f"{KINDS['zstd'][2]} {layer}", packed)
    with Thin(folder / "bundle.tar") as destination:
        send.send(hf.context, row, destination, SendOptions(sign=keys.signer(), compression="zstd"))
    with tarfile.open(folder / "bundle.tar") as archive:
        archive.extractall(folder / "bundle", filter="data")
    return folder / "bundle"


@pytest.mark.thorough
def test_the_value_is_nowhere_but_at_the_gateway(
    shared_hf: Holdfast, session: Session, world: Hosts, tmp_path: Path
) -> None:
    """Not in the container, its memory and files, the database, journal, recordings, snapshots or bundles,
    after it was used; nor of copies, in which the placeholder in their memory works all the same.
    """
    hf, gateway = shared_hf, shared_hf.home.root / "gateway"
    placeholder = said(session, "echo $TOKEN").encode()
    session.cell(ASK.format(port=world.api.port), timeout=PATIENCE)
    said(session, f'curl -sS -H "X-Key: $TOKEN" https://api.test:{world.api.port}/file > /srv/file')
    taken = session.snapshot("used")
    (copy,) = taken.fork(1, "copy")
    session.rewind(taken)
    world.api.asked.clear()
    session.suspend()
    images = [str(one) for one in searching.in_folder(hf.home.root, VALUE.encode(), but=[gateway])]
    session.resume()

    for each in (session, copy):
        told = each.cell("ask()", timeout=PATIENCE)
        assert told.status == "ok", told.error
        assert placeholder.decode() in (told.text or "")
        assert places_of(hf, each, VALUE.encode()) == []
        known = places_of(hf, each, placeholder)
        assert "inspect" in known
        assert any(place.startswith("memory") for place in known)
    assert [f"Authorization: Bearer {VALUE}" in asked for asked in world.api.asked] == [True, True]
    api: Any = hf.engine.client.api
    layer = api.inspect_image(snapshot_image.obtain(hf.context, taken.row))["GraphDriver"]["Data"]["UpperDir"]
    bundle = exported(hf, taken.row, tmp_path)
    assert searching.in_folder(bundle, VALUE.encode()) == []
    assert len(searching.in_folder(bundle, placeholder)) > 1
    taken.pack()
    logs = hf.engine.client.containers.get(hf_gateway(hf).id).logs()
    assert VALUE.encode() not in logs
    assert images + searching.in_folder(hf.home.root, VALUE.encode(), but=[gateway]) == []
    assert searching.in_folder(Path(layer), VALUE.encode()) == []
    # The same search finds what is there: in packed memory, in files of the image, in the database.
    held = searching.in_folder(hf.home.root, placeholder, but=[gateway])
    assert any(path.endswith(".pack") for path in held)
    assert any("holdfast.db" in path for path in held)
    assert searching.in_folder(Path(layer), placeholder) != []


# Attacks.


def called(session: Session, expression: str) -> str:
    told = session.cell(f"print({expression})", timeout=PATIENCE)
    assert told.status == "ok", told.error
    return told.stdout.strip()


def test_only_its_hosts_get_a_value(shared_hf: Holdfast, session: Session, world: Hosts) -> None:
    """Not another host, nor one without TLS or with a wrong certificate, nor after a redirect, nor for a
    session that only knows the placeholder.
    """
    stranger = shared_hf.new("stranger", secrets=[f"OTHER@api.test:{world.api.port}=another-value-99"])
    placeholder = said(session, "echo $TOKEN")
    world.asked()
    header = f'-H "Authorization: Bearer {placeholder}"'
    api, other = f"api.test:{world.api.port}", f"other.test:{world.other.port}"

    said(session, f"curl -sSk {header} https://{other}/other")
    said(session, f"curl -sS {header} http://api.test:{world.plain.port}/plain")
    said(
        session,
        f"curl -sSkL --location-trusted {header} 'https://{api}/redirect?https://{other}/{placeholder}'",
    )
    said(stranger, f"curl -sS {header} https://{api}/stranger")
    asked = world.asked()
    with_value = [text for text in asked if VALUE in text or "r3al" in text]
    assert [text.split()[1].partition("?")[0] for text in with_value] == ["/redirect"]
    assert len(asked) == 5
    assert f"GET /{placeholder} " in "".join(asked)

    assert "502" in said(session, f"curl -sSi {header} https://forged.test:{world.forged.port}/")
    assert world.asked() == []
    said(session, f"curl -sS {header} http://plain.test:{world.plain.port}/chosen")
    assert [f"Bearer {VALUE}" in text for text in world.asked()] == [True]
    stranger.remove()


def test_requests_that_disagree_about_their_host_are_not_sent(session: Session, world: Hosts) -> None:
    """In a tunnel: a different name in the TLS greeting or the request, two names or lengths, a second
    tunnel, and characters at which only some readers end a line.
    """
    placeholder = said(session, "echo $TOKEN")
    api, other = f"api.test:{world.api.port}", f"other.test:{world.other.port}"
    good = f"GET /good HTTP/1.1\r\nHost: {api}\r\nX: {placeholder}\r\nConnection: close\r\n\r\n"
    world.asked()

    def through(name: str, raw: str, place: str = api) -> str:
        return called(session, f"tunnel({place!r}, {name!r}, {raw.encode()!r})")

    assert through("api.test", good).startswith("HTTP/1.1 200")
    assert [VALUE in text for text in world.asked()] == [True]
    assert "closed" in through("other.test", good)
    through("api.test", good.replace(f"Host: {api}", f"Host: {other}"), other)
    assert [VALUE in text for text in world.asked()] == [False]
    for changed in (
        good.replace(f"Host: {api}", f"Host: {other}"),
        good.replace(f"Host: {api}", f"Host: {api}\r\nHost: {other}"),
        good.replace(f"Host: {api}\r\n", ""),
        good.replace("GET /good", f"GET https://{other}/good"),
        good.replace("GET /good", f"CONNECT {other}"),
        good.replace("X:", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\nX:") + "0\r\n\r\n",
        good.replace("X:", "Content-Length: 1\r\nContent-Length: 2\r\nX:"),
        good.replace("X:", "X :"),
        good.replace("X:", "Transfer-Encoding: chunked\r\nX:") + f"0\r\nTrailer: {placeholder}\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /good HTTP/0.9\r\n\r\n",
        good.replace(f"Host: {api}", f"Host: {api}\r\nHost: {api}"),
        good.replace("HTTP/1.1", "HTTP/2.0"),
        good.replace("X:", f"X: a\rHost: {other}\r\nX:"),
        good.replace("X:", f"X: a\r\n Host: {other}\r\nX:"),
        good.replace("X:", "X: a\0b\r\nX:"),
        good.replace("/good", "/good\0"),
        good.replace("GET", "G\x7fT"),
    ):
        answer = through("api.test", changed)
        assert not answer.startswith("HTTP/1.1 2"), (changed, answer)
    assert [text for text in world.asked() if VALUE in text and other in text] == []

    raw = (
        f"GET http://plain.test:{world.plain.port}/ HTTP/1.1\r\nHost: other.test\r\nX: {placeholder}\r\n\r\n"
    )
    assert called(session, f"exchange({raw.encode()!r})").startswith("HTTP/1.1 421")
    raw = f"GET https://{api}/ HTTP/1.1\r\nHost: {api}\r\nX: {placeholder}\r\n\r\n"
    assert called(session, f"exchange({raw.encode()!r})").startswith("HTTP/1.1 400")
    assert world.asked() == []


def test_http2_is_spoken_neither_to_the_host_of_a_secret_nor_to_the_session(
    session: Session, world: Hosts
) -> None:
    """Both prefer it: code other than the one bounded and judged here would read its frames."""
    place, offers = f"api.test:{world.api.port}", ("h2", "http/1.1")
    world.api.prefer(*offers)
    try:
        assert called(session, f"negotiated({place!r}, *{offers!r})") == "http/1.1"
        assert called(session, f"negotiated({place!r}, 'h2')") in ("None", "http/1.1")
        # Without the gateway between them they would speak it.
        direct = ssl.create_default_context()
        direct.check_hostname, direct.verify_mode = False, ssl.CERT_NONE
        direct.set_alpn_protocols(list(offers))
        with (
            socket.create_connection((world.address, world.api.port), 20) as one,
            direct.wrap_socket(one, server_hostname="api.test") as inner,
        ):
            assert inner.selected_alpn_protocol() == "h2"
    finally:
        world.api.prefer()


def test_the_gateway_does_not_lead_to_the_host(session: Session, world: Hosts) -> None:
    """Its loopback in any form, the cloud's name, names that lead there, and mitmproxy's own pages."""
    port = world.loopback.port
    places = (
        "127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433",
        "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "0.0.0.0", "0", "[::]", "rebound.test",
        "REBOUND.test.",
        "127.0.0.1.",
        "[fe80::1%25lo]", "cloud.test", "169.254.169.254", "%31%32%37.0.0.1",
    )  # fmt: skip

    answers = {place: called(session, f"connect('{place}:{port}')") for place in places}
    plain = {
        place: called(
            session, f"exchange(b'GET http://{place}:{port}/ HTTP/1.1\\r\\nHost: {place}\\r\\n\\r\\n')"
        )
        for place in places
    }

    assert {place: text[:60] for place, text in answers.items() if not text.startswith("HTTP/1.1 4")} == {}
    assert {place: text[:60] for place, text in plain.items() if not text.startswith("HTTP/1.1 4")} == {}
    assert world.loopback.came == 0
    pages = [
        called(session, f"exchange(b'GET {at} HTTP/1.1\\r\\nHost: mitm.it\\r\\n\\r\\n')")
        for at in ("http://mitm.it/", "/")
    ]
    assert [text[:12] for text in pages if "mitmproxy" in text.lower() or text.startswith("HTTP/1.1 2")] == []


@pytest.mark.thorough
def test_a_session_cannot_exhaust_the_gateway(shared_hf: Holdfast, session: Session, world: Hosts) -> None:
    """By heads without end, bodies to refused hosts, greetings that never end, or calls."""
    calm = shared_hf.new("calm", secrets=[f"OTHER@api.test:{world.api.port}=another-value-99"])
    container = hf_gateway(shared_hf)
    began = container.attrs["State"]["StartedAt"]
    endless = called(session, "exchange(b'GET http://api.test/ HTTP/1.1\\r\\nX: ' + b'a' * (4 << 20))[:12]")
    lines = ["POST http://cloud.test/ HTTP/1.1", "Host: cloud.test", "Transfer-Encoding: chunked", "", ""]
    body = repr("\r\n".join(lines).encode())
    called(session, f"exchange({body} + b'100000\\r\\n' + b'a' * (8 << 20))[:12]")
    many = "[socket.create_connection(GATEWAY, 20) for _ in range(200)]"
    open_ones = int(called(session, f"len(calls := {many})"))

    answer = said(calm, f'curl -sS -o /dev/null -w "%{{http_code}}" https://api.test:{world.api.port}/calm')

    assert endless in ("", "HTTP/1.1 431")
    assert open_ones == 200
    assert called(session, "ended(calls, 200 - 128)") == "True"
    assert answer == "200"
    assert hf_gateway(shared_hf).attrs["State"]["StartedAt"] == began
    calm.remove()
    session.cell("calls = None", timeout=PATIENCE)


def hf_gateway(hf: Holdfast) -> Any:
    (found,) = hf.engine.containers(holdfast_home=hf.home.digest, holdfast_role="gateway")
    return hf.engine.client.containers.get(found)
