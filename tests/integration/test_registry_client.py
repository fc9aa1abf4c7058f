"""The client for registries works with a real registry, also on a bad line."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.machines.certificates import Authority
from tests.machines.registry import PASSWORD, USER, Registry
from tests.machines.relay import Relay
from tests.machines.tokens import TokenServer
from tests.snapshots.registry.fake import blob_of

from holdfast.errors import RegistryDenied, RegistryUnavailable
from holdfast.snapshots.bundle import media
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.registry.http_client import HttpClient
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.registry_endpoint import RegistryDestination, RegistryOrigin
from holdfast.snapshots.registry.registry_failures import Backoff
from holdfast.snapshots.registry.registry_login import RegistryCredentials

CHUNK = 256 << 10
LAYER = random.Random(1).randbytes(2 << 20)
SMALL = [random.Random(n).randbytes(30_000 + n) for n in range(5)]


def _wire(reference: str, user: RegistryCredentials | None = None) -> HttpClient:
    return HttpClient(
        Reference.parse(reference), find=lambda _host: user, patience=Backoff(first=0.01, most=0.1)
    )


def _push(reference: str, user: RegistryCredentials | None = None) -> tuple[str, bytes]:
    """Push something in the form of a bundle: an index, a manifest, layers."""
    config = b'{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}'
    named = [blob_of(each, media.LAYER_GZIP) for each in (LAYER, *SMALL)]
    told = ",".join(_told(each) for each in named)
    manifest = (
        f'{{"schemaVersion":2,"mediaType":"{media.MANIFEST}",'
        f'"config":{_told(blob_of(config, media.IMAGE_CONFIG))},"layers":[{told}]}}'
    ).encode()
    top = blob_of(manifest, media.MANIFEST)
    index = f'{{"schemaVersion":2,"mediaType":"{media.INDEX}","manifests":[{_told(top)}]}}'.encode()
    with RegistryDestination(_wire(reference, user), chunk=CHUNK) as end:
        for content in (config, LAYER, *SMALL):
            if not end.has(blob_of(content)):
                end.put(blob_of(content), io.BytesIO(content))
        end.put(top, io.BytesIO(manifest))
        return end.finish(index), index


def _told(blob: BlobDescriptor) -> str:
    return f'{{"mediaType":"{blob.media_type}","digest":"{blob.digest}","size":{blob.size}}}'


def _pull(reference: str, user: RegistryCredentials | None = None) -> tuple[bytes, list[bytes]]:
    with RegistryOrigin(_wire(reference, user)) as origin:
        return origin.index(), [origin.open(blob_of(each)).read() for each in (LAYER, *SMALL)]


def test_a_pushed_snapshot_is_pulled(registry: Registry) -> None:
    """Every byte; and it is found by its tag and by its digest."""
    reference = f"{registry.address}/client/plain:one"
    pinned, index = _push(reference)
    assert pinned.startswith(f"{reference}@sha256:")
    for name in (reference, pinned):
        assert _pull(name) == (index, [LAYER, *SMALL])


def test_basic_authentication(password_registry: Registry) -> None:
    """With the right password; without one, or with a wrong one, it is one clear line."""
    reference = f"{password_registry.address}/client/basic:one"
    _, index = _push(reference, RegistryCredentials(USER, PASSWORD))
    assert _pull(reference, RegistryCredentials(USER, PASSWORD))[0] == index
    with pytest.raises(RegistryDenied, match=r"user 'holdfast' or the password is not accepted$"):
        _pull(reference, RegistryCredentials(USER, "wrong"))
    with pytest.raises(RegistryDenied, match=r"it requires a login$"):
        _pull(reference)


def test_token_authentication(token_registry: Registry, token_server: TokenServer) -> None:
    """A token per scope, one for many requests; the password goes to their server only."""
    reference = f"{token_registry.address}/client/token:one"
    token_server.asked.clear()
    _, index = _push(reference, RegistryCredentials(USER, PASSWORD))
    assert token_server.asked == [["repository:client/token:pull,push"]]
    assert _pull(reference, RegistryCredentials(USER, PASSWORD))[0] == index
    assert token_server.asked[1:] == [["repository:client/token:pull"]]
    with pytest.raises(RegistryDenied, match=r"user 'holdfast' or the password is not accepted$"):
        _pull(reference, RegistryCredentials(USER, "wrong"))


@pytest.fixture
def relay(registry: Registry) -> Iterator[Relay]:
    with Relay(registry.port) as opened:
        yield opened


@pytest.mark.parametrize("after", [100, 700_000, 1_900_000])
def test_a_lost_connection_is_recovered(relay: Relay, after: int) -> None:
    """On the way up and on the way down."""
    reference = f"{relay.address}/client/lost-{after}:one"
    relay.cut_after(up=after)
    _push(reference)
    relay.wait()
    relay.cut_after(down=after)
    assert _pull(reference)[1] == [LAYER, *SMALL]
    relay.wait()


def test_a_restarted_registry_is_waited_for(tmp_path: Path) -> None:
    """Also one that is away for a moment."""
    with Registry(tmp_path / "registry") as registry, Relay(registry.port) as relay:
        relay.hold_at(b"PATCH", 3)
        command = _upload_command(f"{relay.address}/client/again:one", tmp_path)
        with subprocess.Popen(command) as uploading:
            relay.wait()
            registry.stop()
            relay.release()
            registry.start()
            assert uploading.wait(90) == 0
        assert _has(relay, "client/again")


_UPLOAD = """
import sys
from pathlib import Path
from holdfast.snapshots.bundle.endpoints import BlobDescriptor
from holdfast.snapshots.registry.registry_endpoint import RegistryDestination
from holdfast.snapshots.registry.reference import Reference
from holdfast.snapshots.registry.http_client import HttpClient

reference, folder, digest, chunk = sys.argv[1:]
layer = Path(folder, "layer")
blob = BlobDescriptor("application/octet-stream", digest, layer.stat().st_size)
client = HttpClient(Reference.parse(reference))
with (
    RegistryDestination(client, Path(folder, "uploads"), chunk=int(chunk)) as end,
    layer.open("rb") as file,
):
    end.put(blob, file)
"""


def _upload_command(reference: str, folder: Path) -> list[str]:
    (folder / "layer").write_bytes(LAYER)
    return [sys.executable, "-c", _UPLOAD, reference, str(folder), blob_of(LAYER).digest, str(CHUNK)]


def _has(registry: Relay, repository: str) -> bool:
    url = f"http://127.0.0.1:{registry.target}/v2/{repository}/blobs/{blob_of(LAYER).digest}"
    return httpx.head(url).status_code == 200


def _requests(registry: Registry, method: str, repository: str) -> int:
    return sum(each.startswith(f"{method} /v2/{repository}/") for each in registry.requests())


def _killed(relay: Relay, command: list[str]) -> None:
    with subprocess.Popen(command) as uploading:
        relay.wait()
        os.kill(uploading.pid, signal.SIGKILL)
    relay.release(drop=True)


def test_a_killed_transfer_continues(registry: Registry, relay: Relay, tmp_path: Path) -> None:
    """The next process sends the missing parts, and nothing twice."""
    relay.hold_at(b"PATCH", 5)
    command = _upload_command(f"{relay.address}/client/killed:one", tmp_path)
    _killed(relay, command)
    sent = relay.up
    assert not _has(relay, "client/killed")
    assert subprocess.run(command, check=False, timeout=90).returncode == 0
    assert _has(relay, "client/killed")
    assert _requests(registry, "POST", "client/killed") == 1
    assert relay.up < len(LAYER) + 20_000
    assert sent > 3 * CHUNK


def test_a_transfer_killed_within_a_piece_arrives(registry: Registry, relay: Relay, tmp_path: Path) -> None:
    """This registry discards an upload of which it got half a piece; then it is started again."""
    relay.hold_after(up=3 * CHUNK + CHUNK // 2)
    command = _upload_command(f"{relay.address}/client/half:one", tmp_path)
    _killed(relay, command)
    assert subprocess.run(command, check=False, timeout=90).returncode == 0
    assert _has(relay, "client/half")
    assert list((tmp_path / "uploads").iterdir()) == []


def test_tls_with_an_authority_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate is checked, also on this machine; its signer can be named."""
    authority = Authority(tmp_path)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with Registry(tmp_path / "registry", tls=authority.issue("127.0.0.1")) as registry:
        reference = f"{registry.address}/client/tls:one"
        with pytest.raises(RegistryUnavailable, match="its certificate is not trusted"):
            _push(reference)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        _push(reference)
        assert _pull(reference)[1] == [LAYER, *SMALL]


def test_an_absent_registry_is_one_line(relay: Relay) -> None:
    """After a bounded number of tries."""
    relay.close()
    with pytest.raises(RegistryUnavailable, match=r"cannot reach 127\.0\.0\.1:.*: there is no connection"):
        _pull(f"{relay.address}/client/none:one")
