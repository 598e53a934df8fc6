"""The OpenAPI document, made of the operations and their types."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

import lim2
from lim2.serve.errors import ErrorResponse
from lim2.serve.examples import BODIES, in_path
from lim2.serve.operations import Operation

TEXT = ("metrics", "events", "docs", "index")  # operations whose answer is text
REASONS = {
    400: "The request is wrong; the message says what.",
    401: "The key is missing or wrong.",
    403: "The key is read-only.",
    404: "It does not exist.",
    405: "The path does not support this method.",
    408: "The body arrived too slowly.",
    409: "It conflicts with what exists.",
    413: "The body is too large.",
    503: "Not ready.",
}


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the document.

    Parameters
    ----------
    operations
        Everything that the service does.
    """
    return _document(tuple(operations))


@cache
def _document(operations: tuple[Operation, ...]) -> dict[str, Any]:
    kinds: list[Any] = [ErrorResponse]
    for own in operations:
        kinds += [kind for kind in (own.body, own.answer) if kind not in kinds]
    structs = [kind for kind in kinds if kind not in (None, bytes, str, dict)]
    schemas, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    known = dict(zip(structs, schemas, strict=True))
    paths: dict[str, Any] = {}
    for own in operations:
        paths.setdefault(plain_path(own.path), {})[own.method.lower()] = _operation(own, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "lim2",
            "version": lim2.__version__,
            "description": "Decisions that learn: Azure Personalizer's protocol, and lim2's own.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"key": []}, {"bearer": []}],
    }


def plain_path(path: str) -> str:
    """Return a route as OpenAPI writes it.

    Parameters
    ----------
    path
        As Starlette writes it.

    Examples
    --------
    >>> plain_path("/events/{event:path}/reward")
    '/events/{event}/reward'
    """
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _operation(own: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": own.name,
        "summary": own.summary,
        "tags": [own.tag],
        "parameters": _parameters(own),
        "responses": _responses(own, known),
    }
    if own.open:
        made["security"] = []
    if own.body is bytes:
        made["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif own.body is not None:
        content = {"schema": known[own.body], "example": BODIES[own.body]}
        made["requestBody"] = {"required": True, "content": {"application/json": content}}
    return made


def _parameters(own: Operation) -> list[dict[str, Any]]:
    text = {"type": "string", "minLength": 1, "maxLength": 256}
    found = [
        {"name": name, "in": "path", "required": True, "schema": text, "example": in_path(own, name)}
        for name in re.findall(r"\{(\w+)(?::\w+)?\}", own.path)
    ]
    if own.version is not None:
        found.append({"name": "api-version", "in": "query", "required": False, "schema": {"enum": [own.version]}})
    if own.query is None:
        return found
    schema = msgspec.json.schema_components([own.query])[1][own.query.__name__]
    required = schema.get("required", ())
    found += [
        {"name": name, "in": "query", "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]
    return found


def _responses(own: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {str(own.status): {"description": own.summary, **_content(own, known)}}
    if own.name in ("create", "add_arm"):
        made["200"] = {"description": "It exists already, and nothing has changed.", **_content(own, known)}
    for status in own.errors:
        content = known[own.answer] if status == 503 else known[ErrorResponse]
        made[str(status)] = {"description": REASONS[status], "content": {"application/json": {"schema": content}}}
    return made


def _content(own: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    if own.answer is None:
        return {}
    if own.answer is bytes:
        return {"content": {"application/octet-stream": {}}}
    if own.name in TEXT:
        kind = {"metrics": "text/plain", "events": "text/event-stream"}.get(own.name, "text/html")
        return {"content": {kind: {"schema": {"type": "string"}}}}
    schema = known.get(own.answer, {"type": "object"})
    return {"content": {"application/json": {"schema": schema}}}
