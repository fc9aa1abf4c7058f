"""The Docker engine, as far as Holdfast needs it.

A thin driver: it decides nothing, knows no sessions, and lets no type or error of the SDK through. Importing
this module is cheap; the SDK is imported on connecting.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.base import polling
from holdfast.base.interrupts import held
from holdfast.engine import disk_limits, engine_place, frozen_groups, machine_facts
from holdfast.engine.container_files import ContainerFiles
from holdfast.engine.container_state import ContainerState, state_of
from holdfast.engine.engine_connection import asked, connected, require_here
from holdfast.engine.engine_faults import is_lost_start, translated, unmounted
from holdfast.engine.engine_images import EngineImages
from holdfast.engine.engine_layers import EngineLayers
from holdfast.engine.engine_place import EnginePlace
from holdfast.engine.exec_stream import ExecStream
from holdfast.engine.quick_list import label_filters
from holdfast.errors import EngineError, ImageError

if TYPE_CHECKING:
    import docker

PAUSE_SECONDS = 30


class Engine:
    """One Docker engine."""

    def __init__(self, client: docker.DockerClient) -> None:
        self.client = client
        self.layers = EngineLayers(client)
        self.images = EngineImages(client, self.layers)
        self.files = ContainerFiles(client, self.layers)

    @classmethod
    def connect(cls) -> Engine:
        """Connect to the engine of DOCKER_HOST, else that of Docker's context, else the local one.

        Raises:
            EngineUnavailable: no engine answers, or it is on another machine; or the context does not exist.
        """
        place = engine_place.find()
        require_here(place)
        return cls.reach(place)

    @classmethod
    def reach(cls, place: EnginePlace) -> Engine:
        """Connect to an engine, wherever it is.

        Raises:
            EngineUnavailable: none answers.
        """
        return cls(connected(place))

    @property
    def socket(self) -> str:
        """The path of the engine's unix socket; empty if it is reached in another way."""
        adapter = self.client.api.get_adapter(self.client.api.base_url)
        return str(getattr(adapter, "socket_path", ""))

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def version(self) -> dict[str, Any]:
        """Return the server's report of `docker version`."""
        with translated("ask Docker for its version"):
            return dict(self.client.version())

    def info(self) -> dict[str, Any]:
        """Return the engine's report of `docker info`."""
        with translated("ask Docker about itself"):
            return dict(self.client.info())

    @cached_property
    def unfit(self) -> str:
        """Why sessions cannot run on it; empty if they can."""
        return machine_facts.unfit(self._description)

    @cached_property
    def disk_fault(self) -> str:
        """Why it cannot limit what a container writes to its files; empty if it can."""
        return disk_limits.fault(self._description, Path("/proc/self/mountinfo").read_bytes())

    @cached_property
    def _description(self) -> dict[str, Any]:
        """The engine's own description, of which only the constant parts are used."""
        return self.info()

    @cached_property
    def title(self) -> str:
        """The engine's name and version; empty if it does not report them."""
        version = self._version
        names = [str(part.get("Name", "")) for part in version.get("Components") or []][:1]
        return f"{'docker' if names in ([], ['Engine']) else names[0]} {version.get('Version', '')}".strip()

    @cached_property
    def platform(self) -> str:
        """Its operating system and architecture, as `linux/amd64`."""
        return f"{self._version.get('Os', '')}/{self._version.get('Arch', '')}"

    @cached_property
    def _version(self) -> dict[str, Any]:
        """The engine's own version report. The engine runs other programs for it, which takes 10 ms."""
        return self.version()

    # Containers.

    def create_session_container(self, **options: Any) -> str:
        """Create a container from options of the SDK's `containers.create` and return its id.

        A container of the same name is an error, never replaced. The SDK would ask for the new container's
        description as well, which nothing needs.
        """
        from docker.models.containers import ContainerCollection

        class Unseen(ContainerCollection):  # type: ignore[misc, unused-ignore]
            def get(self, container_id: str) -> Any:
                return self.prepare_model({"Id": container_id})

        with translated("create container"):
            return str(Unseen(client=self.client).create(**options).id)

    def reserve(self, name: str, image: str, labels: Mapping[str, str]) -> str | None:
        """Reserve a container's name by a container that is never started, and return its id.

        None if the name is taken, even by a container that the engine is still creating.
        """
        import docker.errors

        with translated("ask for the name of a container"):
            try:
                return str(self.client.api.create_container(image, name=name, labels=dict(labels))["Id"])
            except docker.errors.APIError as error:
                if error.status_code != 409:
                    raise
        return None

    def start(self, container_id: str) -> None:
        """Start a created container; once more if its runtime lost it on the way.

        Raises:
            ImageError: something of its image is in the way of a mount.
        """
        import docker.errors

        with translated("start container"):
            try:
                self.client.api.start(container_id)
            except docker.errors.APIError as error:
                if place := unmounted(str(error.explanation)):
                    raise ImageError(
                        f"cannot start container: nothing can be mounted at {place} in its image",
                        hint=(
                            "the image has a file or a link there or above it, or one of the two is a folder "
                            "and the other is not"
                        ),
                    ) from error
                if not is_lost_start(str(error.explanation)):
                    raise
                self.client.api.start(container_id)

    def signal(self, container_id: str, number: int) -> None:
        """Send a signal to a container's first process."""
        with translated("send a signal to a container"):
            self.client.api.kill(container_id, number)

    def limit_processes(self, container_id: str, most: int) -> None:
        """Change the limit of processes and threads in a container. The SDK has no parameter for it."""
        with translated("limit the processes of a container"):
            api: Any = self.client.api
            answer = api._post_json(api._url("/containers/{0}/update", container_id), {"PidsLimit": most})
            api._raise_for_status(answer)

    def inspect(self, container_id: str) -> ContainerState | None:
        """Return the state of a container; None if there is none of this id or name."""
        found = self._raw(container_id)
        return None if found is None else state_of(found)

    def inspect_with_layers(self, container_id: str) -> tuple[ContainerState, list[Path]] | None:
        """Return the state of a container and its layers, as `files.layers` does; None if there is none."""
        found = self._raw(container_id)
        return None if found is None else (state_of(found), self.layers.of_container(found))

    def containers(self, **labels: str) -> dict[str, dict[str, str]]:
        """Return labels by id of all containers, running or not, that have these labels (`_` stands
        for `.`).
        """
        with translated("list containers"):
            found = self.client.api.containers(all=True, filters={"label": label_filters(labels)})
        return {str(item["Id"]): dict(item["Labels"]) for item in found}

    def running(self, **labels: str) -> set[str]:
        """Return the ids of running containers that have these labels."""
        with translated("list containers"):
            wanted = {"label": label_filters(labels), "status": ["running"]}
            found = asked(self.client, "/containers/json", filters=json.dumps(wanted))
        return {str(item["Id"]) for item in found}

    def kill_remove(self, container_id: str) -> bool:
        """Kill a container and remove it; False if there was none."""
        import docker.errors

        with translated("remove container"):
            if frozen_groups.thaw_command(container_id):
                # A frozen process does not end when it is killed. The engine thaws what it calls paused.
                with suppress(docker.errors.APIError):
                    self.client.api.pause(container_id)
            try:
                self.client.api.remove_container(container_id, force=True, v=True)
            except docker.errors.NotFound:
                return False
            except docker.errors.APIError as error:
                # Another caller is removing it, or it was killed and a busy engine has not yet noticed:
                # wait until that is done.
                if any(
                    said in str(error) for said in ("did not receive an exit event", "is zombie and can not")
                ):
                    self._wait_ended(container_id)
                    return self.kill_remove(container_id)
                if error.status_code != 409 or "already in progress" not in str(error):
                    raise
                self._wait_removed(container_id)
        return True

    @contextmanager
    def paused(self, container_id: str) -> Iterator[None]:
        """Pause the processes of a container for the duration of the block."""
        with held():
            self.pause(container_id)
        try:
            yield
        finally:
            with held():
                self._continue(container_id)

    def _continue(self, container_id: str) -> None:
        """Resume the processes of a container, unless it was killed in the meantime."""
        try:
            self.unpause(container_id)
        except EngineError:
            state = self.inspect(container_id)
            if state is not None and state.running:
                raise

    def pause(self, container_id: str) -> None:
        """Stop the processes of a container until `unpause`; a paused one stays paused.

        A process that waits for memory which a restore is still loading cannot be stopped before it arrives;
        then the engine gives up at once, and is asked again.
        """

        def done() -> bool:
            with translated("pause container"):
                self.client.api.pause(container_id)
            return True

        def paused() -> bool:
            try:
                return done()
            except EngineError as error:
                if "unable to freeze" not in str(error) and "already paused" not in str(error):
                    raise
                return "already paused" in str(error)

        if not polling.until(paused, PAUSE_SECONDS, 0.1):
            done()

    def unpause(self, container_id: str) -> None:
        """Resume the processes of a paused container."""
        with translated("unpause container"):
            self.client.api.unpause(container_id)

    def logs(self, container_id: str) -> bytes:
        """Return the last lines that the container's first process wrote."""
        with translated("read the log of a container"):
            return bytes(self.client.api.logs(container_id, tail=20))

    def run_inside(
        self, container_id: str, command: list[str], environment: Mapping[str, str], what: str
    ) -> tuple[int, bytes]:
        """Run a command as root in a container; return its exit code and its output.

        Raises:
            EngineError: "cannot <what>: …".
        """
        with translated(what):
            inside = self.client.containers.get(container_id)
            done = inside.exec_run(command, user="0:0", environment=dict(environment))
        return int(done.exit_code or 0), done.output if isinstance(done.output, bytes) else b""

    def join_inside(self, container_id: str, command: list[str], what: str) -> ExecStream | None:
        """Run a command as root in a container, joined to its streams; None if the container does not run.

        Raises:
            EngineError: "cannot <what>: …".
        """
        import docker.errors

        api = self.client.api
        with translated(what):
            try:
                made = api.exec_create(container_id, command, stdin=True, user="0:0")
                return ExecStream(api.exec_start(made["Id"], socket=True))
            except docker.errors.APIError as error:
                if error.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                    raise
        return None

    def run_service(self, image: str, what: str, **options: Any) -> bool:
        """Start a container in the background, with options of the SDK; False if its name is taken.

        Raises:
            EngineError: "cannot <what>: …".
        """
        import docker.errors

        with translated(what):
            try:
                self.client.containers.run(image, detach=True, **options)
            except docker.errors.APIError as error:
                if error.status_code == HTTPStatus.CONFLICT:
                    return False
                raise
        return True

    def images_in_use(self) -> frozenset[str]:
        """Return ids and names of the images that containers, running or not, were made from."""
        with translated("list containers"):
            found = self.client.api.containers(all=True)
        return frozenset(str(each[key]) for each in found for key in ("Image", "ImageID"))

    def rename(self, container_id: str, name: str) -> None:
        """Rename a container."""
        with translated("rename container"):
            self.client.api.rename(container_id, name)

    def commit(self, container_id: str, ref: str, labels: Mapping[str, str]) -> str:
        """Make an image, tagged ref, of the files of an idle container, and return its id."""
        repository, _, tag = ref.rpartition(":")
        with translated("commit container"):
            made = self.client.api.commit(
                container_id,
                repository=repository,
                tag=tag,
                changes=[f"LABEL {key}={value}" for key, value in labels.items()],
                pause=False,
            )
        return str(made["Id"])

    def _raw(self, container_id: str) -> dict[str, Any] | None:
        import docker.errors

        with translated("inspect container"):
            try:
                return dict(asked(self.client, "/containers/{0}/json", container_id))
            except docker.errors.NotFound:
                return None

    def _wait_ended(self, container_id: str) -> None:
        import docker.errors

        with suppress(docker.errors.NotFound):
            self.client.api.wait(container_id, timeout=60)

    def _wait_removed(self, container_id: str) -> None:
        import docker.errors

        try:
            self.client.api.wait(container_id, timeout=60, condition="removed")
        except docker.errors.NotFound:
            return
