"""The texts that bash gets in a session: a project's folders, its fetch, build, run and reading. Pure."""

from __future__ import annotations

import re
import shlex

from tests.compat.projects.project import Project

HOME = "/srv/compat"
# The project as it was built; a copy of it, new for each run; the output of a run; the host's folder.
TREE, RUN, LOG, GIVEN = f"{HOME}/tree", f"{HOME}/run", f"{HOME}/log", f"{HOME}/given"

# The tools that declarations fetch with. The lists of packages are those of the session's own mirror.
LIBRARY = r"""
export DEBIAN_FRONTEND=noninteractive
# Lists of packages, with those of sources.
lists() {
    [ -e /tmp/compat-lists ] && return
    if [ -s /etc/apt/sources.list ]; then
        sed -n 's/^deb \(.* main\)$/deb-src \1/p' /etc/apt/sources.list \
            >/etc/apt/sources.list.d/sources.list
    else
        sed -i 's/^Types: deb$/Types: deb deb-src/' /etc/apt/sources.list.d/*.sources
    fi
    apt-get update -qq && touch /tmp/compat-lists
}
# packages NAME...: install packages of Debian.
packages() {
    lists
    apt-get install -qq -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io "$@" >/dev/null
}
# unpacked COMMAND...: do it in a folder aside, and take what is in the one folder that it leaves.
unpacked() {
    local here=$PWD aside
    aside=$(mktemp -d)
    (cd "$aside" && "$@")
    cp -a "$aside"/*/. "$here"
    rm -rf "$aside"
}
# debian NAME: the source of a package of Debian, patched.
debian() {
    lists
    command -v dpkg-source >/dev/null || packages dpkg-dev
    unpacked apt-get source -qq "$1" >/dev/null
}
# debian_orig NAME: its source as its authors published it.
debian_orig() {
    lists
    unpacked _debian_orig "$1"
}
# A package of several parts has the main one first, and that is all that is wanted.
_debian_orig() {
    apt-get source -qq --tar-only "$1" >said 2>&1 || true  # it fails without dpkg-dev, after the download
    [ -e "$(echo *.orig.tar.* | cut -d' ' -f1)" ] || { grep ^E: said >&2; return 1; }
    tar -xf *.orig.tar.* && rm -f *.orig.tar.* said
}
# sdist NAME==VERSION: what a project of PyPI publishes as its source.
sdist() { unpacked _sdist "$1"; }
_sdist() { pip download -q --no-deps --no-binary :all: "$1" && tar -xf *.tar.gz; }
# pip_env NAME...: a virtual environment beside the project, with packages.
pip_env() { python3 -m venv /srv/compat/env && /srv/compat/env/bin/pip install -q "$@"; }
"""


def prepared(project: Project) -> str:
    """Fetch and build the project, in a shell of its own that ends at the first error."""
    given = f"cp -a {GIVEN}/. ." if project.folder else ":"
    script = f"set -eu\n{LIBRARY}\n{given}\n{project.fetch}\n{project.build}\n"
    return f"rm -rf {TREE}; mkdir -p {TREE}; (cd {TREE} && bash -c {shlex.quote(script)})"


def renewed() -> str:
    """Make the folder that a run begins in."""
    return f"cd {HOME}; rm -rf {RUN} {LOG}; cp -a {TREE} {RUN}"


def run(project: Project) -> str:
    """Run it; its output goes through a pipe to a file, and to the terminal of the job."""
    return f"cd {RUN}; (\n{project.run}\n) </dev/null 2>&1 | tee {LOG}; exit ${{PIPESTATUS[0]}}"


def version(project: Project) -> str:
    """Print the version."""
    return f"(cd {TREE} && bash -c {shlex.quote(LIBRARY + project.version)})"


def contents(path: str) -> str:
    """Print a file so that no terminal changes it."""
    return f"gzip -c {shlex.quote(path)} | base64 -w 120"


def digests(project: Project) -> str:
    """Print the digests of the files to compare, sorted by path; a link counts as its target."""
    # Patterns are the declaration's, to be expanded.
    patterns = " ".join(re.sub(r"[^\w./*?\[\]+-]", r"\\\g<0>", pattern) for pattern in project.files)
    return f"cd {RUN} && find {patterns} -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0r sha256sum"


def read_digests(text: str) -> dict[str, str]:
    """Return the output of `digests`, by path."""
    found = (line.partition("  ") for line in text.splitlines())
    return {path: digest[:16] for digest, _, path in found if re.fullmatch(r"\\?[0-9a-f]{64}", digest)}
