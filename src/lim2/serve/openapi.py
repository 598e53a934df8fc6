"""The OpenAPI documents of the two protocols, made of the operations and their types."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

import lim2
from lim2.serve.errors import ErrorResponse
from lim2.serve.examples import BODIES, in_path
from lim2.serve.operations import Operation

TEXT = {"metrics": "text/plain", "events": "text/event-stream", "docs": "text/html", "index": "text/html"}
REASONS = {
    400: "The request is wrong; the message says what.",
    401: "The key is missing or wrong.",
    403: "The key has another role, or is for other bandits.",
    404: "It does not exist.",
    408: "The body arrived too slowly.",
    409: "It conflicts with what exists.",
    413: "The body is too large.",
    500: "The service failed; its log has the reason.",
    503: "The service starts or ends, or its database is unreachable; send the request again after Retry-After.",
}
KEYS = {
    "key": {"type": "apiKey", "in": "header", "name": "Ocp-Apim-Subscription-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}


def document(operations: Sequence[Operation], description: str) -> dict[str, Any]:
    """Return the document of some operations."""
    return _document(tuple(operations), description)


@cache
def _document(operations: tuple[Operation, ...], description: str) -> dict[str, Any]:
    kinds = dict.fromkeys([ErrorResponse, *(kind for own in operations for kind in (own.body, own.answer))])
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
            "description": description,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "The service that has sent this document."}],
        "tags": [{"name": name} for name in dict.fromkeys(own.tag for own in operations)],
        "paths": paths,
        "components": {
            "schemas": {name: _for_generators(schema) for name, schema in components.items()},
            "securitySchemes": KEYS,
        },
        "security": [{name: []} for name in KEYS],
    }


def _for_generators(schema: Any) -> Any:
    """Return a schema as generators of clients need it.

    They take objects without properties as empty, unless it is said that they may have any; and fields with a default
    as required in requests, so that a default is described in words.
    """
    if isinstance(schema, list):
        return [_for_generators(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _for_generators(part) for name, part in schema.items()}
    if made.get("type") == "object" and "properties" not in made:
        made.setdefault("additionalProperties", True)
    for field in made.get("properties", {}).values():
        default = field.pop("default", None)
        if default not in (None, {}, []):
            field["description"] = f"Default: {msgspec.json.encode(default).decode()}."
    return made


def plain_path(path: str) -> str:
    """Return a route as OpenAPI writes it.

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
    for status in statuses(own):
        ready = own.name == "readyz" and status == 503
        content = {"application/json": {"schema": known[own.answer if ready else ErrorResponse]}}
        made[str(status)] = {"description": REASONS[status], "content": content}
    return made


def statuses(own: Operation) -> list[int]:
    """Return the statuses of the errors that an operation may have."""
    found = {500, 503, *own.errors}
    if own.body is not None or own.query is not None or "{" in own.path:
        found.add(400)
    if own.body is not None:
        found |= {408, 413}
    if not own.open:
        found |= {401, 403}
        if "{" in own.path:
            found.add(404)
        if own.method != "GET":
            found.add(409)
    return sorted(found)


def _content(own: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    if own.answer is None:
        return {}
    if own.answer is bytes:
        return {"content": {"application/octet-stream": {}}}
    if own.name in TEXT:
        return {"content": {TEXT[own.name]: {"schema": {"type": "string"}}}}
    schema = known.get(own.answer, {"type": "object", "additionalProperties": True})
    return {"content": {"application/json": {"schema": schema}}}
