"""A model that says what a test has written down, behind OpenAI's Responses API on a port of loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Item = dict[str, Any]
Turn = Callable[[list[str]], Item]
"""Makes an item of the model's answer from the outputs of all tool calls before."""


def says(text: str) -> Item:
    """Return a message."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}


def calls(name: str, number: int, **arguments: Any) -> Item:
    """Return a call of a tool; no two of one run have the same number."""
    told = {"name": name, "arguments": json.dumps(arguments), "status": "completed"}
    return {"type": "function_call", "id": f"f{number}", "call_id": f"call-{number}", **told}


def patches(text: str, number: int) -> Item:
    """Return a call of `apply_patch`, whose input is not JSON."""
    return {
        "type": "custom_tool_call",
        "id": f"p{number}",
        "call_id": f"call-{number}",
        "name": "apply_patch",
        "input": text,
    }


@contextmanager
def scripted(turns: Sequence[Turn]) -> Iterator[str]:
    """Answer one turn after the other; yield the base address of the API."""
    left = iter(turns)

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            items = asked["input"] if isinstance(asked["input"], list) else []
            outputs = [_text(each["output"]) for each in items if each.get("type", "").endswith("_output")]
            body = json.dumps(_response(next(left)(outputs))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert next(left, None) is None, "the agent ended before its model had said everything"


def _text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output)


def _response(item: Item) -> Item:
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "r",
        "object": "response",
        "created_at": 0,
        "model": "scripted",
        "status": "completed",
        "output": [item],
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, **details},
    }
