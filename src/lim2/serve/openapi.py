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
    kinds = dict.fromkeys(
        [ErrorResponse, *(kind for operation in operations for kind in (operation.body, operation.answer))]
    )
    structs = [kind for kind in kinds if kind not in (None, bytes, str, dict)]
    schemas, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    known = dict(zip(structs, schemas, strict=True))
    paths: dict[str, Any] = {}
    for operation in operations:
        paths.setdefault(plain_path(operation.path), {})[operation.method.lower()] = _operation(operation, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "lim2",
            "version": lim2.__version__,
            "description": description,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/", "description": "The service that has sent this document."}],
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in operations)],
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
    adapted = {name: _for_generators(part) for name, part in schema.items()}
    if adapted.get("type") == "object" and "properties" not in adapted:
        adapted.setdefault("additionalProperties", True)
    for field in adapted.get("properties", {}).values():
        default = field.pop("default", None)
        if default not in (None, {}, []):
            field["description"] = f"Default: {msgspec.json.encode(default).decode()}."
    return adapted


def plain_path(path: str) -> str:
    """Return a route as OpenAPI writes it.

    Examples
    --------
    >>> plain_path("/events/{event:path}/reward")
    '/events/{event}/reward'
    """
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path)


def _operation(operation: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    description: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": _parameters(operation),
        "responses": _responses(operation, known),
    }
    if operation.open:
        description["security"] = []
    if operation.body is bytes:
        description["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    elif operation.body is not None:
        content = {"schema": known[operation.body], "example": BODIES[operation.body]}
        description["requestBody"] = {"required": True, "content": {"application/json": content}}
    return description


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    text = {"type": "string", "minLength": 1, "maxLength": 256}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": text, "example": in_path(operation, name)}
        for name in re.findall(r"\{(\w+)(?::\w+)?\}", operation.path)
    ]
    if operation.version is not None:
        parameters.append(
            {"name": "api-version", "in": "query", "required": False, "schema": {"enum": [operation.version]}}
        )
    if operation.query is None:
        return parameters
    schema = msgspec.json.schema_components([operation.query])[1][operation.query.__name__]
    required = schema.get("required", ())
    parameters += [
        {"name": name, "in": "query", "required": name in required, "schema": part}
        for name, part in schema["properties"].items()
    ]
    return parameters


def _responses(operation: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    responses: dict[str, Any] = {
        str(operation.status): {"description": operation.summary, **_content(operation, known)}
    }
    if operation.name in ("create", "add_arm"):
        responses["200"] = {"description": "It exists already, and nothing has changed.", **_content(operation, known)}
    for status in statuses(operation):
        ready = operation.name == "readyz" and status == 503
        content = {"application/json": {"schema": known[operation.answer if ready else ErrorResponse]}}
        responses[str(status)] = {"description": REASONS[status], "content": content}
    return responses


def statuses(operation: Operation) -> list[int]:
    """Return the statuses of the errors that an operation may have."""
    errors = {500, 503, *operation.errors}
    if operation.body is not None or operation.query is not None or "{" in operation.path:
        errors.add(400)
    if operation.body is not None:
        errors |= {408, 413}
    if not operation.open:
        errors |= {401, 403}
        if "{" in operation.path:
            errors.add(404)
        if operation.method != "GET":
            errors.add(409)
    return sorted(errors)


def _content(operation: Operation, known: dict[Any, Any]) -> dict[str, Any]:
    if operation.answer is None:
        return {}
    if operation.answer is bytes:
        return {"content": {"application/octet-stream": {}}}
    if operation.name in TEXT:
        return {"content": {TEXT[operation.name]: {"schema": {"type": "string"}}}}
    schema = known.get(operation.answer, {"type": "object", "additionalProperties": True})
    return {"content": {"application/json": {"schema": schema}}}
