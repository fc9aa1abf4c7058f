"""The environment of processes on the host."""

from __future__ import annotations

import pytest

from holdfast.base import host_environment

HOSTILE = (
    *("DOCKER_CONFIG", "DOCKER_HOST", "BUILDX_CONFIG", "BUILDKIT_SYNTAX", "LD_PRELOAD", "LD_AUDIT", "PATH"),
    *("HOME", "https_proxy", "HTTPS_PROXY", "SSL_CERT_FILE", "GODEBUG", "GOTRACEBACK", "BASH_ENV", "ENV"),
    *("NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "PERL5OPT", "RUBYOPT", "TMPDIR"),
    *("XDG_CONFIG_HOME", "SSH_ASKPASS", "GLIBC_TUNABLES", "OTEL_EXPORTER_OTLP_ENDPOINT"),
)


def test_only_known_variables_of_the_caller_are_passed() -> None:
    given = {"PATH": "/bin", "DOCKER_HOST": "unix:///d", "LC_ALL": "C", "HTTPS_PROXY": "p", "no_proxy": "n"}
    others = {"LD_PRELOAD": "/x.so", "GODEBUG": "x", "SECRET_OF_SOMETHING": "s", "BASH_ENV": "/x"}
    assert host_environment.of_caller(given | others) == given
    assert host_environment.with_settings({"A": "b"}, {"VERSION": "1"}, given | others) == {
        **given,
        "A": "b",
        "VERSION": "1",
    }


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_decides_is_never_passed(name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} decides"):
        host_environment.with_settings({}, {name: "x"}, {})


def test_usual_names_decide_nothing() -> None:
    for name in ("VERSION", "NPM_TOKEN", "PIP_INDEX_URL", "NODE", "ENVIRONMENT", "GITHUB_TOKEN", "DEBIAN"):
        assert not host_environment.decides(name), name
