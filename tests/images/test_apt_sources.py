"""The mirror a Debian host uses is found in both forms of apt's sources."""

from pathlib import Path

import pytest

from holdfast.images.apt_sources import AptMirror, choose, deb822_sources, host_mirror, one_line_sources

ONE_LINE = """\
# deb http://old.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/x.gpg] http://vendor.example/apt any main
deb [ trusted=no ] http://mirror.example/debian bookworm main contrib
deb http://mirror.example/debian bookworm-updates main
deb https://mirror.example/security bookworm-security main  # comment
"""

DEB822 = """\
Types: deb deb-src
# a comment between fields
URIs: http://mirror.example/debian
Suites: bookworm
 bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm

types: deb
uris: https://mirror.example/security
suites: bookworm-security
"""

FOUND = AptMirror("http://mirror.example/debian", "https://mirror.example/security")


def test_one_line_sources_give_the_mirror() -> None:
    """Comments, source packages and options do not confuse it."""
    assert choose(one_line_sources(ONE_LINE), "bookworm") == FOUND


def test_deb822_sources_give_the_mirror() -> None:
    """Continued lines, comments, disabled paragraphs and any case of field names are read."""
    assert choose(deb822_sources(DEB822), "bookworm") == FOUND


def test_vendor_repositories_are_not_mirrors() -> None:
    """A repository of anything but the host's own release is not used for Debian."""
    assert choose([("http://vendor.example/apt", "any")], "bookworm") is None


def test_media_are_not_mirrors() -> None:
    """An installation disc cannot serve a different release."""
    assert choose([("cdrom:[Debian]/", "bookworm")], "bookworm") is None


def test_lines_name_all_suites_of_a_release() -> None:
    """Updates and security fixes are part of a base image."""
    assert FOUND.lines("trixie") == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-updates main",
        "deb https://mirror.example/security trixie-security main",
    ]
    assert len(AptMirror("http://mirror.example/debian").lines("trixie")) == 2


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ('ID=debian\nVERSION_CODENAME=bookworm\nPRETTY_NAME="Debian"\n', FOUND),
        ("ID=ubuntu\nVERSION_CODENAME=bookworm\n", None),
        ("", None),
    ],
)
def test_only_a_debian_host_has_a_debian_mirror(
    tmp_path: Path, release: str, expected: AptMirror | None
) -> None:
    """Ubuntu's mirrors do not have Debian."""
    folder = tmp_path / "apt"
    (folder / "sources.list.d").mkdir(parents=True)
    (folder / "sources.list.d" / "debian.sources").write_text(DEB822)
    (tmp_path / "os-release").write_text(release)

    assert host_mirror(folder, tmp_path / "os-release") == expected
