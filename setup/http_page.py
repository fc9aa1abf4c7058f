"""The page of the HTTP API, made of its OpenAPI document, as a hook of MkDocs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

PATH = "http-api.md"
HEAD = """# HTTP API

Every path of `holdfast serve`, with its parameters, its body and its answer. [server.md](server.md) says how
they are used, and a running server has the same as OpenAPI 3.1 at `/openapi.json`. Every request needs the
header `Authorization: Bearer TOKEN`. Errors have the form [ErrorAnswer](#erroranswer), with the codes of
[errors.md](errors.md).

"""
FORMS = """## Forms

The bodies of requests and answers, in JSON. A field that is not required can be left out.

"""
Schema = Mapping[str, Any]


def on_files(files: Files, config: Any) -> Files:
    """Add the page to those of the folder. See the events of MkDocs' plugins."""
    from mkdocs.structure.files import File

    from holdfast.runtime.serve import server_app

    document = server_app.inner(cast("Any", None)).openapi()  # no request is made: it needs no callers
    files.append(File.generated(config, PATH, content=page(document)))
    return files


def page(document: Schema) -> str:
    """Return the page of an OpenAPI document: each operation by its tag, and then each form."""
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            found = "".join(_operation(method.upper(), path, operation))
            groups.setdefault(operation["tags"][0], []).append(found)
    parts = [HEAD]
    for tag, found in groups.items():
        parts += [f"## {tag.capitalize()}\n\n", *found]
    parts.append(FORMS)
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts += _form(name, schema)
    return "".join(parts)


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"### {method} {path}\n\n{operation.get('description', '').strip()}\n\n"
    rows = [
        (
            each["name"],
            each["in"],
            kind(each["schema"]),
            _meaning(each.get("description", ""), each["schema"]),
        )
        for each in operation.get("parameters", ())
    ]
    yield table(("parameter", "in", "type", "meaning"), rows)
    if "requestBody" in operation:
        yield f"Body: {_contents(operation['requestBody']['content'])}\n\n"
    for status, answer in operation["responses"].items():
        if status < "300":
            said = answer["description"].rstrip(".")
            more = "" if said == "Successful Response" else f" {said}."
            yield f"Answer {status}: {_contents(answer.get('content', {})) or 'nothing.'}{more}\n\n"
    failures = [status for status in operation["responses"] if status >= "400"]
    if failures:
        yield f"Errors: {', '.join(failures)}\n\n"


def _contents(content: Schema) -> str:
    """Return the forms of a body, each with its media type unless that is JSON."""
    found = []
    for media, each in content.items():
        form = kind(each["schema"]) if "schema" in each else "events"
        found.append(form if media == "application/json" else f"{form} (`{media}`)")
    return " or ".join(found) + "." if found else ""


def _form(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n\n{schema.get('description', '').strip()}\n\n"
    needed = schema.get("required", ())
    rows = [
        (field, kind(each), "yes" if field in needed else "", _meaning(each.get("description", ""), each))
        for field, each in schema.get("properties", {}).items()
    ]
    yield table(("field", "type", "required", "meaning"), rows) or f"Its values: {kind(schema)}.\n\n"


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table whose first column is code; nothing without rows."""
    if not rows:
        return ""
    lines = [head, ("---",) * len(head), *((f"`{first}`", *rest) for first, *rest in rows)]
    return "".join(f"| {' | '.join(_cell(each) for each in line)} |\n" for line in lines) + "\n"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def kind(schema: Schema) -> str:
    """Return the type of a value, with a link if it is a form of its own."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if forms := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(kind(each) for each in forms)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return ", ".join(f"`{json.dumps(each)}`" for each in values)
    found = schema.get("type", "any")
    if found == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if found == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(found) if isinstance(found, str) else " or ".join(found)


def _meaning(description: str, schema: Schema) -> str:
    """Return the meaning of a value, with its default and its limits."""
    forms = [schema, *schema.get("anyOf", ())]
    limits = [
        f"{word} {each[key]:g}"
        for key, word in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "more than"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "less than"),
        )
        for each in forms
        if key in each
    ]
    most = [f"at most {each['maxLength']} characters" for each in forms if "maxLength" in each]
    default = [f"default: `{json.dumps(schema['default'])}`"] if schema.get("default") is not None else []
    notes = "; ".join([*default, *limits, *most])
    return f"{description} ({notes})" if description and notes else description or notes
