"""Interpreters of images without ipykernel: pyenv's here, Debian's, and one on musl.

Each is a whole test of a session: cells in it, a live snapshot, forks, a restore (`any_image.works`).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.any_image import image, release, works
from tests.integration.kernel_beside import is_beside

from holdfast.runtime.api.controller import Holdfast

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(1200)

VERSIONS = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser() / "versions"
BUILT = sorted(each for each in VERSIONS.glob("3.*") if int(each.name.split(".")[1]) >= 8)

PREFIX = """
FROM {base}
RUN apt-get update -q && apt-get install -q -y --no-install-recommends \
    libbz2-1.0 libffi8 liblzma5 libreadline8t64 libsqlite3-0 libssl3t64 libstdc++6 zlib1g
"""

MUSL = r"""
FROM {base} AS built
RUN sed -i 's/^Types: deb$/Types: deb deb-src/; s/^deb \(.*\)/&\ndeb-src \1/' \
    $(ls /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null)
RUN apt-get update -q && apt-get install -q -y --no-install-recommends \
    autoconf automake dpkg-dev gcc libc6-dev libltdl-dev libtool make musl-tools pkgconf xz-utils
WORKDIR /usr/src
RUN apt-get source -q --download-only --tar-only libffi python3.13 zlib
RUN for each in *.tar.*; do tar -xf $each; done
# Debian's wrapper of gcc has no headers of the kernel, and names the C library of gcc.
RUN cd /usr/include && ln -s $PWD/linux $PWD/asm-generic $PWD/x86_64-linux-gnu/asm x86_64-linux-musl/
RUN mkdir /musl && chmod +x $(printf >/musl/cc '%s\n' '#!/bin/sh' \
    '[ "$1" = --print-multiarch ] && exec echo x86_64-linux-musl' 'exec musl-gcc "$@"'; echo /musl/cc)
ENV CC=/musl/cc CFLAGS="-O1 -fPIC" PKG_CONFIG_LIBDIR=/musl/lib/pkgconfig
RUN cd zlib-* && ./configure --static --prefix=/musl && make -s -j2 install
RUN cd libffi-* && autoreconf -i && \
    ./configure -q --build=x86_64-linux-musl --disable-shared --disable-docs --prefix=/musl && \
    make -s -j2 install
RUN cd Python-* && ./configure -q --build=x86_64-linux-musl --without-ensurepip --disable-test-modules && \
    make -s -j2 && make -s install
FROM scratch
COPY --from=built /usr/local /usr/local
COPY --from=built /lib/ld-musl-x86_64.so.1 /lib/ld-musl-x86_64.so.1
COPY --from=built /usr/lib/x86_64-linux-musl/libc.so /usr/lib/x86_64-linux-musl/libc.so
ENV PATH=/usr/local/bin
"""
"""CPython, built with musl of Debian's sources, and nothing else but musl."""


@pytest.mark.parametrize("prefix", BUILT, ids=[each.name for each in BUILT])
def test_a_version_in_a_prefix_of_its_own(hf: Holdfast, image: Callable[..., str], prefix: Path) -> None:
    """As with conda and images of Python: first on PATH, in no folder of the system, with pip."""
    base = image("prefix", PREFIX)
    container = hf.engine.client.containers.create(base, ["-"])
    name = f"holdfast-test/built:{hf.home.digest}"
    try:
        command = ["tar", "-c", "--exclude=site-packages", "--exclude=__pycache__", "-C", "/", str(prefix)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as packed:
            assert packed.stdout
            container.put_archive("/", packed.stdout)
        container.commit(name, changes=f"ENV PATH={prefix}/bin:/usr/bin:/bin")
    finally:
        container.remove(force=True)
    image("last", f"FROM {name}\n")
    hf.engine.client.images.remove(name)
    session = hf.new("it", image=f"holdfast-test/last:{hf.home.digest}")
    copies = works(session, str(prefix / "bin" / "python"))
    is_beside(copies[0])


@pytest.mark.parametrize("suite", ["bullseye", "bookworm", "trixie", "sid"])
def test_the_python_of_a_release(hf: Holdfast, image: Callable[..., str], suite: str) -> None:
    """Debian's own, whose packages are in `dist-packages`, and with the C library of their time."""
    session = hf.new("it", image=release(hf, image, suite, "python3,python3-pip"))
    copies = works(session, "/usr/bin/python3")
    is_beside(copies[0])


def test_an_interpreter_on_musl(hf: Holdfast, image: Callable[..., str]) -> None:
    """With our packages that were compiled for musl, and without a shell or a program besides."""
    session = hf.new("it", image=image("musl-python", MUSL))
    copies = works(session, "/usr/local/bin/python3")
    is_beside(copies[0])
    compiled = copies[0].cell("import zmq; zmq.__file__").text
    assert compiled == "'/opt/holdfast/kernels/cp312-musl/zmq/__init__.py'"
