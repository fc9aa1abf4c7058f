"""Behind a company's proxy, with a company's certificate authority, however the environment names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.conftest import Cli
from tests.machines.certificates import Authority
from tests.machines.forwarding import Proxy, listening, to_engine
from tests.machines.registry import Registry

from holdfast.engine.engine import Engine
from holdfast.images import authorities, build
from holdfast.images.build_context import BuildContext, ContextFile
from holdfast.runtime.api.controller import Holdfast

pytestmark = pytest.mark.thorough

NAME = "registry.company.test"
VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
PROXIES = tuple(
    spelled
    for name in ("https_proxy", "all_proxy", "no_proxy", "http_proxy")
    for spelled in (name, name.upper())
)
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Registry, Path]]:
    """A registry by a name that only the proxy knows, and the authority that signed its certificate."""
    folder = tmp_path_factory.mktemp("company")
    authority = Authority(folder)
    with Registry(folder / "registry", tls=authority.issue_name(NAME)) as registry:
        yield registry, authority.certificate


@pytest.fixture(autouse=True)
def bare(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither proxies nor authorities are named, but by the test."""
    for name in (*VARIABLES, *PROXIES):
        cli.environment.pop(name, None)
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("proxy", "trust"),
    [
        ("HTTPS_PROXY", "SSL_CERT_FILE"),
        ("https_proxy", "REQUESTS_CA_BUNDLE"),
        ("ALL_PROXY", "CURL_CA_BUNDLE"),
    ],
)
def test_a_registry_is_reached_through_the_proxy(
    proxy: str, trust: str, cli: Cli, company: tuple[Registry, Path]
) -> None:
    """By each spelling; its certificate is trusted by each of the usual variables, and not without."""
    registry, authority = company
    asked = Proxy(registry.port)
    with listening(asked) as port:
        way = {proxy: f"http://127.0.0.1:{port}"}
        found = cli("pull", f"{NAME}/team/work:1", **way, **{trust: str(authority)})
        distrusted = cli("pull", f"{NAME}/team/work:1", **way)

    assert "the registry does not have it" in found.err, found.err
    assert "its certificate is not trusted" in distrusted.err
    assert set(asked.asked) == {f"{NAME}:443"}


def test_a_proxy_that_refuses_is_named(cli: Cli, company: tuple[Registry, Path]) -> None:
    """In one line, immediately."""
    with listening(Proxy(company[0].port, refusing=True)) as port:
        done = cli("pull", f"{NAME}/team/work:1", HTTPS_PROXY=f"http://127.0.0.1:{port}")

    assert "the proxy on the way refuses (407 Proxy Authentication Required)" in done.err
    assert "HTTPS_PROXY may hold a name and a password" in done.err


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:1080", "nonsense://proxy"])
def test_a_proxy_of_a_different_kind_is_refused(address: str, cli: Cli) -> None:
    done = cli("pull", f"{NAME}/team/work:1", ALL_PROXY=address)

    assert (done.code, len(done.err.splitlines())) == (1, 2)
    assert done.err.startswith(f"holdfast: cannot reach {NAME}: ALL_PROXY must name HTTP proxies")


def test_a_bundle_without_certificates_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").touch()
    done = cli("pull", f"{NAME}/team/work:1", REQUESTS_CA_BUNDLE=str(tmp_path / "empty.pem"))

    assert f"REQUESTS_CA_BUNDLE names {tmp_path}/empty.pem, which does not contain certificates" in done.err


def test_no_proxy_lies_on_the_way_to_this_machine(cli: Cli, hf: Holdfast, registry: Registry) -> None:
    """Neither to the engine, by its socket or by TCP, nor to a registry; at IPv6 addresses here."""
    proxies = dict.fromkeys(PROXIES, NOWHERE) | {"no_proxy": "", "NO_PROXY": ""}
    assert cli("gc", **proxies).code == 0
    with listening(to_engine, "::1") as engine, listening(registry.connect, "::1") as port:
        proxies["DOCKER_HOST"] = f"tcp://[::1]:{engine}"
        for words in (["new", "--name", "work"], ["exec", "work", "true"], ["rm", "work"]):
            done = cli(*words, **proxies)
            assert done.code == 0, (words, done.err)
        done = cli("pull", f"[::1]:{port}/team/nothing:1", **proxies)
        assert "the registry does not have it" in done.err, done.err


def test_a_build_uses_a_proxy_of_this_machine(
    company: tuple[Registry, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One on the host's loopback, which containers do not share; named in the spelling apt does not read."""
    kind = "proxy-trial"
    registry, authority = company
    recipe = f"ARG BASE\nFROM ${{BASE}}\nCOPY ca /ca\nRUN curl -fsS --cacert /ca https://{NAME}/v2/\n"
    files = {f"{kind}/Dockerfile": recipe.encode(), "ca": authority.read_bytes()}
    made_of = BuildContext(kind, {name: ContextFile(data) for name, data in files.items()})
    tag = f"holdfast/{kind}:{made_of.digest}"
    asked = Proxy(registry.port)
    engine = Engine.connect()
    try:
        session = build.ensure(engine.images, "session")
        with listening(asked) as port:
            monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
            build.once(engine.images, made_of, tag, lambda: session, lambda _line: None, tmp_path, turn=kind)
        assert asked.asked == [f"{NAME}:443"]
    finally:
        engine.images.untag(tag)
        engine.close()


def test_an_image_with_other_authorities_is_found(tmp_path: Path) -> None:
    """A build says that it is there before it begins; the engine lists it by its labels."""
    kind = "authorities-trial"

    def context(*trusted: str) -> BuildContext:
        recipe = {f"{kind}/Dockerfile": ContextFile(b"FROM scratch\nCOPY host-ca /host-ca\n")}
        certificates = {f"host-ca/holdfast-{name}.crt": ContextFile(b"") for name in trusted}
        return BuildContext(kind, recipe | certificates)

    engine = Engine.connect()
    made: list[str] = []
    said: list[str] = []
    try:
        for trusted in (("theirs", "both"), ("both", "ours")):
            tag = f"holdfast/{kind}:{context(*trusted).digest}"
            made.append(
                build.once(engine.images, context(*trusted), tag, str, said.append, tmp_path, turn=kind)
            )
        (line,) = (line for line in said if "other certificate authorities" in line)
        assert line.startswith(
            f"{kind}: {made[0]} is the same with other certificate authorities (1 more, 1 fewer)"
        )
        assert f"`docker tag {made[0]} {made[1]}`" in line
        assert authorities.find(engine.images, context("both")) is not None
    finally:
        for tag in made:
            engine.images.untag(tag)
        engine.close()
