"""The sources of images for sessions, as a controller offers them: each call returns a name for `new`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdfast.errors import ImageError, InvalidArgument
from holdfast.runtime.sessions.session_options import SessionOptions

if TYPE_CHECKING:
    from holdfast.runtime.operations.context import Context

POLICIES = ("missing", "always", "never")


class ImageSources:
    """Images that are built, loaded or pulled into the engine of one home."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def build(
        self,
        folder: str | Path,
        *,
        file: str | Path | None = None,
        arguments: Mapping[str, str] | None = None,
        target: str | None = None,
        network: Literal["internet", "none", "engine"] | None = None,
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        remote_sources: bool = False,
    ) -> str:
        """Build an image of a folder with a Dockerfile, and return its name.

        The folder is not trusted: its steps have the network rules of a session, which only the older of the
        engine's builders can give them. In the other networks BuildKit does it, where Docker's command has
        that. `gc` removes the image when it is a week old and no session uses it.

        Args:
            folder: the context of the build; its .dockerignore is heeded.
            file: the Dockerfile; by default `Dockerfile` in the folder.
            arguments: values of ARG, by name.
            target: the stage to build; by default the last one.
            network: of the steps: `internet` (the default), `none`, or `engine`, which is the engine's own,
                without rules.
            allow: destinations `HOST:PORT` that steps reach although they are private, as for a session.
            deny: addresses and networks that steps do not reach, as for a session.
            remote_sources: the engine may fetch, from the host's network, what the Dockerfile names: URLs of
                ADD, a foreign frontend, images of registries on this machine.

        Raises:
            InvalidArgument: an argument or the target is not the name of one, or the network does not exist.
            ImageError: the folder or its Dockerfile is missing, it has the engine fetch what it may not, or
                the build failed; the hint is the end of its output.
            NetworkNotClosed: steps cannot have the rules of a session on this engine.
            EngineError: the engine refuses.
        """
        from holdfast.runtime.lifecycle import image_build

        rights = image_build.BuildRights.of(network, allow, deny, remote=remote_sources)
        wanted = image_build.ImageBuild.of(folder, file, None, target, private=arguments, rights=rights)
        return image_build.build(self._context, wanted)

    def load(self, path: str | Path) -> str:
        """Load an image from an archive of `docker save` or an OCI layout, and return its name.

        The names that the file gives the image are not used. `gc` removes it as one that was built.

        Args:
            path: an archive, compressed or not, or the folder of an OCI layout.

        Raises:
            ImageError: the file does not exist, does not hold one image for this engine, or it is damaged.
            EngineError: the engine refuses.
        """
        from holdfast.runtime.lifecycle import load_image

        return load_image.load(self._context, Path(path))

    def pull(self, name: str, policy: Literal["missing", "always", "never"] = "missing") -> str:
        """Ensure that the engine has an image of this name, and return the name.

        Args:
            name: of the image, as for `new`.
            policy: when its registry is asked: if the engine lacks the image, `always`, or `never`.

        Raises:
            InvalidArgument: the name or the policy is not valid.
            ImageError: the registry does not give it, or the engine lacks it and must not ask.
            EngineError: the engine refuses.
        """
        from holdfast.runtime.lifecycle import chosen_image

        if policy not in POLICIES:
            raise InvalidArgument(
                f"cannot pull '{policy}': it is {', '.join(POLICIES[:-1])} or {POLICIES[-1]}"
            )
        SessionOptions.parse(image=name)
        there = self._context.engine.images.exists(name)
        if policy == "never" and not there:
            raise ImageError(
                f"cannot use image {name}: the engine does not have it, and must not pull it",
                hint=f"`docker pull {name}`, or --pull missing",
            )
        if policy == "always" or not there:
            chosen_image.pull(self._context, name)
        return name
