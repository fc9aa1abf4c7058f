"""Sessions on images that were not made for them: shell, kernel, live snapshots and forks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.integration.any_image import OWN_PYTHON, image, works
from tests.integration.conftest import Cli
from tests.integration.kernel_beside import completes, is_beside

from holdfast.base.home import Home
from holdfast.errors import ImageError
from holdfast.runtime.api.controller import Holdfast
from holdfast.snapshots.layer import image as layer_image

__all__ = ["image"]  # a fixture

pytestmark = pytest.mark.timeout(600)  # the portable guest may have to be built first

ODD = """
FROM {base}
ENV GREETING=hello LD_LIBRARY_PATH=/usr/lib:/lib PYTHONHOME=/nowhere PYTHONPATH=/nowhere BASH_ENV=/nothing
RUN rm -rf /opt /tmp && mkdir -m 700 /opt && chown 12:34 /opt && ln -s /nowhere /workspace
WORKDIR /app/deep
RUN chmod 777 .
USER 1000
VOLUME /data/deep
HEALTHCHECK --interval=1s CMD touch /srv/healthy
ENTRYPOINT ["/bin/false"]
CMD ["/bin/false"]
ONBUILD RUN touch /srv/built
"""

# The files of our own session image, without its labels: an image whose Python has ipykernel.
WITH_KERNEL = """
FROM {base}
COPY --from={session} /usr/bin /usr/bin
COPY --from={session} /usr/lib /usr/lib
COPY --from={session} /usr/share/jupyter /usr/share/jupyter
RUN ln -s python3 /usr/bin/python && mkdir -p /opt/holdfast/lib && touch /opt/holdfast/lib/of-the-image
"""

# An environment of its own, first on PATH, without ipykernel. It has a package that ours has, too.
WITH_ENVIRONMENT = """
FROM {base}
COPY --from={session} /usr/bin /usr/bin
COPY --from={session} /usr/lib /usr/lib
RUN python3 -m venv --without-pip /env
RUN cd /usr/lib/python3/dist-packages && cp -r pexpect pip /env/lib/python3.*/site-packages
RUN echo 'mine = 1' >>"$(echo /env/lib/*/*/pexpect/__init__.py)"
ENV PATH=/env/bin:$PATH
"""


def test_a_system_of_any_release(hf: Holdfast, image: Callable[..., str]) -> None:
    """Nothing is installed in it; its files stay as they are, under the name that the caller used."""
    name = image("plain", "FROM {base}\nENV GREETING=hello\n")
    session = hf.new("plain", image=name)
    assert session.image == name
    shown = session.exec("echo $GREETING; pwd; type -P python3 holdfast-capture; echo $PATH")
    assert shown.text.splitlines() == [
        "hello",
        "/workspace",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ]
    assert session.run(["/bin/bash", "-c", "echo $0"]).stdout == b"/bin/bash\n"
    assert session.exec("readlink /proc/$$/exe").text == "/usr/bin/bash\n"
    completes(session)
    works(session, OWN_PYTHON)


@pytest.mark.parametrize(
    "takes_layers",
    [
        pytest.param(True, id=""),
        pytest.param(False, id="by a store that takes no layers", marks=pytest.mark.thorough),
    ],
)
def test_no_system_at_all(
    hf: Holdfast, image: Callable[..., str], monkeypatch: pytest.MonkeyPatch, takes_layers: bool
) -> None:
    """No libc, no shell, no /etc, no /tmp: one file that no program can run."""
    name = image("bare", files={"readme": b"nothing else\n"})
    if not takes_layers:
        monkeypatch.setattr(layer_image, "below", lambda *_: None)
    session = hf.new("bare", image=name)
    shown = session.exec("while read -r line; do echo $line; done </readme; echo *; cd /tmp && echo ~")
    assert shown.text.splitlines()[0] == "nothing else"
    assert shown.text.splitlines()[-1] == "/"  # what engines choose without /etc/passwd
    assert session.run(["/bin/bash", "-c", "echo ours"]).stdout == b"ours\n"
    assert session.files.read("/readme") == b"nothing else\n"
    works(session, OWN_PYTHON)


@pytest.mark.thorough
def test_heeded_and_ignored_settings(hf: Holdfast, image: Callable[..., str]) -> None:
    """User, folder and variables are the image's; its command, checks and triggers never run."""
    name = image("odd", ODD)
    session = hf.new("odd", image=name)
    shown = session.exec("id -u; id -g; pwd; echo $GREETING $LD_LIBRARY_PATH; touch mine && ls")
    assert shown.text.splitlines() == [
        "1000",
        "0",
        "/app/deep",
        "hello /usr/lib:/lib",
        "mine",
    ]
    assert session.exec("stat -c '%a %u:%g' /opt; ls -d /data/deep; ls -A /srv").text.splitlines() == [
        "711 12:34",
        "/data/deep",
    ]
    found = hf.engine.client.api.inspect_container(str(session.row.container_id))
    assert found["Config"]["Healthcheck"]["Test"] == ["NONE"]
    assert not [each for each in found["Mounts"] if each["Type"] == "volume"]


@pytest.mark.thorough
def test_the_kernel_of_the_image(hf: Holdfast, image: Callable[..., str]) -> None:
    """Cells run in its interpreter, with its packages. A guest that it had in our place is not seen."""
    name = image("jupyter", WITH_KERNEL)
    session = hf.new("jupyter", image=name)
    assert session.exec("test ! -e /opt/holdfast/lib/of-the-image").ok
    copies = works(session, "/usr/bin/python")
    for copy in copies:  # each draws random numbers of its own
        copy.cell("import random")
    assert len({copy.cell("random.random()").text for copy in copies}) == len(copies)


@pytest.mark.thorough
def test_an_environment_without_ipykernel(hf: Holdfast, image: Callable[..., str]) -> None:
    """Our ipykernel is added, and the environment's own packages win."""
    session = hf.new("beside", image=image("beside", WITH_ENVIRONMENT))
    copies = works(session, "/env/bin/python")
    is_beside(copies[0])
    assert copies[0].cell("import pexpect; pexpect.mine").text == "1"


@pytest.mark.thorough
def test_ours_takes_the_place_of_a_bash_that_cannot_be_driven(
    hf: Holdfast, cli: Cli, image: Callable[..., str]
) -> None:
    """The reason is reported; a request for the image's is refused in one line, and nothing is left."""
    place = "/usr/local/bin/bash"
    name = image("old", f"FROM {{base}}\nRUN echo '#!/bin/false' >{place} && chmod 755 {place}\n")
    made = cli("new", "it", "--image", name)
    why = (
        "the shell is Holdfast's own, not the image's /usr/local/bin/bash: it cannot load the "
        "builtin that marks its prompts"
    )
    assert (made.code, made.out) == (0, "it\n")
    assert why in made.err
    assert cli("exec", "it", "readlink /proc/$$/exe").out == "/opt/holdfast/bin/bash\n"
    for shell, reason in (("bash", "it cannot load"), ("zsh", "there is no such program in the session")):
        refused = cli("new", "never", "--image", name, "--shell", shell)
        assert refused.code == 1
        assert f"cannot use shell {shell}: {reason}" in refused.err
    assert [each.name for each in hf.sessions() if each.name == "never"] == []


@pytest.mark.thorough
def test_an_image_is_fitted_once(hf: Holdfast, home: Home, cli: Cli, image: Callable[..., str]) -> None:
    """Its name can be a user's; a second session finds the first one's image, also as a different user."""
    name = image("once", files={"a": b"1"})
    first = cli("new", "first", "--image", name)
    assert (first.code, first.out) == (0, "first\n")
    assert f"adding the guest to {name}, once for this image" in first.err
    second = cli("new", "second", "--image", name, "--user", "1000")
    assert (second.code, second.err) == (0, "")
    assert cli("exec", "second", "echo mine >mine; pwd; test -O mine; echo $?").out == "/workspace\n0\n"
    assert cli("ls").out.count(name) == 2


def test_unusable_images_are_refused_in_one_line(
    hf: Holdfast, cli: Cli, remains: Callable[[Home], list[str]]
) -> None:
    """Nothing is left behind."""
    name = "127.0.0.1:1/none/such:1"
    done = cli("new", "never", "--image", name)
    assert done.code == 1
    assert (
        "cannot use image 127.0.0.1:1/none/such:1: the engine does not have it, and cannot pull it"
        in done.err
    )
    assert [line for line in done.err.splitlines() if "cannot" in line][1:] == []
    with pytest.raises(ImageError, match="cannot use image"):
        hf.new("never", image=name)
    assert hf.sessions() == []
    assert remains(hf.home) == []
