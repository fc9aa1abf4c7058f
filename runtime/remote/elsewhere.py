"""A command line on an engine of another machine, from its words to its exit code."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing

from holdfast.engine.engine_place import EnginePlace
from holdfast.runtime.remote import controller_container, engine_tunnel, local_paths
from holdfast.runtime.remote.caller_streams import CallerStreams
from holdfast.runtime.remote.relay import Relay


def run(given: Sequence[str], place: EnginePlace, say: Callable[[str], None]) -> int:
    """Run a command line beside the engine, and return its exit code.

    Raises:
        EngineError: no controller can be started there.
        EngineUnavailable: the engine cannot be reached, or the connection was lost.
        ImageError: the controller's image cannot be built.
        InvalidArgument: it names files of this machine.
    """
    line = local_paths.CommandLine.of(given)
    local_paths.refuse(line, {word: os.path.exists(word) for word in line.options})  # noqa: PTH110 - bytes of any kind
    streams = CallerStreams.of_process(reads=local_paths.reads_input(line))
    environment = local_paths.variables(line, os.environ)
    with engine_tunnel.connected(place) as engine:
        stream = controller_container.joined(engine, engine_tunnel.socket_of(place), os.environ, say)
        with closing(stream):
            return Relay(stream, streams).run(list(given), environment)
