"""A session as the environment of mini-swe-agent: `environment_class` takes the dotted path of the class."""

from __future__ import annotations

import platform
from contextlib import suppress
from typing import Any

from minisweagent.exceptions import Submitted
from pydantic import BaseModel

from holdfast.errors import HoldfastError
from holdfast.runtime.adapters import merged_command
from holdfast.runtime.api.controller import Holdfast

SUBMITS = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""The first line of the output of an agent that is done."""


class HoldfastEnvironmentConfig(BaseModel):
    """The options by which the session is made or found.

    `session` names one that exists, and stays; else one is made, from `template` or `image`, and removed at
    the end unless it is to be kept. `url` is the URL of a server. `timeout` is in seconds.
    """

    session: str | None = None
    template: str | None = None
    image: str | None = None
    network: str | None = None
    url: str | None = None
    cwd: str = ""
    env: dict[str, str] = {}
    timeout: int = 30
    keep: bool = False


class HoldfastEnvironment:
    """Runs each action in a shell of its own. `session` is the session's handle, for snapshots and forks."""

    def __init__(self, *, config_class: type = HoldfastEnvironmentConfig, **options: Any) -> None:
        self.config = config_class(**options)
        self._controller = Holdfast(self.config.url)
        if self.config.session is not None:
            self.session = self._controller.session(self.config.session)
        else:
            chosen = {name: getattr(self.config, name) for name in ("template", "image", "network")}
            self.session = self._controller.new(**chosen)

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run the command of an action.

        Raises:
            Submitted: the agent is done.
        """
        command = str(action.get("command", ""))
        seconds = timeout or self.config.timeout
        try:
            result = self.session.run(
                merged_command.words(command, login=True),
                cwd=cwd or self.config.cwd or None,
                env=self.config.env,
                timeout=seconds,
            )
        except HoldfastError as error:
            return _told("", -1, error)
        output = merged_command.text(result)
        if result.timed_out:
            return _told(output, -1, TimeoutError(f"the command took more than {seconds} s, and was ended"))
        told = _told(output, merged_command.exit_code(result))
        _check_submitted(told)
        return told

    def get_template_vars(self, **more: Any) -> dict[str, Any]:
        """Return the values that prompts can name."""
        return {**self.config.model_dump(), **platform.uname()._asdict(), "system": "Linux", **more}

    def serialize(self) -> dict[str, Any]:
        """Return the recorded description."""
        kind = f"{type(self).__module__}.{type(self).__name__}"
        config = {"environment": self.config.model_dump(mode="json"), "environment_type": kind}
        return {"info": {"config": config, "holdfast_session": self.session.id}}

    def cleanup(self) -> None:
        """Remove the session, unless it existed before or is to be kept."""
        with suppress(HoldfastError):
            if self.config.session is None and not self.config.keep:
                self.session.remove()
        self._controller.close()


def _told(output: str, code: int, error: Exception | None = None) -> dict[str, Any]:
    told: dict[str, Any] = {"output": output, "returncode": code, "exception_info": ""}
    if error is not None:
        told["exception_info"] = f"An error occurred while executing the command: {error}"
        told["extra"] = {"exception_type": type(error).__name__, "exception": str(error)}
    return told


def _check_submitted(told: dict[str, Any]) -> None:
    lines = told["output"].lstrip().splitlines(keepends=True)
    if lines and lines[0].strip() == SUBMITS and told["returncode"] == 0:
        text = "".join(lines[1:])
        extra = {"exit_status": "Submitted", "submission": text}
        raise Submitted({"role": "exit", "content": text, "extra": extra})
